//! Conditions: checks of a path into the state of a conversation, here and there. `None` is a condition that the other side
//! does not have.

use serde_json::{Map, Value, json};

use crate::karenina::template_source::{read_check_object, write_check_object};
use crate::scenario::{Comparison, Condition, CountRange, TurnSelector, Visit};
use crate::template::Check;

/// Reads the condition of an edge: one check, or a list of checks that must all hold.
pub(super) fn read_edge(condition: &Value) -> Option<Value> {
    match condition {
        Value::Array(checks) => {
            let checks: Option<Vec<Value>> = checks.iter().map(read_state_check).collect();
            match checks?.as_slice() {
                [] => None,
                [one] => Some(one.clone()),
                several => Some(json!({ "all_of": several })),
            }
        }
        check => read_state_check(check),
    }
}

fn read_state_check(check: &Value) -> Option<Value> {
    let field = check.get("field")?.as_str()?;
    match field.split_once('.') {
        None if field == "verify_result" => passed(check),
        None if field == "turn" => visits(None, check),
        Some(("parsed", name)) => compared(name, check),
        Some(("node_visits", turn)) => visits(Some(turn), check),
        Some(("node_results", rest)) => {
            let (turn, what) = rest.split_once('.')?;
            let condition = match what.split_once('.') {
                None if what == "verify_result" => passed(check)?,
                Some(("parsed", name)) => compared(name, check)?,
                _ => return None,
            };
            Some(with(condition, json!({ "turn": turn })))
        }
        _ => None,
    }
}

/// Reads the check of a criterion.
pub(super) fn read_outcome(check: &Value) -> Option<Value> {
    let all = |key: &str| {
        let conditions = check.get("conditions")?.as_array().filter(|conditions| !conditions.is_empty())?;
        let read: Option<Vec<Value>> = conditions.iter().map(read_outcome).collect();
        Some(json!({key: read?}))
    };
    match check.get("type")?.as_str()? {
        "AllOf" | "all_of" => all("all_of"),
        "AnyOf" | "any_of" => all("any_of"),
        "TurnCheck" | "turn_check" => read_turn_check(check),
        "ResultCheck" | "result_check" => match check.get("field")?.as_str()? {
            "turn_count" => visits(None, check),
            "path" => match primitive(check)?.0 {
                "ordered_match" | "exact_match" => Some(json!({"path": check.get("expected")?.as_array()?})),
                _ => None,
            },
            // A conversation that reaches its limit fails without regard to its criteria.
            "status" if check.get("expected") == Some(&json!("completed")) => Some(json!({"visits": {"at_least": 1}})),
            _ => None,
        },
        _ => None,
    }
}

fn read_turn_check(check: &Value) -> Option<Value> {
    let scope = check.get("scope")?;
    let turn = match scope.get("node_id") {
        None | Some(Value::Null) => None,
        Some(Value::String(turn)) => Some(turn.as_str()),
        Some(Value::Array(turns)) => match turns.as_slice() {
            [one] => Some(one.as_str()?),
            _ => return None,
        },
        Some(_) => return None,
    };
    let visit = match (scope.get("type")?.as_str()?, scope.get("index").and_then(Value::as_i64)) {
        ("last_turn" | "LastTurn", _) | ("turn_at" | "TurnAt", Some(-1)) => "last",
        ("first_turn" | "FirstTurn", _) | ("turn_at" | "TurnAt", Some(0)) => "first",
        ("any_turn" | "AnyTurn", _) => "any",
        ("all_turns" | "AllTurns", _) => "all",
        _ => return None,
    };
    let field = check.get("field")?.as_str()?;
    let condition = match field.split_once('.') {
        None if field == "verify_result" => passed(check)?,
        None if field == "raw_response" => response(check)?,
        None if field == "node_id" && visit == "any" && turn.is_none() => {
            let node = check.get("expected")?.as_str()?;
            return Some(json!({"visits": {"turn": node, "at_least": 1}}));
        }
        Some(("parsed", name)) => compared(name, check)?,
        _ => return None,
    };
    let mut of = Map::new();
    if visit != "last" {
        of.insert("visit".to_owned(), visit.into());
    }
    if let Some(turn) = turn {
        of.insert("turn".to_owned(), turn.into());
    }
    Some(with(condition, Value::Object(of)))
}

fn with(mut condition: Value, more: Value) -> Value {
    if let (Some(condition), Value::Object(more)) = (condition.as_object_mut(), more) {
        condition.extend(more);
    }
    condition
}

fn passed(check: &Value) -> Option<Value> {
    let expected = check.get("expected")?.as_bool()?;
    (primitive(check)?.0 == "boolean_match").then(|| json!({ "passed": expected }))
}

fn compared(field: &str, check: &Value) -> Option<Value> {
    let (_, compared) = primitive(check)?;
    let mut condition = json!({"field": field, "check": compared});
    match check.get("expected") {
        None | Some(Value::Null) => {}
        Some(expected) => condition["truth"] = expected.clone(),
    }
    Some(condition)
}

/// Reads a check of the whole answer. Only those of a response exist here.
fn response(check: &Value) -> Option<Value> {
    let (name, compared) = primitive(check)?;
    let parameters = compared.get(name)?;
    if parameters.get("normalize").is_some_and(|list| list != &json!([])) {
        return None;
    }
    let contains = |text: &Value| json!({"response": {"trace_contains": {"substring": text}}});
    let all = || Some(parameters.get("substrings")?.as_array()?.iter().map(contains).collect::<Vec<Value>>());
    match name {
        "contains_all" => Some(json!({"all_of": all()?})),
        "contains_any" => Some(json!({"any_of": all()?})),
        "regex_match" if parameters.get("flags").is_none_or(|flags| flags == &json!([])) => {
            Some(json!({"response": {"trace_regex": {"pattern": parameters.get("pattern")?}}}))
        }
        _ => None,
    }
    // A selector belongs to each of several conditions, so only a single one may have it.
    .filter(|condition| condition.get("response").is_some() || is_last(check))
}

fn is_last(check: &Value) -> bool {
    let scope = check.get("scope").and_then(|scope| scope.get("type")).and_then(Value::as_str);
    matches!(scope, Some("last_turn" | "LastTurn"))
}

/// Reads a number of turns: an exact one, or a range of integers.
fn visits(turn: Option<&str>, check: &Value) -> Option<Value> {
    let (name, compared) = primitive(check)?;
    let parameters = compared.get(name).cloned().unwrap_or_else(|| json!({}));
    let expected = || check.get("expected").and_then(Value::as_u64);
    let is_exclusive = |key: &str| parameters.get(key).and_then(Value::as_bool).unwrap_or_default();
    let bound = |key: &str| match parameters.get(key) {
        None | Some(Value::Null) => Some(None),
        // There, bounds are numbers with a fraction.
        Some(value) => whole(value).map(Some),
    };
    let mut range = match name {
        "numeric_exact" => json!({"exactly": expected()?}),
        "numeric_minimum" => json!({"at_least": expected()?.checked_add(u64::from(is_exclusive("exclusive")))?}),
        "numeric_maximum" => json!({"at_most": expected()?.checked_sub(u64::from(is_exclusive("exclusive")))?}),
        "numeric_range" => {
            let mut range = Map::new();
            if let Some(min) = bound("min")? {
                range.insert("at_least".to_owned(), (min + u64::from(is_exclusive("exclusive_min"))).into());
            }
            if let Some(max) = bound("max")? {
                range.insert("at_most".to_owned(), max.checked_sub(u64::from(is_exclusive("exclusive_max")))?.into());
            }
            Value::Object(range)
        }
        _ => return None,
    };
    if let Some(turn) = turn {
        range["turn"] = turn.into();
    }
    Some(json!({ "visits": range }))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and small")]
fn whole(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    (number.fract() == 0.0 && (0.0..=1_000_000.0).contains(&number)).then_some(number as u64)
}

/// Returns the name of a check here, and the check in Wharf's notation.
fn primitive(check: &Value) -> Option<(&'static str, Value)> {
    read_check_object(check.get("verify_with")?)
}

/// Writes the condition of a branch: one check, or a list of checks.
pub(super) fn write_edge(condition: &Condition) -> Option<Value> {
    match condition {
        Condition::AllOf(inner) => {
            let checks: Option<Vec<Value>> = inner.iter().map(write_state_check).collect();
            checks.map(Value::Array)
        }
        one => write_state_check(one),
    }
}

fn write_state_check(condition: &Condition) -> Option<Value> {
    let path = |of: &TurnSelector, path: &str| match (&of.turn, of.visit) {
        (None, Visit::Last) => Some(path.to_owned()),
        (Some(turn), Visit::Last) => Some(format!("node_results.{turn}.{path}")),
        _ => None,
    };
    match condition {
        Condition::Passed { is, of } => Some(check("state_check", &path(of, "verify_result")?, &boolean(*is))),
        Condition::Field { name, comparison, of } => {
            Some(check("state_check", &path(of, &format!("parsed.{name}"))?, comparison))
        }
        Condition::Visits { turn, count } => {
            let path = turn.as_ref().map_or_else(|| "turn".to_owned(), |turn| format!("node_visits.{turn}"));
            Some(counted("state_check", &path, *count))
        }
        _ => None,
    }
}

/// Writes the check of a criterion.
pub(super) fn write_outcome(condition: &Condition) -> Option<Value> {
    let scope = |of: &TurnSelector| match (of.visit, &of.turn) {
        (Visit::Last, None) => Some(json!({"type": "last_turn"})),
        (Visit::First, None) => Some(json!({"type": "first_turn"})),
        (Visit::Any, turn) => Some(json!({"type": "any_turn", "node_id": turn})),
        (Visit::All, turn) => Some(json!({"type": "all_turns", "node_id": turn})),
        (Visit::First | Visit::Last, Some(_)) => None,
    };
    let all = |kind: &str, inner: &[Condition]| {
        let conditions: Option<Vec<Value>> = inner.iter().map(write_outcome).collect();
        Some(json!({"type": kind, "conditions": conditions?}))
    };
    match condition {
        Condition::Passed { is, of } => {
            Some(with(check("TurnCheck", "verify_result", &boolean(*is)), json!({"scope": scope(of)?})))
        }
        Condition::Field { name, comparison, of } => {
            Some(with(check("TurnCheck", &format!("parsed.{name}"), comparison), json!({"scope": scope(of)?})))
        }
        Condition::Visits { turn: None, count } => Some(counted("ResultCheck", "turn_count", *count)),
        Condition::Path(turns) => Some(json!({
            "type": "ResultCheck", "field": "path", "expected": turns,
            "verify_with": {"type": "OrderedMatch", "normalize": []},
        })),
        Condition::AllOf(inner) => all("AllOf", inner),
        Condition::AnyOf(inner) => all("AnyOf", inner),
        _ => None,
    }
}

fn boolean(is: bool) -> Comparison {
    Comparison { truth: is.into(), check: Check::BooleanMatch }
}

fn check(kind: &str, field: &str, comparison: &Comparison) -> Value {
    let verify_with = write_check_object(&comparison.check);
    json!({"type": kind, "field": field, "expected": comparison.truth, "verify_with": verify_with})
}

fn counted(kind: &str, field: &str, count: CountRange) -> Value {
    let CountRange { at_least, at_most } = count;
    let range = json!({"type": "NumericRange", "min": at_least, "max": at_most, "exclusive_min": false, "exclusive_max": false});
    json!({"type": kind, "field": field, "expected": null, "verify_with": range})
}
