//! The server of the demo: a calculator, a clock and notes, and a tool that crashes it.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use wharf::server::{Call, Reply, Toolbox, serve_stdio};

use crate::exit::Exit;

/// What this program is started with to be that server.
pub(crate) const COMMAND: &str = "__demo-server";
/// The status the server ends with when it is told to crash.
pub(crate) const CRASH: i32 = 7;

/// Serves the demo's tools over stdio, as a child process does.
pub(crate) async fn serve() -> Exit {
    match serve_stdio(toolbox()).await {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// The tools; each call of this function makes a server with notes of its own.
pub(crate) fn toolbox() -> Toolbox {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let (written, read) = (Arc::clone(&notes), notes);
    let number = json!({"type": "number"});
    let operation = json!({"type": "string", "enum": ["+", "-", "*", "/"]});
    Toolbox::new("wharf-demo", env!("CARGO_PKG_VERSION"))
        .instructions("A calculator, a clock and notes, to see Wharf work.")
        .tool(
            json!({"name": "calculate", "description": "Does one calculation",
                "inputSchema": {"type": "object", "required": ["a", "operation", "b"],
                    "properties": {"a": number, "operation": operation, "b": number}},
                "outputSchema": {"type": "object", "required": ["result"], "properties": {"result": number}},
                "annotations": {"readOnlyHint": true}}),
            |call| async move { calculate(&call) },
        )
        .tool(
            json!({"name": "now", "description": "Tells the time, in UTC",
                "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}),
            |_| async { Ok(Reply::Text(now())) },
        )
        .tool(
            json!({"name": "write_note", "description": "Keeps a note for as long as the server lives",
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
            json!({"name": "read_notes", "description": "Reads all notes",
                "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}),
            move |_| {
                let notes = Arc::clone(&read);
                async move { Ok(Reply::Text(notes.lock().unwrap_or_else(PoisonError::into_inner).join("\n"))) }
            },
        )
        .tool(
            json!({"name": "crash", "description": "Ends the server at once, as a fault would",
                "inputSchema": {"type": "object"}}),
            |_| async { crash() },
        )
}

/// Returns the current time in UTC, for example `2026-11-16T12:46:13Z`.
fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

fn calculate(call: &Call) -> Result<Reply, String> {
    let (a, b) = (call.number("a")?, call.number("b")?);
    let result = match call.text("operation")? {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" if b == 0.0 => return Err("cannot divide by zero".to_owned()),
        "/" => a / b,
        other => return Err(format!("`{other}` is no operation")),
    };
    Ok(Reply::Structured(json!({ "result": result })))
}

fn crash() -> Result<Reply, String> {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "demo: crashing, as I was told");
    std::process::exit(CRASH)
}
