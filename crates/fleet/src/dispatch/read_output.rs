//! The tool `read_output`: reads on in outputs that were too long to be shown. It is a tool like any other.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use wharf_protocol::{Hints, ToolOutput};

use super::spill::Spill;
use crate::catalog::{Entry, OwnTool};

/// What is said besides the text itself, in characters at most.
const ASIDE: usize = 160;

#[derive(Deserialize)]
struct Wanted {
    id: String,
    #[serde(default)]
    offset: usize,
    length: Option<usize>,
}

/// The tool, for outputs in `spill`; it answers with `most` characters at most, so that it is never cut itself.
pub(super) fn read_output(spill: Spill, most: usize) -> Arc<Entry> {
    let most = most.saturating_sub(ASIDE).max(1);
    let schema = json!({"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
        "id": {"type": "string", "description": "The id of the output, as the cut output named it."},
        "offset": {"type": "integer", "minimum": 0, "description": "The first character to read, counted from 0."},
        "length": {"type": "integer", "minimum": 1,
            "description": format!("How many characters to read; {most} at most, which is also the default.")}}});
    let description = "Reads a part of an output that was too long to be shown whole.";
    let hints =
        Hints { read_only: Some(true), destructive: Some(false), idempotent: Some(true), open_world: Some(false) };
    let mut tool = OwnTool::new("read_output", description, schema).with_hints(hints);
    tool.most_characters = Some(most + ASIDE);
    let run = move |arguments: wharf_protocol::Json| {
        let spill = spill.clone();
        async move {
            let Wanted { id, offset, length } = arguments.decode().map_err(|error| error.to_string())?;
            let length = length.unwrap_or(most).min(most);
            let range = spill.read(&id, offset, length).await.map_err(|error| error.to_string())?;
            let end = range.from + range.text.chars().count();
            let after =
                if end < range.of { format!("; read on with offset {end}") } else { "; that is the end".to_owned() };
            Ok(ToolOutput::said(format!(
                "{}\n[Characters {} to {end} of {}{after}.]",
                range.text, range.from, range.of
            )))
        }
    };
    tool.run_by(run).expect("its name and its schema are valid")
}
