//! The flat columns of a result, for formats without nesting.

use serde::Serialize;
use wharf_protocol::Usage;

use crate::json_name::json_name;
use crate::outcome::UnitResult;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// Text.
    Text,
    /// A 64-bit integer.
    Int,
    /// A 64-bit floating-point number.
    Float,
    /// `true` or `false`.
    Bool,
}

/// One value of a row. `None` is an empty cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(Option<String>),
    /// A 64-bit integer.
    Int(Option<i64>),
    /// A 64-bit floating-point number.
    Float(Option<f64>),
    /// `true` or `false`.
    Bool(bool),
}

/// A column.
#[derive(Clone, Copy)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// Type of its cells.
    pub kind: CellType,
    /// Returns the cell of a result. It has the type of the column.
    pub cell: fn(&UnitResult) -> Cell,
}

const fn column(name: &'static str, kind: CellType, cell: fn(&UnitResult) -> Cell) -> Column {
    Column { name, kind, cell }
}

/// The columns of a result, in order. New ones are added at the end.
pub const COLUMNS: &[Column] = &[
    column("unit", CellType::Text, |unit| text(unit.unit.to_string())),
    column("trial", CellType::Text, |unit| text(unit.trial.to_string())),
    column("question", CellType::Text, |unit| text(unit.question.to_string())),
    column("keywords", CellType::Text, |unit| text(unit.keywords.join(";"))),
    column("model", CellType::Text, |unit| text(unit.model.label.clone())),
    column("model_interface", CellType::Text, |unit| text(unit.model.interface.clone())),
    column("model_name", CellType::Text, |unit| text(unit.model.model.clone())),
    column("actual_model", CellType::Text, |unit| Cell::Text(unit.model.actual_model.clone())),
    column("judge", CellType::Text, |unit| Cell::Text(unit.judge.as_ref().map(|judge| judge.label.clone()))),
    column("replicate", CellType::Int, |unit| int(u64::from(unit.replicate))),
    column("verdict", CellType::Text, |unit| word(&unit.verdict)),
    column("failure_category", CellType::Text, |unit| failure(unit, |failure| json_name(&failure.category))),
    column("failure_group", CellType::Text, |unit| failure(unit, |failure| json_name(&failure.group))),
    column("failure_stage", CellType::Text, |unit| failure(unit, |failure| failure.stage.clone())),
    column("reason", CellType::Text, |unit| {
        Cell::Text(unit.failure.as_ref().map(|failure| failure.reason.clone()).or_else(|| unit.reason.clone()))
    }),
    column("caveats", CellType::Text, |unit| text(unit.caveats.iter().map(json_name).collect::<Vec<_>>().join(";"))),
    column("score", CellType::Float, |unit| Cell::Float(unit.template.as_ref().and_then(|template| template.score))),
    column("response", CellType::Text, |unit| Cell::Text(unit.response.clone())),
    column("limit_reached", CellType::Bool, |unit| Cell::Bool(unit.limit_reached)),
    column("turns", CellType::Int, |unit| int(u64::from(unit.turns))),
    column("tool_calls", CellType::Int, |unit| int(unit.tool_calls as u64)),
    column("input_tokens", CellType::Int, |unit| int(unit.usage.input_tokens)),
    column("output_tokens", CellType::Int, |unit| int(unit.usage.output_tokens)),
    column("cost_usd", CellType::Float, |unit| cost(&unit.usage)),
    column("judge_input_tokens", CellType::Int, |unit| int(unit.judge_usage.input_tokens)),
    column("judge_output_tokens", CellType::Int, |unit| int(unit.judge_usage.output_tokens)),
    column("judge_cost_usd", CellType::Float, |unit| cost(&unit.judge_usage)),
    column("retries", CellType::Int, |unit| int(unit.retries.values().map(|count| u64::from(*count)).sum())),
    column("millis", CellType::Int, |unit| int(unit.millis)),
    column("tool_set", CellType::Text, |unit| text(unit.tool_set.clone())),
    column("fields", CellType::Text, |unit| json(unit.template.as_ref().map(|template| &template.fields))),
    column("assertions", CellType::Text, |unit| json(Some(&unit.assertions).filter(|list| !list.is_empty()))),
    column("rubric", CellType::Text, |unit| json(unit.rubric.as_ref().map(|rubric| &rubric.traits))),
    column("scenario_path", CellType::Text, |unit| {
        Cell::Text(unit.scenario.as_ref().map(|scenario| scenario.path().join(";")))
    }),
    column("scenario_end", CellType::Text, |unit| {
        Cell::Text(unit.scenario.as_ref().map(|scenario| json_name(&scenario.end)))
    }),
    column("scenario_turns", CellType::Text, |unit| json(unit.scenario.as_ref().map(|scenario| &scenario.turns))),
    column("scenario_state", CellType::Text, |unit| json(unit.scenario.as_ref().map(|scenario| &scenario.state))),
    column("scenario_outcome", CellType::Text, |unit| json(unit.scenario.as_ref().map(|scenario| &scenario.outcome))),
];

fn text(text: String) -> Cell {
    Cell::Text(Some(text).filter(|text| !text.is_empty()))
}

fn int(number: u64) -> Cell {
    Cell::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
}

fn cost(usage: &Usage) -> Cell {
    Cell::Float(usage.cost_usd)
}

fn word(value: &impl Serialize) -> Cell {
    text(json_name(value))
}

fn failure(unit: &UnitResult, part: impl Fn(&crate::outcome::Failure) -> String) -> Cell {
    Cell::Text(unit.failure.as_ref().map(part))
}

/// Returns a nested value as JSON text.
fn json<T: Serialize>(value: Option<T>) -> Cell {
    Cell::Text(value.and_then(|value| serde_json::to_string(&value).ok()))
}
