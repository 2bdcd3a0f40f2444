//! Counting tokens. The tokenizer's tables are read when something is first counted, so other commands do not pay.

/// What the tokens are counted by.
pub(super) const TOKENIZER: &str = "o200k_base";

/// Reads the tables, so that counting is quick.
pub(super) fn warm_up() {
    tokens("");
}

/// How many tokens a text is.
pub(super) fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_guessed_from_characters() {
        let texts = ["", "hello world", "Antidisestablishmentarianism", "日本語", "{\"type\":\"object\"}"];
        assert_eq!(texts.map(tokens), [0, 2, 6, 2, 5]);
    }
}
