//! CSV (RFC 4180), with a header row.
//!
//! A spreadsheet executes cells that begin with `=`, `+`, `-`, `@`, a tab or a carriage return, and a model can answer
//! anything. Such texts get a leading apostrophe. Numbers are written by this program and stay numbers.

use std::io::{self, Write};

use super::columns::{COLUMNS, Cell};
use crate::outcome::UnitResult;

/// What begins a cell that a spreadsheet would execute.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Writes the header row.
pub(super) fn write_header(out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    write!(out, "{}\r\n", names.join(","))
}

/// Writes the row of a result.
pub(super) fn write_row(out: &mut impl Write, unit: &UnitResult) -> io::Result<()> {
    let row: Vec<String> = COLUMNS.iter().map(|column| cell(&(column.cell)(unit))).collect();
    write!(out, "{}\r\n", row.join(","))
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.as_deref().map(quoted).unwrap_or_default(),
        Cell::Int(number) => number.map(|number| number.to_string()).unwrap_or_default(),
        Cell::Float(number) => number.map(|number| number.to_string()).unwrap_or_default(),
        Cell::Bool(is_set) => is_set.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let guard = if text.starts_with(FORMULA_STARTS) { "'" } else { "" };
    if guard.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}
