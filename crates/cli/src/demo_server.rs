//! The server of the demo: a calculator, a clock and notes, and a tool that crashes it.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use wharf::server::{Call, Reply, Toolbox, serve_stdio};

use crate::exit::Exit;

/// The argument that makes this program the demo server.
pub(crate) const COMMAND: &str = "__demo-server";
/// The exit status of the `crash` tool.
pub(crate) const CRASH: i32 = 7;

/// Serves the demo's tools over stdio, as a child process does.
pub(crate) async fn serve() -> Exit {
    match serve_stdio(toolbox()).await {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// Returns the tools of a new server, with its own notes.
pub(crate) fn toolbox() -> Toolbox {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let written = Arc::clone(&notes);
    let read = notes;
    let number = json!({"type": "number"});
    let operation = json!({"type": "string", "enum": ["+", "-", "*", "/"]});
    Toolbox::new("wharf-demo", env!("CARGO_PKG_VERSION"))
        .instructions("A calculator, a clock and notes, to try Wharf.")
        .tool(
            json!({"name": "calculate", "description": "Calculate one operation",
                "inputSchema": {"type": "object", "required": ["a", "operation", "b"],
                    "properties": {"a": number, "operation": operation, "b": number}},
                "outputSchema": {"type": "object", "required": ["result"], "properties": {"result": number}},
                "annotations": {"readOnlyHint": true}}),
            |call| async move { calculate(&call) },
        )
        .tool(
            json!({"name": "now", "description": "Return the current time in UTC",
                "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}),
            |_| async { Ok(Reply::Text(now())) },
        )
        .tool(
            json!({"name": "write_note", "description": "Store a note until the server exits",
                "inputSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}}),
            move |call| {
                let notes = Arc::clone(&written);
                async move {
                    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                    notes.push(call.text("text")?.to_owned());
                    Ok(Reply::Text(format!("note {}", notes.len())))
                }
            },
        )
        .tool(
            json!({"name": "read_notes", "description": "Return all notes",
                "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}),
            move |_| {
                let notes = Arc::clone(&read);
                async move { Ok(Reply::Text(notes.lock().unwrap_or_else(PoisonError::into_inner).join("\n"))) }
            },
        )
        .tool(
            json!({"name": "crash", "description": "Exit at once, as a crash would",
                "inputSchema": {"type": "object"}}),
            |_| async { crash() },
        )
}

fn calculate(call: &Call) -> Result<Reply, String> {
    let a = call.number("a")?;
    let b = call.number("b")?;
    let result = match call.text("operation")? {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" if b == 0.0 => return Err("cannot divide by zero".to_owned()),
        "/" => a / b,
        other => return Err(format!("unknown operation `{other}`")),
    };
    Ok(Reply::Structured(json!({ "result": result })))
}

fn crash() -> Result<Reply, String> {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "demo: crashing on request");
    std::process::exit(CRASH)
}

/// Returns the current time in UTC, for example `2026-11-16T12:46:13Z`.
fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}
