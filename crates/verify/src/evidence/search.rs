//! The search of excerpts in an answer.

use super::fuzzy;
use super::normalized::Normalized;
use super::{Excerpt, Subject};

/// The maximum length of an excerpt, in characters.
pub(crate) const MAX_EXCERPT_CHARS: usize = 1000;
/// How many characters of an answer are searched.
const MAX_SEARCHED_CHARS: usize = 1_000_000;
/// The work of all approximate searches in an answer, in compared characters. After it, only exact excerpts are found.
const MAX_WORK: usize = 20_000_000;

/// A text that excerpts are searched in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceText<'a> {
    /// Index of its message in the trace.
    pub(crate) message: Option<usize>,
    /// The text.
    pub(crate) text: &'a str,
}

/// Searches excerpts in the texts of one answer.
pub(crate) struct Searcher<'a> {
    sources: Vec<(SourceText<'a>, Normalized)>,
    threshold: f64,
    work_left: usize,
}

impl<'a> Searcher<'a> {
    pub(crate) fn new(sources: impl IntoIterator<Item = SourceText<'a>>, threshold: f64) -> Self {
        let mut left = MAX_SEARCHED_CHARS;
        let mut searched = Vec::new();
        for source in sources {
            let normalized = Normalized::new(source.text, left);
            left = left.saturating_sub(source.text.chars().take(left).count());
            searched.push((source, normalized));
        }
        Self { sources: searched, threshold, work_left: MAX_WORK }
    }

    /// Finds an excerpt: exactly, apart from case, white space and punctuation, or else approximately. Of several places,
    /// the last message with an exact one counts, because an answer that revises itself ends with what it means.
    pub(crate) fn find(&mut self, subject: &Subject, quoted: &str) -> Option<Excerpt> {
        if quoted.chars().nth(MAX_EXCERPT_CHARS).is_some() {
            return None;
        }
        let Normalized { text: wanted, chars: pattern, .. } = Normalized::new(quoted, MAX_EXCERPT_CHARS);
        if pattern.is_empty() {
            return None;
        }
        for (source, text) in self.sources.iter().rev() {
            if let Some(start) = text.find(&wanted) {
                let found = text.original(start, start + pattern.len());
                return Some(excerpt(subject, *source, found, (quoted, 1.0)));
            }
        }
        let work: usize = self.sources.iter().map(|(_, text)| fuzzy::work(pattern.len(), text.chars.len())).sum();
        self.work_left = self.work_left.checked_sub(work)?;
        let matches = self.sources.iter().filter_map(|(source, text)| {
            let found = whole_words(fuzzy::best_match(&pattern, &text.chars)?, &text.chars, pattern.len());
            let is_similar = found.similarity >= self.threshold && found.start < found.end;
            is_similar.then(|| (found, *source, text.original(found.start, found.end)))
        });
        let best = matches.max_by(|(a, ..), (b, ..)| a.similarity.total_cmp(&b.similarity));
        best.map(|(found, source, range)| excerpt(subject, source, range, (quoted, found.similarity)))
    }
}

/// Extends a match to whole words. What it did not contain counts as edits.
#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
fn whole_words(found: fuzzy::Match, text: &[char], pattern: usize) -> fuzzy::Match {
    let is_word = |at: usize| text.get(at).is_some_and(char::is_ascii_alphanumeric);
    let (mut start, mut end) = (found.start, found.end);
    while start > 0 && is_word(start) && is_word(start - 1) {
        start -= 1;
    }
    while end > 0 && is_word(end - 1) && is_word(end) {
        end += 1;
    }
    let added = (found.start - start) + (end - found.end);
    let similarity = found.similarity - added as f64 / pattern.max(1) as f64;
    fuzzy::Match { start, end, similarity }
}

fn excerpt(subject: &Subject, source: SourceText<'_>, range: (usize, usize), judged: (&str, f64)) -> Excerpt {
    let ((start, end), (quoted, similarity)) = (range, judged);
    let text: String = source.text.chars().skip(start).take(end - start).collect();
    let quoted = (text != quoted).then(|| quoted.to_owned());
    Excerpt { subject: subject.clone(), text, quoted, similarity, message: source.message, start, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in(texts: &[&str], quoted: &str) -> Option<Excerpt> {
        let sources = texts.iter().enumerate().map(|(index, text)| SourceText { message: Some(index), text });
        Searcher::new(sources, 0.8).find(&Subject::Attribute("f".to_owned()), quoted)
    }

    fn place(texts: &[&str], quoted: &str) -> Option<(String, usize, usize, usize)> {
        find_in(texts, quoted).map(|found| (found.text, found.message.unwrap(), found.start, found.end))
    }

    #[test]
    fn an_excerpt_is_found_with_its_place_whatever_its_case_spaces_and_punctuation() {
        let texts = ["I look it up.", "Ä: The capital\n  of France is “Paris”, not Rome."];
        let expected = Some(("capital\n  of France is “Paris".to_owned(), 1, 7, 36));
        assert_eq!(place(&texts, "Capital of France is 'Paris'"), expected);
        let found = find_in(&texts, "Capital of France is 'Paris'").unwrap();
        assert_eq!((found.similarity, found.quoted.as_deref()), (1.0, Some("Capital of France is 'Paris'")));
        assert_eq!(find_in(&texts, "I look it up").unwrap().quoted, None);
        assert_eq!(place(&["same", "same", "no"], "SAME"), Some(("same".to_owned(), 1, 0, 4)));
    }

    #[test]
    fn an_excerpt_with_small_mistakes_is_found_and_another_text_is_not() {
        let texts = ["The meeting takes place on Thursday at nine in Lisbon."];
        let found = find_in(&texts, "the meting took place on Thursday").unwrap();
        assert!(found.similarity >= 0.8 && found.similarity < 1.0, "{found:?}");
        assert_eq!(found.text, "The meeting takes place on Thursday");
        for lie in ["the meeting was cancelled by the mayor", "Thursday is a lie that I made up", "", "…", "eet", "9"]
        {
            assert_eq!(find_in(&texts, lie), None, "{lie}");
        }
        assert_eq!(find_in(&["in 1990"], "9"), None, "a part of a word is no excerpt");
        assert!(find_in(&["答案是九小时。"], "九小时").is_some());
    }

    #[test]
    fn long_texts_are_searched_with_a_limited_amount_of_work() {
        let hostile = "ab ".repeat(400_000);
        assert_eq!(find_in(&[&hostile], &"ab ".repeat(400_000)), None, "an excerpt is short");
        let long = "ab ".repeat(40_000);
        let mut searcher = Searcher::new([SourceText { message: None, text: &long }], 0.8);
        let subject = Subject::Name("t".to_owned());
        let absent = "ba ac ".repeat(166);
        for _ in 0..20 {
            assert_eq!(searcher.find(&subject, &absent), None);
        }
        assert!(searcher.work_left < 5_000_000, "{}", searcher.work_left);
        assert!(searcher.find(&subject, "ab ab").is_some(), "exact excerpts are always found");
    }
}
