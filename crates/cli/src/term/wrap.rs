//! Word wrapping: lines break between words, and inside a word only where it could pass for a line of ours.

use super::labels::contains_label;

/// Wraps a text into lines of at most `width` columns. A longer word gets a line of its own. The terminal breaks it, so
/// one that contains a label of ours is broken here: the caller indents its rows.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    joined(text.split_whitespace().flat_map(|word| parts(word, width)), width)
}

/// Like [`wrapped`], but breaks every word that is longer than a row, after a `/` if it has one.
pub(crate) fn broken(text: &str, width: usize) -> Vec<String> {
    joined(text.split_whitespace().flat_map(|word| rows(word, width)), width)
}

/// Joins words to lines of at most `width` columns.
fn joined<'a>(words: impl Iterator<Item = &'a str>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut length = 0;
    for word in words {
        let more = columns(word);
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

/// Returns a word, or the rows of one that the terminal must not break.
fn parts(word: &str, width: usize) -> Vec<&str> {
    if contains_label(word) { rows(word, width) } else { vec![word] }
}

/// Breaks a word into rows of at most `width` columns.
fn rows(word: &str, width: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut rest = word;
    while columns(rest) > width {
        let end = fitting(rest, width);
        let end = rest[..end].rfind('/').map_or(end, |slash| slash + 1);
        let (row, more) = rest.split_at(end);
        rows.push(row);
        rest = more;
    }
    if !rest.is_empty() {
        rows.push(rest);
    }
    rows
}

/// Columns before every line of a message but the first.
const INDENT: usize = 2;
/// How far before the end of a row [`filled`] looks for a space.
const RAGGED_COLUMNS: usize = 20;

/// Wraps a message that follows a label such as `error: ` of `label` characters. Lines that fit stay as they are. All
/// lines but the first are indented, and so is the rest of a longer line.
pub(super) fn message(text: &str, label: usize, width: usize) -> String {
    let line = |(index, line): (usize, &str)| {
        let is_first = index == 0;
        if line.trim().is_empty() {
            return String::new();
        }
        let is_indented = line.chars().take_while(|c| *c == ' ').count() >= INDENT;
        let line = if is_first || is_indented { line.to_owned() } else { format!("{:INDENT$}{line}", "") };
        let before = if is_first { label } else { 0 };
        if columns(&line).saturating_add(before) <= width {
            return line;
        }
        // The label takes its share of the first line.
        let room = width.saturating_sub(before.max(INDENT)).max(1);
        let rows = wrapped(&line, room).join(&format!("\n{:INDENT$}", ""));
        if is_first { rows } else { format!("{:INDENT$}{rows}", "") }
    };
    text.split('\n').enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Breaks a text into rows that fit between a prefix and the end of the terminal, so that every row begins with the
/// prefix. All characters stay: unlike [`wrapped`], this breaks long words and leaves runs of spaces.
pub(crate) fn filled(text: &str, prefix: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(columns(prefix)).max(1);
    let mut rows = Vec::new();
    let mut rest = text;
    loop {
        let fitting = fitting(rest, room);
        let mut end = fitting;
        if end < rest.len()
            && let Some(space) = rest[..end].rfind(' ')
            && columns(&rest[space..end]) <= RAGGED_COLUMNS
        {
            end = space + 1;
        }
        rows.push(format!("{prefix}{}", &rest[..end]));
        rest = &rest[end..];
        if rest.is_empty() {
            return rows;
        }
    }
}

/// What begins the rows that continue a text of strangers. It is as wide as the key of a review.
const MARK: &str = "          │ ";
/// The same, for a terminal without room for the indentation.
const NARROW_MARK: &str = "│ ";
const NARROW_COLUMNS: usize = 48;

/// Breaks a text of strangers into rows. The first one follows a label of `label` columns; all others begin with a mark, so
/// that none of them looks like a row of ours, however narrow the terminal is.
pub(super) fn marked(text: &str, label: usize, width: Option<usize>) -> Vec<String> {
    let width = width.unwrap_or(usize::MAX);
    let mark = if width < NARROW_COLUMNS { NARROW_MARK } else { MARK };
    // One column less than the terminal has, so that no terminal breaks the row.
    let room = width.saturating_sub(label.max(columns(mark)) + 1);
    let rows = filled(text, "", room).into_iter().enumerate();
    rows.map(|(index, row)| if index == 0 { row } else { format!("{mark}{row}") }).collect()
}

/// Cuts the middle out of a text that is wider than `room`.
pub(super) fn middle_cut(text: &str, room: usize) -> String {
    const CUT: &str = " … ";
    if columns(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(columns(CUT));
    let head = fitting(text, room * 2 / 3);
    let mut tail = text.len();
    for (at, _) in text.char_indices().rev() {
        if at < head || columns(&text[at..]) > room / 3 {
            break;
        }
        tail = at;
    }
    format!("{}{CUT}{}", &text[..head], &text[tail..])
}

/// Returns how many bytes of a text fit; at least one character.
fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    let does_not_fit = |(at, c): (usize, char)| {
        used += width_of(c);
        (used > room && at > 0).then_some(at)
    };
    text.char_indices().find_map(does_not_fit).unwrap_or(text.len())
}

/// Returns how many columns a text takes at most.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// A character that is not ASCII counts for two columns, as it may be wide, and a tab for as many as it may skip.
fn width_of(c: char) -> usize {
    match c {
        '\t' => 8,
        c if c.is_ascii() => 1,
        _ => 2,
    }
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
        assert_eq!(message("one\n  two three four", 0, 12), "one\n  two three\n  four");
    }

    #[test]
    fn a_long_word_is_broken_after_a_slash() {
        assert_eq!(broken("at /usr/local/share/x now", 12), ["at", "/usr/local/", "share/x now"]);
        assert_eq!(broken(&"y".repeat(7), 3), ["yyy", "yyy", "y"]);
        assert_eq!(wrapped("at /usr/local/share/x now", 12), ["at", "/usr/local/share/x", "now"]);
    }

    #[test]
    fn only_the_first_line_of_a_message_begins_in_the_first_column() {
        assert_eq!(
            message("no\nhint: run this\n    as it is\n", 7, usize::MAX),
            "no\n  hint: run this\n    as it is\n"
        );
        assert_eq!(message("no\nhint: run this now", 7, 14), "no\n  hint: run\n  this now");
    }

    #[test]
    fn a_word_that_contains_a_label_is_broken_and_its_rows_are_indented() {
        let word = format!("{}hint:run", "y".repeat(13));
        assert_eq!(message(&word, 7, 20), format!("{}\n  hint:run", "y".repeat(13)));
        let wide = format!("{}hint:run", "壊".repeat(9));
        let rows = message(&wide, 7, 20);
        assert!(rows.lines().skip(1).all(|row| row.starts_with("  ") && columns(row) <= 20), "{rows}");
    }

    #[test]
    fn only_spaces_count_as_indentation() {
        assert_eq!(message("no\n\u{a0}hint: run", 7, usize::MAX), "no\n  \u{a0}hint: run");
    }

    #[test]
    fn the_middle_of_a_long_text_is_cut() {
        assert_eq!(middle_cut("short", 10), "short");
        assert_eq!(middle_cut(&format!("run{}end", "-".repeat(90)), 16), "run----- … -end");
    }

    #[test]
    fn every_row_of_a_filled_text_begins_with_its_prefix() {
        assert_eq!(filled("", "s │ ", 80), ["s │ "]);
        let rows = filled(&format!("{}hint: 壊れた", " ".repeat(50)), "s │ ", 30);
        assert!(rows.iter().all(|row| row.starts_with("s │ ")), "{rows:?}");
        assert_eq!(rows.concat().replace("s │ ", "").trim_start(), "hint: 壊れた");
        assert_eq!(filled("one two three four five", "> ", 22), ["> one two three four ", "> five"]);
        let rows = filled(&"x".repeat(45), "", 22);
        assert_eq!(rows.iter().map(String::len).collect::<Vec<_>>(), [22, 22, 1]);
    }
}
