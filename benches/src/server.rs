//! The server every contender talks to: as little work as possible, so that the client is what is measured.

mod http;
mod model;
mod stdio;

use std::io::Write;
use std::sync::OnceLock;

pub(crate) use http::serve as serve_http;
pub(crate) use stdio::serve as serve_stdio;

/// The text of a large result, and the pieces a huge one is made of.
const LARGE: usize = 1_000_000;
/// How long descriptions are, if nobody says otherwise.
const DESCRIPTION: usize = 160;
/// What every tool takes: with name and description about 0.6 KB on the wire.
const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string","description":"The text that is worked on"},"limit":{"type":"integer","description":"How many there may be","minimum":1,"maximum":100,"default":10},"mode":{"type":"string","enum":["fast","slow","careful"],"description":"How it is done"}},"required":["text"],"additionalProperties":false}"#;

/// Writes the answer to a message as one line; nothing if none is asked for.
pub(crate) fn answer(message: &str, large: &str, output: &mut impl Write) {
    let Some(id) = id(message) else { return };
    let text = if message.contains("\"initialize\"") {
        let info = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;
        let _ = writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{info}}}"#);
        return;
    } else if message.contains("\"server/discover\"") {
        // What a server says that has never heard of it.
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

/// The tools that are listed: the two that are called, and as many more as the program's second argument says, each with a
/// description as long as the third says.
fn tools() -> &'static str {
    static TOOLS: OnceLock<String> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let argument = |position| std::env::args().nth(position).and_then(|text| text.parse().ok());
        let (more, length) = (argument(2).unwrap_or(0), argument(3).unwrap_or(DESCRIPTION));
        let names = ["small".to_owned(), "large".to_owned()].into_iter();
        let names = names.chain((0..more).map(|number: usize| format!("tool_number_{number}")));
        let description = "What this tool does. ".repeat(length / 20);
        let tool =
            |name: String| format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{SCHEMA}}}"#);
        names.map(tool).collect::<Vec<_>>().join(",")
    })
}

/// Writes an answer that is `pieces` times as long as a large one, without ever holding it.
fn huge(message: &str, pieces: usize, output: &mut impl Write) -> std::io::Result<()> {
    let id = id(message).unwrap_or(0);
    let piece = vec![b'x'; LARGE];
    write!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#)?;
    for _ in 0..pieces {
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
