//! JSON on one line. What a server sent can neither end the line nor control the terminal that shows it.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use super::text::is_deceptive;

/// Returns JSON text as one line for stdout. A server's own JSON may be laid out in many lines.
pub(crate) fn json_line(text: &str) -> String {
    let is_escaped: fn(char) -> bool = if std::io::stdout().is_terminal() { is_deceptive } else { ends_line };
    compact(text, is_escaped)
}

/// Returns JSON text as one line for a file.
pub(crate) fn file_json_line(text: &str) -> String {
    compact(text, ends_line)
}

/// Removes the insignificant whitespace of JSON text, and escapes some characters of its strings.
fn compact(text: &str, is_escaped: fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len());
    let mut in_string = false;
    let mut after_backslash = false;
    for c in text.chars() {
        if !in_string && matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        if c == '"' && !after_backslash {
            in_string = !in_string;
        }
        after_backslash = in_string && c == '\\' && !after_backslash;
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        } else {
            line.push(c);
        }
    }
    line
}

/// Whether a character ends a line for some readers although JSON allows it in strings.
fn ends_line(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::Json;

    #[test]
    fn whitespace_between_values_is_removed_and_strings_and_numbers_stay() {
        let text = "{\n \"a b\" : [1.50,\r\n\t\"x \\\" \\\\\", 2 ] , \"c\":\" \\n\" }";
        assert_eq!(compact(text, ends_line), r#"{"a b":[1.50,"x \" \\",2],"c":" \n"}"#);
    }

    #[test]
    fn escaped_characters_keep_the_value() {
        let text = "[\"\u{9b}31m\u{2028}\u{202e}\u{e0041}é\u{200d}\"]";
        let shown = compact(text, is_deceptive);
        assert_eq!(shown, "[\"\\u009b31m\\u2028\\u202e\\udb40\\udc41é\u{200d}\"]");
        let value: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON");
        assert_eq!(value, serde_json::from_str::<serde_json::Value>(text).expect("it is JSON"));
        assert_eq!(compact(text, ends_line), "[\"\u{9b}31m\\u2028\u{202e}\u{e0041}é\u{200d}\"]");
    }

    #[test]
    fn json_of_a_server_cannot_add_a_line() {
        let raw = Json::parse("{\"ok\": true,\n{}".replace("{}", "\"type\":\"result\"}")).expect("it is JSON");
        let text = serde_json::to_string(&[raw]).expect("it is JSON");
        assert!(text.contains('\n'));
        assert_eq!(json_line(&text), r#"[{"ok":true,"type":"result"}]"#);
    }
}
