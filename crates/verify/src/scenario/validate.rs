//! Rules of a scenario beyond its types: names that exist, turns that can be reached and left, and conditions that can be
//! evaluated.

use std::collections::BTreeSet;

use serde_json::Value;

use super::condition::{Comparison, Condition, TurnSelector, Visit};
use super::evaluate::compared_field;
use super::state::type_of;
use super::{END, Scenario, Turn, Update};
use crate::problem::{Finding, Path, quoted};
use crate::shape::read::did_you_mean;
use crate::template::{Check, Field, FieldType, Template, comparison_findings};

impl Scenario {
    /// Returns all problems, with paths from the scenario.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let root = Path::default();
        for (name, value) in &self.state {
            if type_of(value).is_none() {
                let finding = Finding::new(root.key("state").key(name), "a variable needs a first value");
                findings.push(finding.with_hint("write a text, a number, a boolean or a list of texts"));
            }
        }
        let mut names = BTreeSet::new();
        for (index, turn) in self.turns.iter().enumerate() {
            let path = root.key("turns").index(index);
            if turn.name == END {
                findings.push(Finding::new(path.key("name"), "`end` is the end of the scenario, not a turn"));
            } else if !names.insert(turn.name.as_str()) {
                findings.push(Finding::new(path.key("name"), format!("duplicate turn {}", quoted(&turn.name))));
            }
            self.check_turn(turn, &path, &mut findings);
        }
        if let Some(start) = &self.start {
            findings.extend(self.check_target(start, root.key("start")).filter(|_| start != END));
            if start == END {
                findings.push(Finding::new(root.key("start"), "a scenario needs at least one turn"));
            }
        }
        if findings.is_empty() {
            findings.extend(self.check_graph(&root.key("turns")));
        }
        let mut names = BTreeSet::new();
        for (index, criterion) in self.outcome.iter().enumerate() {
            let path = root.key("outcome").index(index);
            if !names.insert(criterion.name.as_str()) {
                let message = format!("duplicate criterion {}", quoted(&criterion.name));
                findings.push(Finding::new(path.key("name"), message));
            }
            Conditions { scenario: self, current: None }.check(&criterion.when, &path.key("when"), &mut findings);
        }
        findings
    }

    fn check_turn(&self, turn: &Turn, path: &Path, findings: &mut Vec<Finding>) {
        for name in turn.prompt.variables() {
            findings.extend(self.check_variable(name, path.key("prompt")));
        }
        if let Some(template) = &turn.template {
            let path = path.key("template");
            let below = template.findings().into_iter();
            findings.extend(below.map(|finding| Finding { path: path.join(&finding.path), ..finding }));
            let semantic = |(_, field): &(usize, &Field)| matches!(field.check, Check::SemanticMatch(_));
            for (index, _) in template.fields.iter().enumerate().filter(semantic) {
                findings.push(no_meanings(path.key("fields").index(index).key("check")));
            }
        }
        for (name, update) in &turn.set {
            let path = path.key("set").key(name);
            findings.extend(self.check_variable(name, path.clone()));
            match update {
                Update::Field(field) => findings.extend(check_read_field(turn, field, path.key("field"))),
                Update::Value(value) if type_of(value).is_none() => {
                    let message = "expected a text, a number, a boolean or a list of texts";
                    findings.push(Finding::new(path.key("value"), message));
                }
                Update::Value(_) | Update::Match(_) => {}
            }
            findings.extend(self.check_type(turn, name, update, &path));
        }
        for (index, branch) in turn.branches.iter().enumerate() {
            let path = path.key("branches").index(index);
            findings.extend(self.check_target(&branch.to, path.key("to")));
            let conditions = Conditions { scenario: self, current: Some(turn) };
            conditions.check(&branch.when, &path.key("when"), findings);
        }
        if let Some(next) = &turn.next {
            findings.extend(self.check_target(next, path.key("next")));
        }
    }

    /// Checks that every turn can be reached, and leads to the end.
    fn check_graph(&self, path: &Path) -> Vec<Finding> {
        let reachable = self.reachable();
        let ending = self.distances();
        let mut findings = Vec::new();
        for (index, turn) in self.turns.iter().enumerate() {
            let name = turn.name.as_str();
            if !reachable.contains(name) {
                let message = format!("no turn leads to {}", quoted(name));
                let hint = "add a branch to it, or remove it";
                findings.push(Finding::new(path.index(index), message).with_hint(hint));
            } else if !ending.contains_key(name) {
                let message = format!("{} does not lead to the end", quoted(name));
                let hint = "add a branch or `next` that leads to `end`";
                findings.push(Finding::new(path.index(index), message).with_hint(hint));
            }
        }
        findings
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.turns.iter().map(|turn| turn.name.as_str())
    }

    fn check_target(&self, name: &str, path: Path) -> Option<Finding> {
        if name == END || self.turn(name).is_some() {
            return None;
        }
        let finding = Finding::new(path, format!("unknown turn {}", quoted(name)));
        let hint = did_you_mean(name, self.names().chain([END]));
        Some(finding.with_hint(hint.unwrap_or_else(|| "add it to `turns`, or write `end`".to_owned())))
    }

    /// Checks that a new value has the type of the first one: conditions compare values of that type.
    fn check_type(&self, turn: &Turn, name: &str, update: &Update, path: &Path) -> Option<Finding> {
        let first = type_of(self.state.get(name)?)?;
        let (key, new) = match update {
            Update::Value(value) => ("value", type_of(value)?),
            // The text of a number is read as one.
            Update::Match(_) if matches!(first, FieldType::Int | FieldType::Float) => return None,
            Update::Match(_) => ("match", FieldType::Str),
            Update::Field(field) => {
                let mut fields = turn.template.iter().flat_map(Template::judged_fields);
                ("field", fields.find(|of| of.name == *field)?.kind.clone())
            }
        };
        let (first, new) = (variable_type(&first), variable_type(&new));
        let message = || format!("variable {} is {first}, and its new value is {new}", quoted(name));
        let hint = "give the variable a first value of the same type";
        (first != new).then(|| Finding::new(path.key(key), message()).with_hint(hint))
    }

    fn check_variable(&self, name: &str, path: Path) -> Option<Finding> {
        if self.state.contains_key(name) {
            return None;
        }
        let finding = Finding::new(path, format!("unknown variable {}", quoted(name)));
        let hint = did_you_mean(name, self.state.keys().map(String::as_str));
        Some(finding.with_hint(hint.unwrap_or_else(|| "add it to `state` of the scenario".to_owned())))
    }
}

/// Returns the type of a variable with values of a field. Integers and other numbers compare alike.
fn variable_type(kind: &FieldType) -> &'static str {
    match kind {
        FieldType::Bool => "a boolean",
        FieldType::Int | FieldType::Float => "a number",
        FieldType::ListStr => "a list of texts",
        FieldType::Str | FieldType::Date | FieldType::Literal(_) => "a text",
    }
}

fn no_meanings(path: Path) -> Finding {
    Finding::new(path, "`semantic_match` is not available in a scenario").with_hint("use another check")
}

/// Checks that a judge reads a field in the answers of a turn.
fn check_read_field(turn: &Turn, name: &str, path: Path) -> Option<Finding> {
    let fields: Vec<&str> =
        turn.template.iter().flat_map(Template::judged_fields).map(|field| field.name.as_str()).collect();
    if fields.contains(&name) {
        return None;
    }
    let finding = Finding::new(path, format!("turn `{}` has no field {} that a judge reads", turn.name, quoted(name)));
    let hint = did_you_mean(name, fields);
    Some(finding.with_hint(hint.unwrap_or_else(|| "add it to the `template` of the turn".to_owned())))
}

/// The place of conditions: after a turn, or at the end.
struct Conditions<'a> {
    scenario: &'a Scenario,
    current: Option<&'a Turn>,
}

impl Conditions<'_> {
    fn check(&self, condition: &Condition, path: &Path, findings: &mut Vec<Finding>) {
        match condition {
            Condition::Passed { of, .. } => self.check_passed(of, path, findings),
            Condition::Field { name, comparison, of } => {
                if let Some(turns) = self.selected(of, path, findings) {
                    findings.extend(check_field(name, comparison, &turns, path));
                }
            }
            Condition::State { name, comparison } => match self.scenario.state.get(name).map(type_of) {
                None => findings.extend(self.scenario.check_variable(name, path.key("state"))),
                Some(Some(kind)) => findings.extend(check_comparison(comparison, kind, path)),
                // The first value is on record already.
                Some(None) => {}
            },
            Condition::Response { check, of } => {
                self.selected(of, path, findings);
                if check.is_on_response() {
                    let field = compared_field(check, &Value::Null, FieldType::Bool);
                    let below = comparison_findings(&field, &Path::default()).into_iter();
                    let path = path.key("response");
                    findings.extend(below.map(|finding| Finding { path: path.clone(), ..finding }));
                } else {
                    let message = format!("`{}` does not check the answer itself", check.name());
                    let hint = "use `trace_contains`, `trace_regex` or `trace_length`";
                    findings.push(Finding::new(path.key("response"), message).with_hint(hint));
                }
            }
            Condition::Trace { of, .. } => drop(self.selected(of, path, findings)),
            Condition::Visits { turn, .. } => {
                if let Some(turn) = turn {
                    findings.extend(self.check_turn(turn, path.key("visits").key("turn")));
                }
            }
            Condition::Path(turns) => {
                for (index, turn) in turns.iter().enumerate() {
                    findings.extend(self.check_turn(turn, path.key("path").index(index)));
                }
            }
            Condition::AllOf(inner) => self.check_all(inner, &path.key("all_of"), findings),
            Condition::AnyOf(inner) => self.check_all(inner, &path.key("any_of"), findings),
            Condition::Not(inner) => self.check(inner, &path.key("not"), findings),
        }
    }

    fn check_all(&self, conditions: &[Condition], path: &Path, findings: &mut Vec<Finding>) {
        for (index, condition) in conditions.iter().enumerate() {
            self.check(condition, &path.index(index), findings);
        }
    }

    fn check_turn(&self, name: &str, path: Path) -> Option<Finding> {
        if self.scenario.turn(name).is_some() {
            return None;
        }
        let finding = Finding::new(path, format!("unknown turn {}", quoted(name)));
        let hint = did_you_mean(name, self.scenario.names());
        Some(match hint {
            Some(hint) => finding.with_hint(hint),
            None => finding,
        })
    }

    /// Returns the turns that a selector may choose. `None` if it names an unknown one.
    fn selected(&self, of: &TurnSelector, path: &Path, findings: &mut Vec<Finding>) -> Option<Vec<&Turn>> {
        if let Some(name) = &of.turn {
            findings.extend(self.check_turn(name, path.key("turn")));
            return self.scenario.turn(name).map(|turn| vec![turn]);
        }
        match self.current {
            Some(current) if of.visit == Visit::Last => Some(vec![current]),
            _ => Some(self.scenario.turns.iter().collect()),
        }
    }

    fn check_passed(&self, of: &TurnSelector, path: &Path, findings: &mut Vec<Finding>) {
        let Some(turns) = self.selected(of, path, findings) else { return };
        if turns.iter().any(|turn| turn.has_checks()) {
            return;
        }
        let message = match turns.as_slice() {
            [turn] => format!("turn `{}` has nothing to check", turn.name),
            _ => "no turn has anything to check".to_owned(),
        };
        let finding = Finding::new(path.key("passed"), message);
        findings.push(finding.with_hint("add `template` or `trace` to the turn"));
    }
}

fn check_field(name: &str, comparison: &Comparison, turns: &[&Turn], path: &Path) -> Vec<Finding> {
    let fields = || turns.iter().filter_map(|turn| turn.template.as_ref()).flat_map(Template::judged_fields);
    match (fields().find(|field| field.name == name), turns) {
        (Some(field), _) => check_comparison(comparison, field.kind.clone(), path),
        (None, [turn]) => check_read_field(turn, name, path.key("field")).into_iter().collect(),
        (None, _) => {
            let message = format!("no turn has a field {} that a judge reads", quoted(name));
            let finding = Finding::new(path.key("field"), message);
            vec![match did_you_mean(name, fields().map(|field| field.name.as_str())) {
                Some(hint) => finding.with_hint(hint),
                None => finding,
            }]
        }
    }
}

fn check_comparison(comparison: &Comparison, kind: FieldType, path: &Path) -> Vec<Finding> {
    if matches!(comparison.check, Check::SemanticMatch(_)) {
        return vec![no_meanings(path.key("check"))];
    }
    let field = compared_field(&comparison.check, &comparison.truth, kind);
    comparison_findings(&field, path)
}
