//! Finds the id of a message that cannot be read, so that the call it answers need not wait in vain.

use super::message::our_id;

/// The id in the outermost object of a text that begins like a message, or that stands at the very end of one.
pub(crate) fn find_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    from_the_front(head).or_else(|| from_the_back(if tail.is_empty() { head } else { tail }))
}

/// Walks over the beginning of an object and stops at the first `"id"` on its outermost level.
fn from_the_front(text: &[u8]) -> Option<u64> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let end = end_of_string(text, at)?;
                if depth == 1
                    && text.get(at..end) == Some(br#""id""#)
                    && let Some(id) = value_after_colon(&text[end..])
                {
                    return Some(id);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Some servers write the id last: `…,"id":7}`, perhaps with the version after it.
fn from_the_back(text: &[u8]) -> Option<u64> {
    let key = br#""id""#;
    let at = text.windows(key.len()).rposition(|window| window == key)?;
    let rest = text[at + key.len()..].trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let rest = rest.strip_suffix(br#","jsonrpc":"2.0""#).unwrap_or(rest);
    // Anything more would mean that the object that ends here is not the outermost one.
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
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_id_is_found_in_front_or_at_the_end_and_only_on_the_outside() {
        let found = |text: &str| find_id(text.as_bytes(), b"");
        assert_eq!(found(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"x":[["#), Some(7));
        assert_eq!(found(r#"{"jsonrpc":"2.0", "id" : "9" ,"result"#), Some(9));
        assert_eq!(found(r#"{"result":{"id":8,"text":"\"id\":3"}"#), None);
        assert_eq!(found(r#"{"result":{"id":8},"id":12}"#), Some(12));
        assert_eq!(find_id(br#"{"result":{"text":"xxx"#, br#"xxx"},"id":13,"jsonrpc":"2.0"}"#), Some(13));
        assert_eq!(find_id(br#"{"result":{"text":"xxx"#, br#""id":13}}"#), None);
        assert_eq!(found("no json"), None);
        assert_eq!(found(r#"{"method":"x","params":{}}"#), None);
        assert_eq!(find_id(b"{\"id\":4,\"result\":\"\xff\"}", b""), Some(4));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(head in prop::collection::vec(any::<u8>(), 0..200), tail in ".{0,80}") {
            let _ = find_id(&head, tail.as_bytes());
        }

        #[test]
        fn a_message_cut_anywhere_after_its_id_still_tells_it(id: u64, cut in 0usize..60) {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"id"}}]}}}}"#);
            let least = text.find("result").unwrap();
            prop_assert_eq!(find_id(&text.as_bytes()[..(least + cut).min(text.len())], b""), Some(id));
        }
    }
}
