//! The server of all contenders. It does as little as possible, so that the client dominates the measurement.

mod http;
mod model;
mod stdio;

use std::io::Write;
use std::sync::OnceLock;

pub(crate) use http::serve as serve_http;
pub(crate) use stdio::serve as serve_stdio;

/// Length of the text of a large result, and of the chunks of a huge one.
const LARGE: usize = 1_000_000;
/// Default length of descriptions.
const DESCRIPTION: usize = 160;
/// The input schema of every tool; with name and description about 0.6 KB on the wire.
const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string","description":"The text that is worked on"},"limit":{"type":"integer","description":"How many there may be","minimum":1,"maximum":100,"default":10},"mode":{"type":"string","enum":["fast","slow","careful"],"description":"How it is done"}},"required":["text"],"additionalProperties":false}"#;

/// Writes the response to a message as one line; nothing for a notification.
pub(crate) fn answer(message: &str, large: &str, output: &mut impl Write) {
    let Some(id) = id(message) else { return };
    let text = if message.contains("\"initialize\"") {
        let info = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;
        let _ = writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{info}}}"#);
        return;
    } else if message.contains("\"server/discover\"") {
        // The response of a server that does not know the method.
        let error = r#"{"code":-32601,"message":"Method not found"}"#;
        let _ = writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        return;
    } else if message.contains("\"tools/list\"") {
        let _ = writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{}]}}}}"#, tools());
        return;
    } else if message.contains("\"large\"") {
        large
    } else {
        "small"
    };
    let _ =
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
}

/// Returns the listed tools: the two that are called, and more by the program's arguments. The second argument is their
/// number, the third the length of their descriptions.
fn tools() -> &'static str {
    static TOOLS: OnceLock<String> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let argument = |position| std::env::args().nth(position).and_then(|text| text.parse().ok());
        let more = argument(2).unwrap_or(0);
        let length = argument(3).unwrap_or(DESCRIPTION);
        let names = ["small".to_owned(), "large".to_owned()].into_iter();
        let names = names.chain((0..more).map(|number: usize| format!("tool_number_{number}")));
        let description = "What this tool does. ".repeat(length / 20);
        let tool =
            |name: String| format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{SCHEMA}}}"#);
        names.map(tool).collect::<Vec<_>>().join(",")
    })
}

/// Writes a response that is `chunks` times as long as a large one, without holding it in memory.
fn huge(message: &str, chunks: usize, output: &mut impl Write) -> std::io::Result<()> {
    let id = id(message).unwrap_or(0);
    let piece = vec![b'x'; LARGE];
    write!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#)?;
    for _ in 0..chunks {
        output.write_all(&piece)?;
    }
    writeln!(output, r#""}}]}}}}"#)
}

fn id(message: &str) -> Option<u64> {
    let key = "\"id\":";
    let rest = &message[message.find(key)? + key.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}
