//! Evidence: verbatim excerpts of an answer that support what a judge says about it.
//!
//! A judge's excerpt counts only if it is found in the answer. The search does a bounded amount of work, however long the
//! answer and the excerpts are.

mod fuzzy;
mod normalized;
mod search;

use serde::{Deserialize, Serialize};

pub(crate) use search::{MAX_EXCERPT_CHARS, Searcher, SourceText};

/// An excerpt of an answer, found there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excerpt {
    /// What it supports.
    #[serde(flatten)]
    pub subject: Subject,
    /// The text as it stands in the answer.
    pub text: String,
    /// The text as the judge wrote it, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<String>,
    /// How similar both are, from 0 to 1.
    pub similarity: f64,
    /// Index of the message in the trace, from 0. `None` if only the final response contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// Where the text begins in the content of the message, in characters.
    pub start: usize,
    /// Where the text ends in the content of the message, in characters.
    pub end: usize,
}

/// What an excerpt supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A field of the template, by name.
    Attribute(String),
    /// A trait, by name.
    Name(String),
}

/// How many excerpts a judge gives, and when one is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExcerptRules {
    /// The maximum number of excerpts for each subject.
    pub(crate) max: usize,
    /// The minimum similarity.
    pub(crate) threshold: f64,
    /// How often the judge may replace excerpts that are not found.
    pub(crate) retries: u32,
}
