//! Identifiers of questions, runs, trials and units.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The maximum length of a question's id, in characters.
const MAX_QUESTION_ID_CHARS: usize = 128;

/// An id with invalid characters, or of the wrong length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid id `{id}`: {reason}")]
pub struct InvalidId {
    /// The id as written.
    pub id: String,
    /// Why it is invalid.
    pub reason: &'static str,
}

/// The id of a question in its benchmark.
///
/// Invariant: 1 to 128 visible characters without control characters or spaces at the ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuestionId(Arc<str>);

impl FromStr for QuestionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = |reason| Err(InvalidId { id: text.chars().take(MAX_QUESTION_ID_CHARS).collect(), reason });
        if text.is_empty() || text.trim() != text {
            return invalid("it must not be empty, or start or end with a space");
        }
        if text.chars().count() > MAX_QUESTION_ID_CHARS {
            return invalid("it must have at most 128 characters");
        }
        if text.chars().any(char::is_control) {
            return invalid("it must not contain control characters");
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for QuestionId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<QuestionId> for String {
    fn from(id: QuestionId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl QuestionId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a verification run in its store: a time and a random part, for example `20261116-184653-7f3a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Arc<str>);

/// The id of a trial: a digest of everything that can change the model's answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialId(pub Arc<str>);

/// The id of a unit: a digest of everything that can change its result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitId(pub Arc<str>);

/// Notices where the next trial begins. The units of a trial follow each other and share its answer, which counts once.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastTrial(Option<TrialId>);

impl LastTrial {
    /// Returns whether the trial is another one than that of the last call.
    pub(crate) fn is_new(&mut self, trial: &TrialId) -> bool {
        let is_new = self.0.as_ref() != Some(trial);
        if is_new {
            self.0 = Some(trial.clone());
        }
        is_new
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
