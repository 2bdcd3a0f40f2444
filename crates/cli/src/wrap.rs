//! Text in lines that fit: broken between words, never inside one.

/// A text in lines that are no longer than that, unless a word is.
pub(crate) fn wrapped(text: &str, longest: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > longest {
            lines.push(String::new());
            length = 0;
        }
        if let Some(line) = lines.last_mut() {
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += more;
        }
    }
    lines
}

/// A message behind a word such as `error: `, of so many characters. Lines that fit stay as they are, and what does not
/// goes on below, a little to the right.
pub(crate) fn message(text: &str, before: usize, width: usize) -> String {
    const INDENT: usize = 2;
    let line = |(index, line): (usize, &str)| {
        let before = if index == 0 { before } else { 0 };
        if before + line.chars().count() <= width {
            return line.to_owned();
        }
        // What stands before the first word takes its room.
        let room = width.saturating_sub(before.max(INDENT)).max(1);
        wrapped(line, room).join(&format!("\n{:INDENT$}", ""))
    };
    text.split('\n').enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_kept_whole_and_everything_else_fits() {
        let lines = wrapped("a path /which/is/far/too/long/for/this and more of it", 12);
        assert_eq!(lines, ["a path", "/which/is/far/too/long/for/this", "and more of", "it"]);
    }

    #[test]
    fn a_message_goes_on_below_and_what_fits_stays_as_it_is() {
        assert_eq!(message("the server is  gone", 7, 30), "the server is  gone");
        assert_eq!(message("the server is gone again", 7, 20), "the server is\n  gone again");
        assert_eq!(message("one\n  two three four", 0, 12), "one\ntwo three\n  four");
    }
}
