//! Normalizers: changes to texts before they are compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A change to a text before it is compared. Normalizers apply in the order of their list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalizer {
    /// All letters become lowercase.
    Lowercase,
    /// White space at both ends is removed.
    Strip,
    /// ASCII punctuation is removed.
    RemovePunctuation,
    /// Each run of white space becomes one space, and white space at both ends is removed.
    CollapseWhitespace,
    /// A text that is a key of the map becomes its value.
    Synonyms(BTreeMap<String, String>),
}

impl Normalizer {
    fn apply(&self, text: &str) -> String {
        match self {
            Self::Lowercase => text.to_lowercase(),
            Self::Strip => text.trim().to_owned(),
            Self::RemovePunctuation => text.chars().filter(|c| !c.is_ascii_punctuation()).collect(),
            Self::CollapseWhitespace => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Self::Synonyms(map) => map.get(text).map_or(text, String::as_str).to_owned(),
        }
    }
}

/// Applies normalizers in order.
pub(super) fn normalized(normalizers: &[Normalizer], text: &str) -> String {
    normalizers.iter().fold(text.to_owned(), |text, normalizer| normalizer.apply(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(normalizers: &[Normalizer], text: &str, expected: &str) {
        assert_eq!(normalized(normalizers, text), expected);
    }

    #[test]
    fn every_normalizer_does_its_part() {
        check(&[], " A ", " A ");
        check(&[Normalizer::Lowercase], "ÀB", "àb");
        check(&[Normalizer::Strip], "\t a b\n", "a b");
        check(&[Normalizer::RemovePunctuation], "a.b-c!?`~“", "abc“");
        check(&[Normalizer::CollapseWhitespace], "  a \n\t b ", "a b");
        let synonyms = Normalizer::Synonyms(BTreeMap::from([("nyc".to_owned(), "new york".to_owned())]));
        check(std::slice::from_ref(&synonyms), "nyc", "new york");
        check(std::slice::from_ref(&synonyms), "nyc!", "nyc!");
        check(&[Normalizer::RemovePunctuation, synonyms], "nyc!", "new york");
    }

    #[test]
    fn normalizers_apply_in_their_order() {
        let synonyms = Normalizer::Synonyms(BTreeMap::from([("US".to_owned(), "usa".to_owned())]));
        check(&[Normalizer::Lowercase, synonyms.clone()], "US", "us");
        check(&[synonyms, Normalizer::Lowercase], "US", "usa");
    }
}
