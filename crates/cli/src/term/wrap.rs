//! Word wrapping: lines break between words, never inside one.

/// Wraps a text into lines of at most `width` characters. A longer word gets a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > width {
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

/// Wraps a message that follows a label such as `error: ` of `label` characters. Lines that fit stay as they are; the rest
/// of a longer line is indented.
pub(super) fn message(text: &str, label: usize, width: usize) -> String {
    const INDENT: usize = 2;
    let line = |(index, line): (usize, &str)| {
        let before = if index == 0 { label } else { 0 };
        if before + line.chars().count() <= width {
            return line.to_owned();
        }
        // The label takes its share of the first line.
        let room = width.saturating_sub(before.max(INDENT)).max(1);
        wrapped(line, room).join(&format!("\n{:INDENT$}", ""))
    };
    text.split('\n').enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_stay_whole_and_everything_else_fits() {
        let lines = wrapped("a path /which/is/far/too/long/for/this and more of it", 12);
        assert_eq!(lines, ["a path", "/which/is/far/too/long/for/this", "and more of", "it"]);
    }

    #[test]
    fn a_message_is_wrapped_only_where_it_does_not_fit() {
        assert_eq!(message("the server is  gone", 7, 30), "the server is  gone");
        assert_eq!(message("the server is gone again", 7, 20), "the server is\n  gone again");
        assert_eq!(message("one\n  two three four", 0, 12), "one\ntwo three\n  four");
    }
}
