//! Files of labels: answers with the verdicts of people.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_agent::yaml;

use crate::benchmark::{Benchmark, Question};
use crate::ids::QuestionId;
use crate::problem::quoted;
use crate::shape::read::did_you_mean;
use crate::template::Template;

/// The maximum size of a file.
const MAX_FILE_BYTES: usize = 32 * 1024 * 1024;
/// The maximum number of labels.
const MAX_LABELS: usize = 100_000;

/// The verdict of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanLabel {
    /// The answer is right.
    Passed,
    /// The answer is wrong.
    Failed,
}

/// An answer with the verdict of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct LabeledAnswer {
    /// Id of the question.
    pub question: QuestionId,
    /// The answer.
    pub answer: String,
    /// The verdict.
    pub label: HumanLabel,
    /// What the answer states, by field of the template, as a judge would return it.
    pub fields: Map<String, Value>,
}

/// Answers with labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    pub(super) answers: Vec<LabeledAnswer>,
}

/// An invalid file of labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidLabels {
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLabel {
    question: String,
    answer: String,
    label: HumanLabel,
    #[serde(default)]
    fields: Map<String, Value>,
}

impl Labels {
    /// Reads a list of labels: YAML or JSON, or one JSON object per line if `has_lines`.
    ///
    /// # Errors
    /// Returns the first problem: invalid text, an unknown question or field, or a question that no judge can decide.
    pub fn parse(text: &str, has_lines: bool, benchmark: &Benchmark) -> Result<Self, InvalidLabels> {
        let invalid = |line: Option<usize>, message: String| InvalidLabels { line, message, hint: None };
        if text.len() > MAX_FILE_BYTES {
            return Err(invalid(None, format!("the file is larger than {} MiB", MAX_FILE_BYTES / 1024 / 1024)));
        }
        let raw: Vec<RawLabel> = if has_lines {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let read = |(index, line): (usize, &str)| {
                serde_json::from_str(line).map_err(|error| {
                    let text = error.to_string();
                    // Every object is line 1 of its own text.
                    let reason = text.split(" at line ").next().unwrap_or_default();
                    invalid(Some(index + 1), reason.to_owned())
                })
            };
            lines.map(read).collect::<Result<_, _>>()?
        } else {
            yaml::from_str(text).map_err(|error| invalid(error.line(), error.message().to_owned()))?
        };
        if raw.is_empty() || raw.len() > MAX_LABELS {
            return Err(invalid(None, format!("expected 1 to {MAX_LABELS} labels, found {}", raw.len())));
        }
        let questions: HashMap<&str, &Question> =
            benchmark.questions.iter().map(|question| (question.id.as_str(), question)).collect();
        let mut answers = Vec::with_capacity(raw.len());
        for (index, raw) in raw.into_iter().enumerate() {
            let problem = |message: String| invalid(None, format!("label {}: {message}", index + 1));
            let Some(question) = questions.get(raw.question.as_str()) else {
                let hint = did_you_mean(&raw.question, questions.keys().copied());
                return Err(InvalidLabels { hint, ..problem(format!("unknown question {}", quoted(&raw.question))) });
            };
            let judged = question.template.as_ref().filter(|template| template.needs_judge());
            let Some(template) = judged else {
                let message = format!("question `{}` has no template that a judge fills", question.id);
                return Err(problem(message));
            };
            let fields = fields(template, &raw.fields).map_err(problem)?;
            answers.push(LabeledAnswer { question: question.id.clone(), answer: raw.answer, label: raw.label, fields });
        }
        Ok(Self { answers })
    }
}

/// Checks the values of fields like those of a judge. Fields without a value stay away.
fn fields(template: &Template, given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut complete = Map::new();
    for field in template.judged_fields() {
        complete.insert(field.name.clone(), given.get(&field.name).cloned().unwrap_or_default());
    }
    if let Some(unknown) = given.keys().find(|name| !complete.contains_key(*name)) {
        return Err(format!("unknown field {}", quoted(unknown)));
    }
    let mut parsed = template.parse_judgment(&Value::Object(complete)).map_err(|error| error.to_string())?;
    parsed.retain(|name, _| given.contains_key(name));
    Ok(parsed)
}
