//! Export: a benchmark becomes a checkpoint. Templates become classes with declared checks.

use serde_json::{Map, Value, json};

use super::checkpoint::{Answer, Checkpoint, Item, Property, Question as QuestionItem, Rating, SourceCode};
use super::omission::{Omission, Omitted, Subject};
use super::rating::{self, Scope};
use super::scenario;
use super::template_source;
use crate::benchmark::{Benchmark, Question};

/// The date of what has none. A file without clock times is the same for the same benchmark.
const UNKNOWN_DATE: &str = "1970-01-01T00:00:00";

/// An exported benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The checkpoint.
    pub file: Value,
    /// What was not taken over.
    pub omissions: Vec<Omission>,
}

/// Exports a benchmark.
pub fn export(benchmark: &Benchmark) -> Export {
    let mut omissions = Vec::new();
    let mut omit = |subject, key| omissions.push(Omission { subject, omitted: Omitted::Key { key } });
    if !benchmark.servers.is_empty() {
        omit(Subject::Benchmark, "servers");
    }
    for (is_present, key) in [
        (benchmark.defaults.replicates.is_some(), "defaults.replicates"),
        (!benchmark.defaults.required_servers.is_empty(), "defaults.required_servers"),
        (benchmark.defaults.isolation.is_some(), "defaults.isolation"),
    ] {
        if is_present {
            omit(Subject::Benchmark, key);
        }
    }
    for (name, definition) in &benchmark.rubric {
        if definition.judge_settings().is_some_and(|judge| judge.include_ground_truth) {
            omit(Subject::Trait(name.clone()), "include_ground_truth");
        }
    }
    for question in &benchmark.questions {
        let keys = [
            (!question.trace.is_empty(), "trace"),
            (!question.servers.is_empty(), "servers"),
            (!question.required_servers.is_empty(), "required_servers"),
        ];
        for (_, key) in keys.into_iter().filter(|(is_present, _)| *is_present) {
            omit(Subject::Question(question.id.to_string()), key);
        }
    }
    let ratings = |names: &[String], scope| {
        let rating =
            |name: &String| benchmark.rubric.get(name).map(|definition| rating::write(name, definition, scope));
        let ratings: Vec<Rating> = names.iter().filter_map(rating).collect();
        (!ratings.is_empty()).then_some(ratings)
    };
    let item = |question: &Question| {
        let own: Vec<String> =
            question.rubric.iter().filter(|name| !benchmark.defaults.rubric.contains(name)).cloned().collect();
        let mut metadata = question.metadata.clone();
        let (date_created, date_modified) = take_dates(&mut metadata);
        Item {
            kind: Some("DataFeedItem".to_owned()),
            id: Some(question.id.to_string()),
            date_created,
            date_modified,
            keywords: None,
            item: QuestionItem {
                kind: Some("Question".to_owned()),
                text: question.question.clone(),
                accepted_answer: Answer {
                    kind: Some("Answer".to_owned()),
                    text: question.answer.clone().unwrap_or_default(),
                },
                has_part: Some(SourceCode {
                    kind: Some("SoftwareSourceCode".to_owned()),
                    name: format!("{} template", question.id),
                    text: question.template.as_ref().map(template_source::write).unwrap_or_default(),
                    programming_language: Some("Python".to_owned()),
                }),
                rating: ratings(&own, Scope::Question),
                additional_property: Some(question_properties(metadata)),
                keywords: Some(question.keywords.clone()).filter(|keywords| !keywords.is_empty()),
            },
        }
    };
    let scenarios = scenarios(benchmark, &mut omissions);
    let mut metadata = benchmark.metadata.clone();
    let (date_created, date_modified) = take_dates(&mut metadata);
    let version = metadata.shift_remove("version");
    let checkpoint = Checkpoint {
        context: context(),
        kind: Some("DataFeed".to_owned()),
        id: Some(format!("urn:uuid:karenina-checkpoint-{}", benchmark.name)),
        name: benchmark.name.clone(),
        description: benchmark.description.clone(),
        version: version.as_ref().and_then(Value::as_str).map(str::to_owned),
        creator: metadata.shift_remove("creator").unwrap_or_default(),
        date_created,
        date_modified,
        rating: ratings(&benchmark.defaults.rubric, Scope::Global),
        data_feed_element: benchmark.questions.iter().filter(|of| of.scenario.is_none()).map(item).collect(),
        has_part: (!scenarios.is_empty()).then_some(scenarios),
        additional_property: Some(metadata.into_iter().map(|(name, value)| Property::new(name, value)).collect()),
    };
    Export { file: json!(checkpoint), omissions }
}

/// Writes the scenarios, and adds what the other side cannot say to `omissions`.
fn scenarios(benchmark: &Benchmark, omissions: &mut Vec<Omission>) -> Vec<Value> {
    let mut scenarios = Vec::new();
    for question in &benchmark.questions {
        let Some(of) = &question.scenario else { continue };
        let mut omitted = Vec::new();
        scenarios.extend(scenario::write(question, of, &mut omitted).map(|part| json!(part)));
        for (is_present, key) in [
            (!question.rubric.is_empty(), "rubric"),
            (!question.keywords.is_empty(), "keywords"),
            (question.answer.is_some(), "answer"),
        ] {
            if is_present {
                omitted.push(Omitted::Key { key });
            }
        }
        let subject = Subject::Scenario(question.id.to_string());
        omissions.extend(omitted.into_iter().map(|omitted| Omission { subject: subject.clone(), omitted }));
    }
    scenarios
}

fn take_dates(metadata: &mut Map<String, Value>) -> (String, String) {
    let mut date = |key: &str| match metadata.shift_remove(key) {
        Some(Value::String(date)) => date,
        _ => UNKNOWN_DATE.to_owned(),
    };
    (date("date_created"), date("date_modified"))
}

/// Returns the properties of a question. Objects and lists are JSON in a text there.
fn question_properties(metadata: Map<String, Value>) -> Vec<Property> {
    let known = ["finished", "author", "sources", "few_shot_examples", "answer_notes", "workspace_path"];
    let mut properties = Vec::new();
    if !metadata.contains_key("finished") {
        properties.push(Property::new("finished", true));
    }
    for (name, value) in metadata {
        let is_known = known.contains(&name.as_str()) || name.starts_with("custom_");
        let name = if is_known { name } else { format!("custom_{name}") };
        let is_json = ["author", "sources", "few_shot_examples"].contains(&name.as_str());
        let value = if is_json { value.to_string().into() } else { value };
        properties.push(Property::new(name, value));
    }
    properties
}

/// The vocabulary of the file.
fn context() -> Value {
    let set = |id: &str| json!({"@id": id, "@container": "@set"});
    let reference = |id: &str| json!({"@id": id, "@type": "@id"});
    json!({
        "@version": 1.1,
        "@vocab": "https://schema.org/",
        "karenina": "urn:karenina:vocab:",
        "dataFeedElement": set("dataFeedElement"),
        "item": reference("item"),
        "acceptedAnswer": reference("acceptedAnswer"),
        "rating": set("contentRating"),
        "additionalProperty": set("additionalProperty"),
        "hasPart": set("hasPart"),
        "keywords": set("keywords"),
    })
}
