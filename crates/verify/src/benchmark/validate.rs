//! Rules of a benchmark beyond the shape of its file: unique ids, traits and servers that exist, templates that make sense.

mod check_traits;
mod read_scenario;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use wharf_config::simple;
use wharf_protocol::ServerName;

use super::{Benchmark, Question};
use crate::assertion::Assertion;
use crate::problem::{Finding, Path, quoted};
use crate::scenario::read_assertion;
use crate::shape::read::{Reader, did_you_mean};
use crate::template::Check;

/// A benchmark whose shape was checked.
pub(super) struct Draft {
    /// Everything but the questions.
    pub(super) header: Map<String, Value>,
    pub(super) questions: Vec<Value>,
    /// Returns the line of a path.
    pub(super) lines: Box<dyn Fn(&Path) -> usize>,
}

/// Checks the rules and reports all problems. Returns the benchmark if it could be built.
pub(super) fn validate(draft: Draft, reader: &mut Reader) -> Option<Benchmark> {
    let Draft { mut header, questions, lines } = draft;
    let is_clean = reader.count() == 0;
    let mut findings = Vec::new();
    header.insert("questions".to_owned(), Value::Array(Vec::new()));
    let benchmark = match serde_json::from_value::<Benchmark>(Value::Object(header.clone())) {
        Ok(benchmark) => Some(benchmark),
        Err(error) if is_clean => {
            findings.push(Finding::new(Path::default(), error.to_string()));
            None
        }
        // The cause is on record already.
        Err(_) => None,
    };
    let mut known = Known::of(&header);
    if let Some(benchmark) = &benchmark {
        findings.extend(check_servers(&benchmark.servers, &Path::default()));
        findings.extend(check_traits::check(&benchmark.rubric));
        let path = Path::default().key("defaults").key("required_servers");
        let required = benchmark.defaults.required_servers.iter().cloned().enumerate();
        known.required = required.map(|(index, name)| (path.index(index), name)).collect();
        findings.extend(known.check_names(&benchmark.defaults.rubric, &Path::default().key("defaults").key("rubric")));
        known.has_shared_traits = !benchmark.defaults.rubric.is_empty();
    }
    let mut read = Vec::new();
    for (index, value) in questions.into_iter().enumerate() {
        let path = Path::default().key("questions").index(index);
        findings.extend(known.check_id(&value, &path, &lines));
        if reader.has_problem_in("questions", index) {
            continue;
        }
        match read_question(value, &path) {
            Ok(question) => {
                findings.extend(known.check_question(&question, &path));
                read.push(question);
            }
            Err(found) => findings.extend(found),
        }
    }
    for Finding { path, message, hint } in findings {
        reader.report(lines(&path), &path, message, hint);
    }
    benchmark.map(|benchmark| Benchmark { questions: read, ..benchmark })
}

/// Builds a question. Returns why that is impossible.
fn read_question(mut value: Value, path: &Path) -> Result<Question, Vec<Finding>> {
    let mut findings = missing_types(&value, path);
    let is_typed = findings.is_empty();
    let assertions = match value.as_object_mut().and_then(|fields| fields.remove("trace")) {
        Some(Value::Array(assertions)) => assertions,
        _ => Vec::new(),
    };
    let mut trace: Vec<Assertion> = Vec::new();
    for (index, value) in assertions.into_iter().enumerate() {
        trace.extend(read_assertion(value, &path.key("trace").index(index), &mut findings));
    }
    let scenario = match value.as_object_mut().and_then(|fields| fields.shift_remove("scenario")) {
        Some(scenario) => match read_scenario::read(scenario, &path.key("scenario")) {
            Ok(scenario) => Some(scenario),
            Err(found) => {
                findings.extend(found);
                None
            }
        },
        None => None,
    };
    match serde_json::from_value::<Question>(value) {
        Ok(question) if findings.is_empty() => return Ok(Question { scenario, trace, ..question }),
        Ok(question) if is_typed => findings.extend(template_findings(&question, path)),
        Ok(_) => {}
        Err(error) => findings.push(Finding::new(path.clone(), error.to_string())),
    }
    Err(findings)
}

fn template_findings(question: &Question, path: &Path) -> Vec<Finding> {
    let Some(template) = &question.template else { return Vec::new() };
    let path = path.key("template");
    let findings = template.findings().into_iter();
    findings.map(|finding| Finding { path: path.join(&finding.path), ..finding }).collect()
}

/// Finds fields without a type that a judge must fill: without it, the judge does not know what to extract.
fn missing_types(question: &Value, path: &Path) -> Vec<Finding> {
    let fields = question.pointer("/template/fields").and_then(Value::as_array);
    let is_on_response = |field: &Value| {
        let check = field.get("check").cloned().map(serde_json::from_value::<Check>);
        check.is_some_and(|check| check.is_ok_and(|check| check.is_on_response()))
    };
    let untyped = |(_, field): &(usize, &Value)| field.get("type").is_none() && !is_on_response(field);
    let path = path.key("template").key("fields");
    let untyped = fields.into_iter().flatten().enumerate().filter(untyped);
    untyped.map(|(index, _)| Finding::new(path.index(index).key("type"), "missing key `type`")).collect()
}

/// What questions refer to.
struct Known {
    servers: Vec<String>,
    traits: Vec<String>,
    /// Whether traits apply to every question.
    has_shared_traits: bool,
    /// Servers that every question requires, with their paths. A missing one is reported once.
    required: Vec<(Path, ServerName)>,
    /// The paths of the ids so far.
    ids: BTreeMap<String, Path>,
}

impl Known {
    fn of(header: &Map<String, Value>) -> Self {
        let keys = |name: &str| match header.get(name) {
            Some(Value::Object(map)) => map.keys().cloned().collect(),
            _ => Vec::new(),
        };
        Self {
            servers: keys("servers"),
            traits: keys("rubric"),
            has_shared_traits: false,
            required: Vec::new(),
            ids: BTreeMap::new(),
        }
    }

    /// Checks names of traits.
    fn check_names(&self, names: &[String], path: &Path) -> Vec<Finding> {
        let unknown = names.iter().enumerate().filter(|(_, name)| !self.traits.contains(name));
        let finding = |(index, name): (usize, &String)| {
            let hint = did_you_mean(name, self.traits.iter().map(String::as_str))
                .unwrap_or_else(|| "define it under `rubric` of the benchmark".to_owned());
            Finding::new(path.index(index), format!("unknown trait {}", quoted(name))).with_hint(hint)
        };
        unknown.map(finding).collect()
    }

    fn check_id(&mut self, question: &Value, path: &Path, lines: &dyn Fn(&Path) -> usize) -> Option<Finding> {
        let id = question.get("id")?.as_str()?;
        let path = path.key("id");
        if let Some(first) = self.ids.get(id) {
            let message = format!("duplicate id {}: first used on line {}", quoted(id), lines(first));
            return Some(Finding::new(path, message));
        }
        self.ids.insert(id.to_owned(), path);
        None
    }

    fn check_required(&self, name: &ServerName, question: &Question, path: Path) -> Option<Finding> {
        let names = || self.servers.iter().chain(question.servers.keys()).map(String::as_str);
        if names().any(|server| server == name.as_str()) {
            return None;
        }
        let hint = did_you_mean(name.as_str(), names()).unwrap_or_else(|| "add it to `servers`".to_owned());
        let id = quoted(question.id.as_str());
        let message = format!("the required server `{name}` of question {id} is not defined");
        Some(Finding::new(path, message).with_hint(hint))
    }

    fn check_question(&mut self, question: &Question, path: &Path) -> Vec<Finding> {
        let mut findings = template_findings(question, path);
        let has_traits = self.has_shared_traits || !question.rubric.is_empty();
        if !question.has_checks() && !has_traits {
            let finding = Finding::new(path.clone(), "the question has nothing to check");
            let hint = match question.scenario {
                Some(_) => "add `template` or `trace` to a turn, or `outcome` to the scenario",
                None => "add `template`, `trace` or `rubric`",
            };
            findings.push(finding.with_hint(hint));
        }
        if let Some(scenario) = &question.scenario {
            if question.template.is_some() {
                let finding = Finding::new(path.key("template"), "a scenario has no template of its own");
                findings.push(finding.with_hint("move it to the turn that it is about"));
            }
            let path = path.key("scenario");
            let below = scenario.findings().into_iter();
            findings.extend(below.map(|finding| Finding { path: path.join(&finding.path), ..finding }));
        }
        findings.extend(self.check_names(&question.rubric, &path.key("rubric")));
        findings.extend(check_servers(&question.servers, path));
        let own = path.key("required_servers");
        for (index, name) in question.required_servers.iter().enumerate() {
            findings.extend(self.check_required(name, question, own.index(index)));
        }
        for (path, name) in std::mem::take(&mut self.required) {
            match self.check_required(&name, question, path.clone()) {
                Some(finding) => findings.push(finding),
                None => self.required.push((path, name)),
            }
        }
        findings
    }
}

fn check_servers(servers: &Map<String, Value>, path: &Path) -> Vec<Finding> {
    // Entries of another shape are on record already.
    let shaped = servers.iter().filter(|(_, entry)| !entry.is_null());
    let shaped = shaped.map(|(name, entry)| (name.clone(), entry.clone())).collect();
    let Err(invalid) = simple::convert_and_validate(&shaped) else { return Vec::new() };
    let path = path.key("servers");
    // Invalid names are on record already.
    let named = invalid.servers.into_iter().filter(|(name, _)| name.parse::<ServerName>().is_ok());
    named.map(|(name, reason)| Finding::new(path.key(&name), format!("the server `{name}` {reason}"))).collect()
}
