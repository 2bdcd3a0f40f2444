//! Texts that are longer than anybody should have to read.

/// How the end of a text says that there was more.
const MARK: &str = "… [cut]";

/// A text cut to at most `limit` characters, its mark counted; `None` if it is no longer than that.
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
    fn a_cut_text_says_so() {
        assert_eq!(cut("a long description", 12).as_deref(), Some("a lon… [cut]"));
        assert_eq!(cut("a description", 13), None);
        assert_eq!(cut("ééééééééé", 8).as_deref(), Some("é… [cut]"));
        assert_eq!(cut("anything", 0).as_deref(), Some(""));
    }

    proptest! {
        #[test]
        fn nothing_is_longer_than_its_limit_nor_cut_without_need(text in "[aé漢🦀 ]{0,40}", limit in 0_usize..40) {
            match cut(&text, limit) {
                Some(shortened) => prop_assert_eq!(shortened.chars().count(), limit),
                None => prop_assert!(text.chars().count() <= limit),
            }
        }
    }
}
