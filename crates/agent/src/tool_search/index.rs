//! Finds tools by what they do: BM25 over the words of their names, servers, descriptions and arguments.
//!
//! Words of a name count more than those of a description. A query is expanded by synonyms, which count less than its own
//! words, and tools that match more of its words are preferred.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value;
use wharf_protocol::{SearchableTool, ToolIndex, ToolRanking};

use super::words::{for_each_stem, synonyms};

/// How fast repeated words lose weight.
const K1: f32 = 1.2;
/// How much long descriptions are discounted.
const B: f32 = 0.7;
/// The weights of the words of a tool.
const NAME: f32 = 3.0;
const SERVER: f32 = 1.5;
const OPENING: f32 = 1.0;
const DESCRIPTION: f32 = 0.3;
const ARGUMENT: f32 = 0.5;
/// The weight of a synonym, compared with the word itself.
const SYNONYM: f32 = 0.4;
/// The weight of an indexed word that begins like an unknown word.
const PREFIX: f32 = 0.5;
/// The least length of such a beginning.
const PREFIX_CHARS: usize = 4;
/// The bytes at the beginning of a description that say what the tool does. Details and examples follow.
const MAX_OPENING: usize = 160;
/// The bytes of a description that are indexed.
const MAX_DESCRIPTION: usize = 1_000;

/// The ranking of Wharf.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bm25;

impl ToolRanking for Bm25 {
    fn index(&self, tools: &mut dyn Iterator<Item = SearchableTool<'_>>) -> Box<dyn ToolIndex> {
        Box::new(Index::new(tools))
    }
}

struct Index {
    /// The tools that have a word, with its weight in each.
    postings: HashMap<String, Vec<Posting>>,
    /// The discount of each tool for its length.
    lengths: Vec<f32>,
}

struct Posting {
    tool: u32,
    weight: f32,
}

/// A word of a query, with the indexed words that count for it.
struct QueryWord<'a> {
    variants: Vec<(&'a [Posting], f32)>,
}

impl Index {
    fn new(tools: &mut dyn Iterator<Item = SearchableTool<'_>>) -> Self {
        let mut postings: HashMap<String, Vec<Posting>> = HashMap::new();
        let mut lengths = Vec::new();
        let mut words: HashMap<String, f32> = HashMap::new();
        for tool in tools {
            collect(&tool, &mut words);
            lengths.push(words.values().sum());
            let number = u32::try_from(lengths.len() - 1).unwrap_or(u32::MAX);
            for (word, weight) in words.drain() {
                postings.entry(word).or_default().push(Posting { tool: number, weight });
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "the number of tools is far below 2^24")]
        let average = lengths.iter().sum::<f32>() / lengths.len().max(1) as f32;
        for length in &mut lengths {
            *length = K1 * (1.0 - B + B * *length / average.max(1.0));
        }
        Self { postings, lengths }
    }

    /// Returns the words of a query.
    fn query(&self, query: &str) -> Vec<QueryWord<'_>> {
        let mut stems: Vec<String> = Vec::new();
        for_each_stem(query, |stem| {
            if !stems.contains(&stem) {
                stems.push(stem);
            }
        });
        stems.iter().map(|stem| self.query_word(stem)).filter(|word| !word.variants.is_empty()).collect()
    }

    fn query_word(&self, stem: &str) -> QueryWord<'_> {
        let posting = |word: &str, weight| Some((self.postings.get(word)?.as_slice(), weight));
        let mut variants: Vec<_> = posting(stem, 1.0).into_iter().collect();
        variants.extend(synonyms(stem).iter().filter_map(|word| posting(word, SYNONYM)));
        if variants.is_empty() && stem.chars().count() >= PREFIX_CHARS {
            let is_similar =
                |word: &str| word.len() >= PREFIX_CHARS && (word.starts_with(stem) || stem.starts_with(word));
            let similar = self.postings.iter().filter(|(word, _)| is_similar(word));
            variants.extend(similar.map(|(_, postings)| (postings.as_slice(), PREFIX)));
        }
        QueryWord { variants }
    }

    /// Returns how much a word says about the tools that have it: less, the more there are.
    #[expect(clippy::cast_precision_loss, reason = "the number of tools is far below 2^24")]
    fn rarity(&self, postings: &[Posting]) -> f32 {
        let having = postings.len() as f32;
        (1.0 + (self.lengths.len() as f32 - having + 0.5) / (having + 0.5)).ln()
    }
}

impl ToolIndex for Index {
    fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let words = self.query(query);
        let mut scores = vec![0.0_f32; self.lengths.len()];
        // The best variant of a word counts.
        let mut best: HashMap<u32, f32> = HashMap::new();
        let mut matched = vec![0_u16; self.lengths.len()];
        for QueryWord { variants } in &words {
            for (postings, weight) in variants {
                let rarity = self.rarity(postings) * weight;
                for Posting { tool, weight } in *postings {
                    let score = rarity * weight * (K1 + 1.0) / (weight + self.lengths[*tool as usize]);
                    let known = best.entry(*tool).or_default();
                    *known = known.max(score);
                }
            }
            for (tool, score) in best.drain() {
                scores[tool as usize] += score;
                matched[tool as usize] = matched[tool as usize].saturating_add(1);
            }
        }
        let count = f32::from(u16::try_from(words.len()).unwrap_or(u16::MAX));
        let mut found: Vec<(usize, f32)> = Vec::new();
        for (tool, score) in scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0) {
            found.push((tool, score * (0.5 + 0.5 * f32::from(matched[tool]) / count)));
        }
        let order = |one: &(usize, f32), other: &(usize, f32)| {
            other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal).then(one.0.cmp(&other.0))
        };
        if found.len() > limit && limit > 0 {
            found.select_nth_unstable_by(limit - 1, order);
        }
        found.truncate(limit);
        found.sort_by(order);
        found.into_iter().map(|(tool, _)| tool).collect()
    }
}

/// Collects the words of a tool with their weights.
fn collect(tool: &SearchableTool<'_>, words: &mut HashMap<String, f32>) {
    let mut add = |text: &str, weight: f32| for_each_stem(text, |stem| *words.entry(stem).or_default() += weight);
    add(tool.name, NAME);
    add(tool.server.unwrap_or_default(), SERVER);
    let (opening, details) = split_at(tool.description, MAX_OPENING);
    add(opening, OPENING);
    add(split_at(details, MAX_DESCRIPTION).0, DESCRIPTION);
    let schema = tool.input_schema.to_value().unwrap_or_default();
    for (name, _) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(name, ARGUMENT);
    }
}

/// Splits a text after about this many bytes, at the end of a word.
fn split_at(text: &str, bytes: usize) -> (&str, &str) {
    let spaces = text.char_indices().filter(|(_, letter)| letter.is_whitespace());
    let end = spaces.map(|(index, _)| index).find(|index| *index >= bytes).unwrap_or(text.len());
    text.split_at(end)
}
