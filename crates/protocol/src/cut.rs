//! Limits the length of text.

/// Marks the end of a shortened text.
const MARK: &str = "… [cut]";

/// Cuts a text to at most `limit` characters, including the mark. Returns `None` if it is short enough.
pub fn cut(text: &str, limit: usize) -> Option<String> {
    text.char_indices().nth(limit)?;
    let room = limit.saturating_sub(MARK.chars().count());
    let mut shortened: String = text.chars().take(room).collect();
    shortened.extend(MARK.chars().take(limit));
    Some(shortened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_shortened_text_ends_with_the_mark() {
        assert_eq!(cut("a long description", 12).as_deref(), Some("a lon… [cut]"));
        assert_eq!(cut("a description", 13), None);
        assert_eq!(cut("ééééééééé", 8).as_deref(), Some("é… [cut]"));
        assert_eq!(cut("anything", 0).as_deref(), Some(""));
    }

    proptest! {
        #[test]
        fn text_is_cut_to_the_limit_only_if_it_is_longer(text in "[aé漢🦀 ]{0,40}", limit in 0_usize..40) {
            match cut(&text, limit) {
                Some(shortened) => prop_assert_eq!(shortened.chars().count(), limit),
                None => prop_assert!(text.chars().count() <= limit),
            }
        }
    }
}
