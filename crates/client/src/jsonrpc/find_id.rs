//! Finds the id of a message that cannot be parsed, so that the call it answers fails immediately.

use super::our_id;

/// What is known about a message that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundId {
    /// The answer to the request with this id.
    AnswerTo(u64),
    /// A request or notification of the server, which no call waits for.
    NotAnAnswer,
    /// The id was not found.
    Unknown,
}

/// Searches the outermost object of a message's beginning, and the very end of its last bytes.
pub(crate) fn find_id(head: &[u8], tail: &[u8]) -> FoundId {
    let (id, has_method) = from_the_front(head);
    if has_method {
        return FoundId::NotAnAnswer;
    }
    let id = id.or_else(|| from_the_back(tail));
    id.map_or(FoundId::Unknown, FoundId::AnswerTo)
}

/// Scans the beginning of an object for an `"id"` and a `"method"` on its outermost level.
fn from_the_front(text: &[u8]) -> (Option<u64>, bool) {
    let mut depth = 0_usize;
    let mut at = 0;
    let mut id = None;
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = end_of_string(text, at) else { break };
                let is_key = depth == 1 && text[end..].trim_ascii_start().starts_with(b":");
                match &text[at..end] {
                    br#""method""# if is_key => return (id, true),
                    br#""id""# if is_key && id.is_none() => id = value_after_colon(&text[end..]),
                    _ => {}
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (id, false)
}

/// Finds an id at the end: some servers write `…,"id":7}`, possibly with the version after it.
fn from_the_back(text: &[u8]) -> Option<u64> {
    let key = br#""id""#;
    let at = text.windows(key.len()).rposition(|window| window == key)?;
    let rest = text[at + key.len()..].trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let rest = rest.strip_suffix(br#","jsonrpc":"2.0""#).unwrap_or(rest);
    // If more follows, the object that ends here is not the outermost one.
    if rest.iter().any(|byte| matches!(byte, b',' | b'{' | b'}')) { None } else { value_after_colon(rest) }
}

fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn value_after_colon(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = text.iter().position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\r')).unwrap_or(text.len());
    our_id(std::str::from_utf8(&text[..end]).ok()?).0
}

#[cfg(test)]
mod tests {
    use super::FoundId::{AnswerTo, NotAnAnswer, Unknown};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_id_is_found_at_either_end_of_the_outermost_object_only() {
        let found = |text: &str| find_id(text.as_bytes(), b"");
        assert_eq!(found(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"x":[["#), AnswerTo(7));
        assert_eq!(found(r#"{"jsonrpc":"2.0", "id" : "9" ,"result"#), AnswerTo(9));
        assert_eq!(found(r#"{"result":{"id":8,"text":"\"id\":3"}"#), Unknown);
        assert_eq!(found(r#"{"result":{"id":8},"id":12}"#), AnswerTo(12));
        assert_eq!(find_id(br#"{"result":{"text":"xxx"#, br#"xxx"},"id":13,"jsonrpc":"2.0"}"#), AnswerTo(13));
        assert_eq!(find_id(br#"{"result":{"text":"xxx"#, br#""id":13}}"#), Unknown);
        assert_eq!(found(r#"{"jsonrpc":"2.0","result":{"user":{"id":3}"#), Unknown);
        assert_eq!(found("no json"), Unknown);
        assert_eq!(found(r#"{"id":3,"method":"x","params":{"#), NotAnAnswer);
        assert_eq!(found(r#"{"jsonrpc":"2.0","id":3,"result":"method"}"#), AnswerTo(3));
        assert_eq!(find_id(b"{\"id\":4,\"result\":\"\xff\"}", b""), AnswerTo(4));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(head in prop::collection::vec(any::<u8>(), 0..200), tail in ".{0,80}") {
            let _ = find_id(&head, tail.as_bytes());
        }

        #[test]
        fn the_id_of_a_truncated_message_is_found(id: u64, cut in 0usize..60) {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"id"}}]}}}}"#);
            let least = text.find("result").unwrap();
            prop_assert_eq!(find_id(&text.as_bytes()[..(least + cut).min(text.len())], b""), AnswerTo(id));
        }
    }
}
