//! Logs of runs that already happened: their answers are evaluated like those of a model, and nothing is run.
//!
//! A log is a file of unknown origin with conversations of `OpenAI` or Anthropic, results of Wharf, or a cassette. Its
//! format is detected. [`Logs::models`] turns it into models with prepared traces, so that plans, judges, stores and
//! reports work as for other runs.

mod conversation;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use wharf_agent::{Manual, TraceMessage, question_hash};
use wharf_protocol::nearest;

use crate::benchmark::{Benchmark, Question};
use crate::digest::digest;
use crate::ids::QuestionId;
use crate::model_under_test::{ModelSettings, ModelUnderTest};

/// The label of answers whose model is not in the log.
const UNNAMED_MODEL: &str = "log";

/// A log that cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", Self::place(*line))]
pub struct LogError {
    /// The line, counted from 1; 0 if the whole file is concerned.
    pub line: usize,
    /// What is wrong.
    pub kind: LogErrorKind,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// The file is too large.
    #[error("the log is larger than {0} MiB")]
    TooLarge(usize),
    /// The file has too many conversations.
    #[error("the log has more than {0} conversations")]
    TooMany(usize),
    /// The file is empty.
    #[error("the log is empty")]
    Empty,
    /// The text is not JSON.
    #[error("invalid JSON: {0}")]
    NotJson(String),
    /// The value has no known format.
    #[error("unknown format: expected messages of OpenAI or Anthropic, a result of Wharf, or a cassette")]
    UnknownFormat,
    /// A message is invalid.
    #[error("message {number}: {reason}")]
    InvalidMessage {
        /// The number of the message, from 1.
        number: usize,
        /// What is wrong.
        reason: String,
    },
    /// The conversation has no message of a model.
    #[error("the conversation has no message of a model")]
    NoAnswer,
    /// The log does not say which question it answers.
    #[error("the question is not known: its first message is not the text of a question, and it has no `question_id`")]
    NoQuestion,
    /// The benchmark does not have the question.
    #[error("unknown question `{id}`{}", nearest.as_deref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    UnknownQuestion {
        /// The id.
        id: String,
        /// A similar one.
        nearest: Option<String>,
    },
    /// The question is a scenario: which turn a message belongs to is not on record.
    #[error("question `{0}` is a scenario: only questions of one turn can be judged from a log")]
    Scenario(String),
    /// Several conversations answer one question that was named for all of them.
    #[error("the log has {0} conversations, and only one can answer the given question")]
    Several(usize),
}

impl LogError {
    fn whole(kind: LogErrorKind) -> Self {
        Self { line: 0, kind }
    }

    fn place(line: usize) -> String {
        if line == 0 { String::new() } else { format!("line {line}: ") }
    }
}

/// One conversation of a log.
#[derive(Clone, Debug, PartialEq)]
struct LoggedRun {
    line: usize,
    /// Id of the question, if the log says it.
    question: Option<String>,
    /// The first text of the user.
    prompt: Option<String>,
    /// Name of the model.
    model: Option<String>,
    trace: Vec<TraceMessage>,
}

/// The conversations of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Logs {
    runs: Vec<LoggedRun>,
}

/// The answers of a log as models, and which questions each of them answers.
#[derive(Clone)]
pub struct LoggedModels {
    /// The models. A second answer of a model to a question has a model of its own.
    pub models: Vec<ModelUnderTest>,
    answered: BTreeSet<(String, QuestionId)>,
}

impl Logs {
    /// Reads a log. `line`s in errors are those of a file with one conversation per line.
    ///
    /// # Errors
    /// If the format is unknown or a message is invalid.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        read::parse(text).map(|runs| Self { runs })
    }

    /// Returns the answers as models. `question` is the question of all of them, if the log does not say it.
    ///
    /// # Errors
    /// If the question of a conversation is not known.
    pub fn models(&self, benchmark: &Benchmark, question: Option<&str>) -> Result<LoggedModels, LogError> {
        if question.is_some() && self.runs.len() > 1 {
            return Err(LogError::whole(LogErrorKind::Several(self.runs.len())));
        }
        let mut traces: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        let mut answered = BTreeSet::new();
        for run in &self.runs {
            let error = |kind| LogError { line: run.line, kind };
            let found = find(benchmark, run, question).map_err(error)?;
            let name = run.model.as_deref().unwrap_or(UNNAMED_MODEL);
            let label = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name} ({number})") });
            let label = label.into_iter().find(|label| !answered.contains(&(label.clone(), found.id.clone())));
            let label = label.unwrap_or_else(|| name.to_owned());
            answered.insert((label.clone(), found.id.clone()));
            let trace = json!({"trace_messages": run.trace, "actual_model": run.model});
            traces.entry(label).or_default().insert(question_hash(&found.question), trace);
        }
        let mut models = Vec::new();
        for (label, traces) in traces {
            let text = Value::Object(traces).to_string();
            let invalid = |reason| LogError::whole(LogErrorKind::InvalidMessage { number: 0, reason });
            let model = Manual::parse(label.clone(), &text).map_err(invalid)?;
            let settings =
                ModelSettings { file_digest: Some(digest(&text)), ..ModelSettings::new("manual", label.clone()) };
            models.push(ModelUnderTest { label, model: Arc::new(model), settings, concurrency: None });
        }
        Ok(LoggedModels { models, answered })
    }
}

impl LoggedModels {
    /// Returns the questions that the log answers.
    pub fn questions(&self) -> BTreeSet<&QuestionId> {
        self.answered.iter().map(|(_, question)| question).collect()
    }

    /// Returns whether the log has the answer of a trial.
    pub fn has(&self, question: &QuestionId, model: &str) -> bool {
        self.answered.contains(&(model.to_owned(), question.clone()))
    }
}

/// Finds the question of a conversation: the given one, the one it names by id or text, or the one it begins with.
fn find<'a>(benchmark: &'a Benchmark, run: &LoggedRun, given: Option<&str>) -> Result<&'a Question, LogErrorKind> {
    let of_id = |id: &str| benchmark.questions.iter().find(|question| question.id.as_str() == id);
    let of_text = |text: &str| benchmark.questions.iter().find(|question| question.text().trim() == text.trim());
    let unknown = |id: &str| {
        let ids = benchmark.questions.iter().map(|question| question.id.as_str());
        LogErrorKind::UnknownQuestion { id: id.to_owned(), nearest: nearest(id, ids).map(str::to_owned) }
    };
    let found = match (given, run.question.as_deref()) {
        (Some(id), _) => of_id(id).ok_or_else(|| unknown(id)),
        (None, Some(name)) => of_id(name).or_else(|| of_text(name)).ok_or_else(|| unknown(name)),
        (None, None) => run.prompt.as_deref().and_then(of_text).ok_or(LogErrorKind::NoQuestion),
    }?;
    match found.scenario {
        Some(_) => Err(LogErrorKind::Scenario(found.id.to_string())),
        None => Ok(found),
    }
}
