//! The tool `read_output`: reads stored outputs that were too long to be shown. It is a tool like any other.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use wharf_protocol::{Hints, ToolOutput};

use super::spill::Spill;
use crate::catalog::{Entry, OwnTool};

/// The maximum length of the note after the text, in characters.
const MAX_NOTE_CHARS: usize = 160;

#[derive(Deserialize)]
struct ReadArguments {
    id: String,
    #[serde(default)]
    offset: usize,
    length: Option<usize>,
}

/// Creates the tool for the outputs in `spill`. Its own outputs have at most `limit` characters, so they are never cut.
pub(super) fn read_output(spill: Spill, limit: usize) -> Arc<Entry> {
    let max_length = limit.saturating_sub(MAX_NOTE_CHARS).max(1);
    let schema = json!({"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
        "id": {"type": "string", "description": "The id that the cut output names."},
        "offset": {"type": "integer", "minimum": 0, "description": "The first character to read, counted from 0."},
        "length": {"type": "integer", "minimum": 1,
            "description": format!("The number of characters to read; default and maximum: {max_length}.")}}});
    let description = "Reads a part of an output that was too long to be shown whole.";
    let hints =
        Hints { read_only: Some(true), destructive: Some(false), idempotent: Some(true), open_world: Some(false) };
    let mut tool = OwnTool::new("read_output", description, schema).with_hints(hints);
    tool.max_output_chars = Some(max_length + MAX_NOTE_CHARS);
    let run = move |arguments: wharf_protocol::Json| {
        let spill = spill.clone();
        async move {
            let ReadArguments { id, offset, length } = arguments.decode().map_err(|error| error.to_string())?;
            let length = length.unwrap_or(max_length).min(max_length);
            let range = spill.read(&id, offset, length).await.map_err(|error| error.to_string())?;
            let end = range.from + range.text.chars().count();
            let after =
                if end < range.of { format!("; continue with offset {end}") } else { "; end of output".to_owned() };
            Ok(ToolOutput::said(format!(
                "{}\n[Characters {} to {end} of {}{after}.]",
                range.text, range.from, range.of
            )))
        }
    };
    tool.run_by(run).expect("a valid name and schema")
}
