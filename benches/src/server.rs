//! The server every contender talks to: as little work as possible, so that the client is what is measured.

mod http;
mod stdio;

use std::io::Write;

pub(crate) use http::serve as serve_http;
pub(crate) use stdio::serve as serve_stdio;

/// The text of a large result, and the pieces a huge one is made of.
const LARGE: usize = 1_000_000;

/// Writes the answer to a message as one line; nothing if none is asked for.
fn answer(message: &str, large: &str, output: &mut impl Write) {
    let Some(id) = id(message) else { return };
    let text = if message.contains("\"initialize\"") {
        let info = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;
        let _ = writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{info}}}"#);
        return;
    } else if message.contains("\"large\"") {
        large
    } else {
        "small"
    };
    let _ =
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
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
