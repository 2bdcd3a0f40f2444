//! Approximate search: the part of a text that is most similar to a pattern.
//!
//! Comparing the pattern with every part would take the product of both lengths. So the parts that share most trigrams with
//! the pattern are found first, in one pass over the text, and only these are compared.

use std::collections::HashMap;

/// How many parts of a text are compared with the pattern.
const MAX_CANDIDATES: usize = 3;

/// A part of a text, and how similar it is to the pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    /// From 0 to 1: the share of the pattern that needs no edit.
    pub(super) similarity: f64,
}

/// Returns the work of a search, in compared characters.
pub(super) fn work(pattern: usize, text: usize) -> usize {
    text + MAX_CANDIDATES * pattern * candidate_length(pattern)
}

/// Returns the part of `text` that is most similar to `pattern`. `None` for patterns without a trigram.
pub(super) fn best_match(pattern: &[char], text: &[char]) -> Option<Match> {
    let candidates = candidates(pattern, text);
    let matches = candidates.into_iter().map(|start| {
        let end = (start + candidate_length(pattern.len())).min(text.len());
        let found = align(pattern, &text[start..end]);
        Match { start: start + found.start, end: start + found.end, ..found }
    });
    matches.max_by(|a, b| a.similarity.total_cmp(&b.similarity))
}

/// The length of a part that is compared: the pattern, with a quarter before and after it.
fn candidate_length(pattern: usize) -> usize {
    pattern + 2 * margin(pattern)
}

fn margin(pattern: usize) -> usize {
    pattern / 4 + 1
}

/// Returns where the parts begin that share most trigrams with the pattern.
fn candidates(pattern: &[char], text: &[char]) -> Vec<usize> {
    let mut wanted: HashMap<&[char], usize> = HashMap::new();
    let mut counts: Vec<usize> = Vec::new();
    for trigram in pattern.windows(3) {
        let index = *wanted.entry(trigram).or_insert_with(|| {
            counts.push(0);
            counts.len() - 1
        });
        counts[index] += 1;
    }
    if counts.is_empty() {
        return Vec::new();
    }
    let found: Vec<Option<usize>> = text.windows(3).map(|trigram| wanted.get(trigram).copied()).collect();
    let window = pattern.len() - 2;
    // For each trigram, how often it is still missing in the window. A negative number has no meaning for the overlap.
    let mut missing: Vec<i64> = counts.iter().map(|count| i64::try_from(*count).unwrap_or(i64::MAX)).collect();
    let mut overlap = 0_usize;
    let mut best: Vec<(usize, usize)> = Vec::new();
    for (at, entering) in found.iter().enumerate() {
        if let Some(index) = *entering {
            overlap += usize::from(missing[index] > 0);
            missing[index] -= 1;
        }
        if let Some(index) = at.checked_sub(window).and_then(|left| found[left]) {
            missing[index] += 1;
            overlap -= usize::from(missing[index] > 0);
        }
        if overlap > 0 {
            keep(&mut best, overlap, (at + 1).saturating_sub(window), window);
        }
    }
    best.into_iter().map(|(_, start)| start.saturating_sub(margin(pattern.len()))).collect()
}

/// Keeps the best windows. Of windows that overlap, only the best one.
fn keep(best: &mut Vec<(usize, usize)>, overlap: usize, start: usize, window: usize) {
    if let Some(same) = best.iter_mut().find(|(_, other)| start.abs_diff(*other) < window) {
        if overlap > same.0 {
            *same = (overlap, start);
        }
        return;
    }
    best.push((overlap, start));
    if best.len() > MAX_CANDIDATES {
        let worst = best.iter().enumerate().min_by_key(|(_, (overlap, _))| *overlap).map(|(at, _)| at);
        if let Some(at) = worst {
            best.swap_remove(at);
        }
    }
}

/// Returns the part of a text with the fewest edits to a pattern.
#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
fn align(pattern: &[char], text: &[char]) -> Match {
    // One row for each character of the pattern: the edits so far, and where the part begins.
    let mut row: Vec<(usize, usize)> = (0..=text.len()).map(|start| (0, start)).collect();
    for (index, wanted) in pattern.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = (index + 1, 0);
        for (at, found) in text.iter().enumerate() {
            let replaced = (diagonal.0 + usize::from(wanted != found), diagonal.1);
            let skipped = (row[at + 1].0 + 1, row[at + 1].1);
            let inserted = (row[at].0 + 1, row[at].1);
            diagonal = row[at + 1];
            row[at + 1] = [replaced, skipped, inserted].into_iter().min_by_key(|(edits, _)| *edits).unwrap_or(replaced);
        }
    }
    let best = row.iter().enumerate().min_by_key(|(_, (edits, _))| *edits);
    let (end, (edits, start)) = best.map_or((0, (pattern.len(), 0)), |(end, cell)| (end, *cell));
    let similarity = 1.0 - edits as f64 / pattern.len().max(1) as f64;
    Match { start, end, similarity: similarity.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(pattern: &str, text: &str) -> Option<(String, f64)> {
        let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
        let found = best_match(&pattern, &text)?;
        Some((text[found.start..found.end].iter().collect(), found.similarity))
    }

    #[test]
    fn the_most_similar_part_is_found() {
        let text = "first a decoy about the quick snail then the quick brown fox jumps over a lazy dog and more";
        let (found, similarity) = best("the quikc brown fox jump over", text).unwrap();
        assert_eq!(found, "the quick brown fox jumps over");
        assert!((similarity - (1.0 - 3.0 / 29.0)).abs() < 1e-9, "{similarity}");
        let (_, unrelated) = best("an entirely different sentence", text).unwrap();
        assert!(unrelated < 0.6, "{unrelated}");
        assert_eq!(best("ab", text), None);
        assert_eq!(best("xyzxyz", text), None);
    }

    #[test]
    fn a_part_is_found_at_both_ends_of_a_text() {
        for text in ["the capitol of france is", "so it is the capitol of france"] {
            let (found, similarity) = best("the capital of france", text).unwrap();
            assert_eq!(found, "the capitol of france");
            assert!(similarity > 0.94, "{similarity}");
        }
    }
}
