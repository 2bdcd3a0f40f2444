//! Builds a scenario turn by turn, so that each problem has its path.

use serde_json::{Map, Value};

use super::missing_types;
use crate::problem::{Finding, Path};
use crate::scenario::{Branch, Condition, Criterion, Scenario, Turn, read_assertion};

/// Builds a scenario whose shape was checked. Returns why that is impossible.
pub(super) fn read(mut value: Value, path: &Path) -> Result<Scenario, Vec<Finding>> {
    let mut findings = Vec::new();
    let turns = take_list(&mut value, "turns").into_iter().enumerate();
    let turns: Vec<Option<Turn>> =
        turns.map(|(index, turn)| read_turn(turn, &path.key("turns").index(index), &mut findings)).collect();
    let outcome = take_list(&mut value, "outcome").into_iter().enumerate();
    let outcome: Vec<Option<Criterion>> = outcome
        .map(|(index, mut criterion)| {
            let when = read_condition(&mut criterion, &path.key("outcome").index(index), &mut findings)?;
            Some(Criterion { name: take_text(&mut criterion, "name"), when })
        })
        .collect();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("turns".to_owned(), Value::Array(Vec::new()));
    }
    match serde_json::from_value::<Scenario>(value) {
        Ok(scenario) if findings.is_empty() => {
            let turns = turns.into_iter().flatten().collect();
            let outcome = outcome.into_iter().flatten().collect();
            Ok(Scenario { turns, outcome, ..scenario })
        }
        Ok(_) => Err(findings),
        Err(error) => {
            findings.push(Finding::new(path.clone(), error.to_string()));
            Err(findings)
        }
    }
}

fn read_turn(mut value: Value, path: &Path, findings: &mut Vec<Finding>) -> Option<Turn> {
    let before = findings.len();
    findings.extend(missing_types(&value, path));
    let mut trace = Vec::new();
    for (index, assertion) in take_list(&mut value, "trace").into_iter().enumerate() {
        trace.extend(read_assertion(assertion, &path.key("trace").index(index), findings));
    }
    let mut branches = Vec::new();
    for (index, mut branch) in take_list(&mut value, "branches").into_iter().enumerate() {
        let when = read_condition(&mut branch, &path.key("branches").index(index), findings);
        branches.extend(when.map(|when| Branch { when, to: take_text(&mut branch, "to") }));
    }
    match serde_json::from_value::<Turn>(value) {
        Ok(turn) if findings.len() == before => return Some(Turn { trace, branches, ..turn }),
        Ok(_) => {}
        Err(error) => findings.push(Finding::new(path.clone(), error.to_string())),
    }
    None
}

fn read_condition(value: &mut Value, path: &Path, findings: &mut Vec<Finding>) -> Option<Condition> {
    let condition = value.get_mut("when").map_or_else(|| Value::Object(Map::new()), Value::take);
    Condition::parse(condition, &path.key("when"), findings)
}

fn take_list(value: &mut Value, key: &str) -> Vec<Value> {
    match value.as_object_mut().and_then(|fields| fields.shift_remove(key)) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn take_text(value: &mut Value, key: &str) -> String {
    match value.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}
