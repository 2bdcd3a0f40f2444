//! Import: a checkpoint becomes a benchmark that passes all checks of benchmark files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::checkpoint::{Checkpoint, Item, Rating, properties, unwrapped};
use super::omission::{Omission, Omitted, ScenarioProblem, Subject};
use super::rating::{self, Scope};
use super::scenario::{self, ScenarioRead};
use super::template_source::{self, HandWritten};
use super::unique_names::UniqueNames;
use crate::benchmark::{Benchmark, InvalidBenchmark};
use crate::digest::digest;
use crate::ids::QuestionId;

/// The maximum size of a checkpoint.
const MAX_CHECKPOINT_BYTES: usize = 32 * 1024 * 1024;

/// An imported checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The benchmark, in the notation of benchmark files.
    pub file: Value,
    /// The number of questions of the checkpoint.
    pub questions_found: usize,
    /// The number of questions of the benchmark.
    pub questions: usize,
    /// What was not taken over, or was changed.
    pub omissions: Vec<Omission>,
}

/// A checkpoint that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file is too large.
    #[error("the checkpoint is larger than {} MiB", MAX_CHECKPOINT_BYTES / 1024 / 1024)]
    TooLarge,
    /// The file is not a checkpoint.
    #[error("invalid checkpoint: {reason}")]
    NotACheckpoint {
        /// What is wrong, with its line.
        reason: String,
    },
    /// No question can be checked without what was left out.
    #[error("no question of the checkpoint can be taken over")]
    NothingLeft {
        /// The number of questions of the checkpoint.
        questions_found: usize,
        /// What was not taken over.
        omissions: Vec<Omission>,
    },
    /// The result breaks a rule of benchmarks.
    #[error(transparent)]
    Invalid(#[from] InvalidBenchmark),
}

/// Imports a checkpoint.
///
/// # Errors
/// If the text is not a checkpoint, or nothing of it can be taken over.
pub fn import(text: &str, hand_written: HandWritten) -> Result<Import, ImportError> {
    if text.len() > MAX_CHECKPOINT_BYTES {
        return Err(ImportError::TooLarge);
    }
    let not_a_checkpoint = |reason: String| ImportError::NotACheckpoint { reason };
    let checkpoint: Checkpoint = serde_json::from_str(text).map_err(|error| not_a_checkpoint(error.to_string()))?;
    if checkpoint.kind.as_deref().is_some_and(|kind| kind != "DataFeed") {
        return Err(not_a_checkpoint("`@type` is not `DataFeed`".to_owned()));
    }
    let mut importer = Importer { hand_written, ..Importer::default() };
    let of_benchmark = properties(checkpoint.additional_property.as_ref());
    let ratings = checkpoint.rating.iter().flatten().cloned().chain(rating::legacy_traits(&of_benchmark));
    let shared: Vec<String> = ratings.filter_map(|rating| importer.take_trait(&rating, None)).collect();
    let mut questions: Vec<Value> =
        checkpoint.data_feed_element.iter().filter_map(|item| importer.question(item, !shared.is_empty())).collect();
    let scenarios = checkpoint.has_part.as_deref().unwrap_or_default();
    questions.extend(scenarios.iter().filter_map(|part| importer.scenario(part)));
    let questions_found = checkpoint.data_feed_element.len() + scenarios.len();
    let Importer { traits, omissions, .. } = importer;
    if questions.is_empty() {
        return Err(ImportError::NothingLeft { questions_found, omissions });
    }
    let mut file = Map::new();
    let name: String = checkpoint.name.trim().chars().take(256).collect();
    file.insert("name".to_owned(), if name.is_empty() { "benchmark".into() } else { name.into() });
    if let Some(description) = checkpoint.description.as_ref().filter(|text| !text.is_empty()) {
        file.insert("description".to_owned(), description.as_str().into());
    }
    if !shared.is_empty() {
        file.insert("defaults".to_owned(), json!({"rubric": shared}));
    }
    let count = questions.len();
    file.insert("questions".to_owned(), Value::Array(questions));
    if !traits.is_empty() {
        file.insert("rubric".to_owned(), json!(traits));
    }
    let metadata = benchmark_metadata(&checkpoint, of_benchmark);
    if !metadata.is_empty() {
        file.insert("metadata".to_owned(), Value::Object(metadata));
    }
    let file = Value::Object(file);
    parse(&file)?;
    Ok(Import { file, questions_found, questions: count, omissions })
}

/// Applies all rules of benchmark files.
fn parse(file: &Value) -> Result<Benchmark, InvalidBenchmark> {
    Benchmark::parse(&file.to_string(), Path::new("benchmark.json"))
}

/// Returns the first rule that a part of a benchmark breaks.
fn broken_rule(file: &Value) -> Option<String> {
    let invalid = parse(file).err()?;
    let problem = invalid.problems.first()?;
    let path = problem.path.strip_prefix("questions[0].").unwrap_or(&problem.path);
    Some(format!("{path}: {}", problem.message))
}

#[derive(Default)]
struct Importer {
    hand_written: HandWritten,
    /// The traits so far, in Wharf's notation.
    traits: BTreeMap<String, Value>,
    trait_names: UniqueNames,
    /// The names of traits by their names there and their definitions.
    known_traits: HashMap<(String, String), String>,
    ids: UniqueNames,
    omissions: Vec<Omission>,
}

impl Importer {
    fn omit(&mut self, subject: Subject, omitted: Omitted) {
        self.omissions.push(Omission { subject, omitted });
    }

    /// Reads a trait, and returns its name. `question` is the id of the question it belongs to.
    fn take_trait(&mut self, rating: &Rating, question: Option<&str>) -> Option<String> {
        let subject = match question {
            None => Subject::Trait(rating.name.clone()),
            Some(question) => Subject::QuestionTrait { question: question.to_owned(), name: rating.name.clone() },
        };
        let scope = if question.is_some() { Scope::Question } else { Scope::Global };
        let read = match rating::read(rating, scope) {
            Ok(read) => read,
            Err(omitted) => {
                self.omit(subject, omitted);
                return None;
            }
        };
        let alone = json!({
            "rubric": {(rating.name.as_str()): read.definition},
            "questions": [{"id": "q", "question": "q", "rubric": [rating.name]}],
        });
        if let Some(message) = broken_rule(&alone) {
            self.omit(subject, Omitted::InvalidTrait { message });
            return None;
        }
        if let Some(omitted) = read.omitted {
            self.omit(subject.clone(), omitted);
        }
        // Names are unique there in one question only. Equal traits are one here.
        let key = (rating.name.clone(), read.definition.to_string());
        if let Some(name) = self.known_traits.get(&key) {
            return Some(name.clone());
        }
        let name = self.trait_names.take(&rating.name, ' ');
        self.known_traits.insert(key, name.clone());
        if name != rating.name {
            let subject = match question {
                None => Subject::Trait(name.clone()),
                Some(question) => Subject::QuestionTrait { question: question.to_owned(), name: name.clone() },
            };
            self.omit(subject, Omitted::ChangedName { from: rating.name.clone() });
        }
        self.traits.insert(name.clone(), read.definition);
        Some(name)
    }

    /// Reads a question. `None` if it is left out.
    fn question(&mut self, item: &Item, has_shared_traits: bool) -> Option<Value> {
        let id = self.question_id(item);
        let subject = Subject::Question(id.clone());
        let mut question = json!({"id": id, "question": item.item.text});
        if !item.item.accepted_answer.text.is_empty() {
            question["answer"] = item.item.accepted_answer.text.as_str().into();
        }
        let keywords = item.item.keywords.as_ref().or(item.keywords.as_ref());
        if let Some(keywords) = keywords.filter(|keywords| !keywords.is_empty()) {
            question["keywords"] = json!(keywords);
        }
        let mut rubric: Vec<String> = Vec::new();
        for rating in item.item.rating.iter().flatten() {
            rubric.extend(self.take_trait(rating, Some(&id)));
        }
        let source = item.item.has_part.as_ref().map(|part| part.text.as_str());
        if let Some(source) = source.filter(|source| !source.trim().is_empty()) {
            let read = template_source::read(source, self.hand_written);
            for omitted in read.omitted {
                self.omit(subject.clone(), omitted);
            }
            if let Some(template) = read.template {
                let alone = json!({"questions": [{"id": "q", "question": "q", "template": template}]});
                match broken_rule(&alone) {
                    None => question["template"] = template,
                    Some(message) => self.omit(subject.clone(), Omitted::InvalidTemplate { message }),
                }
            }
        }
        let has_traits = has_shared_traits || !rubric.is_empty();
        if !rubric.is_empty() {
            question["rubric"] = json!(rubric);
        }
        let metadata = self.question_metadata(item, &subject);
        if !metadata.is_empty() {
            question["metadata"] = Value::Object(metadata);
        }
        if question.get("template").is_none() && !has_traits {
            self.omit(subject, Omitted::NothingToCheck);
            return None;
        }
        let mut alone = question.clone();
        alone["rubric"] = json!(["t"]);
        let alone = json!({"questions": [alone], "rubric": {"t": {"kind": "llm_boolean", "description": "d"}}});
        if let Some(message) = broken_rule(&alone) {
            self.omit(subject, Omitted::InvalidQuestion { message });
            return None;
        }
        Some(question)
    }

    /// Reads a scenario into a question. `None` if it is left out.
    fn scenario(&mut self, part: &Value) -> Option<Value> {
        let ScenarioRead { name, question, omitted } = scenario::read(part, self.hand_written);
        let subject = Subject::Scenario(name.clone());
        for omitted in omitted {
            self.omit(subject.clone(), omitted);
        }
        let mut question = question?;
        question["id"] = "q".into();
        if let Some(message) = broken_rule(&json!({"questions": [question]})) {
            self.omit(subject, Omitted::Scenario(ScenarioProblem::Invalid { message }));
            return None;
        }
        question["id"] = self.unique_id(Some(&name), &name).into();
        Some(question)
    }

    /// Returns the id of a question, or another one if it is invalid or repeated here.
    fn question_id(&mut self, item: &Item) -> String {
        self.unique_id(item.id.as_deref(), &item.item.text)
    }

    /// Returns an id as written, or one that is derived from a text.
    fn unique_id(&mut self, given: Option<&str>, text: &str) -> String {
        let derived = || format!("question-{}", digest(&text).chars().take(12).collect::<String>());
        let written = given.map_or_else(derived, str::to_owned);
        let valid = if written.parse::<QuestionId>().is_ok() { written.clone() } else { derived() };
        let id = self.ids.take(&valid, '-');
        if given.is_some() && id != written {
            self.omit(Subject::Question(id.clone()), Omitted::ChangedId { from: written });
        }
        id
    }

    fn question_metadata(&mut self, item: &Item, subject: &Subject) -> Map<String, Value> {
        let mut metadata = dates(&item.date_created, &item.date_modified);
        for (name, value) in properties(item.item.additional_property.as_ref()) {
            if value.is_null() {
                continue;
            }
            match name.as_str() {
                "few_shot_examples" => self.omit(subject.clone(), Omitted::FewShotExamples),
                "workspace_path" => self.omit(subject.clone(), Omitted::Workspace),
                _ => {}
            }
            let is_json = ["author", "sources", "few_shot_examples"].contains(&name.as_str());
            metadata.insert(name, if is_json { unwrapped(value) } else { value });
        }
        metadata
    }
}

fn dates(created: &str, modified: &str) -> Map<String, Value> {
    let dates = [("date_created", created), ("date_modified", modified)];
    let dates = dates.into_iter().filter(|(_, date)| !date.is_empty());
    dates.map(|(key, date)| (key.to_owned(), date.into())).collect()
}

fn benchmark_metadata(checkpoint: &Checkpoint, properties: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(version) = &checkpoint.version {
        metadata.insert("version".to_owned(), version.as_str().into());
    }
    if !checkpoint.creator.is_null() {
        metadata.insert("creator".to_owned(), checkpoint.creator.clone());
    }
    metadata.extend(dates(&checkpoint.date_created, &checkpoint.date_modified));
    let is_trait = |name: &str| name.starts_with("global_") && name.ends_with("_rubric_traits");
    metadata.extend(properties.into_iter().filter(|(name, value)| !is_trait(name) && !value.is_null()));
    metadata
}
