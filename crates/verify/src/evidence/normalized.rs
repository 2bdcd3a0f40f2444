//! Texts without the differences that do not matter in a quotation: case, white space and punctuation.

/// A text in its normalized form, with the position of each of its characters in the original.
pub(super) struct Normalized {
    pub(super) text: String,
    pub(super) chars: Vec<char>,
    /// For each character, its position in the original, in characters.
    positions: Vec<usize>,
}

impl Normalized {
    /// Normalizes at most `max` characters of a text.
    pub(super) fn new(text: &str, max: usize) -> Self {
        let mut normalized = Self { text: String::new(), chars: Vec::new(), positions: Vec::new() };
        let mut has_gap = false;
        for (position, character) in text.chars().take(max).enumerate() {
            if !character.is_alphanumeric() {
                has_gap = true;
                continue;
            }
            if has_gap && !normalized.chars.is_empty() {
                normalized.push(' ', position);
            }
            has_gap = false;
            for lower in character.to_lowercase() {
                normalized.push(lower, position);
            }
        }
        normalized
    }

    fn push(&mut self, character: char, position: usize) {
        self.text.push(character);
        self.chars.push(character);
        self.positions.push(position);
    }

    /// Returns the range in the original of a range of this text, in characters.
    pub(super) fn original(&self, start: usize, end: usize) -> (usize, usize) {
        let first = self.positions.get(start).copied().unwrap_or_default();
        let last = end.checked_sub(1).and_then(|last| self.positions.get(last)).copied().unwrap_or(first);
        (first, last + 1)
    }

    /// Finds a text that neither begins nor ends within a word. Returns its position in this text.
    ///
    /// The search is linear: overlapping places are not tried.
    pub(super) fn find(&self, pattern: &str) -> Option<usize> {
        let is_word = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphanumeric());
        let (first, last) = (pattern.chars().next(), pattern.chars().next_back());
        let is_whole = |(start, _): &(usize, &str)| {
            let before = self.text[..*start].chars().next_back();
            let after = self.text[start + pattern.len()..].chars().next();
            !(is_word(before) && is_word(first) || is_word(last) && is_word(after))
        };
        let (start, _) = self.text.match_indices(pattern).find(is_whole)?;
        Some(self.text[..start].chars().count())
    }
}
