//! Counting tokens. The tokenizer's tables are read on first use, so that other commands do not pay for them.

pub(super) const TOKENIZER: &str = "o200k_base";

/// Reads the tables in advance.
pub(super) fn warm_up() {
    tokens("");
}

/// Counts the tokens of a text.
pub(super) fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_and_not_estimated_from_characters() {
        let texts = ["", "hello world", "Antidisestablishmentarianism", "日本語", "{\"type\":\"object\"}"];
        assert_eq!(texts.map(tokens), [0, 2, 6, 2, 5]);
    }
}
