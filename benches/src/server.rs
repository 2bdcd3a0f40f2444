//! The server every contender talks to: as little work as possible, so that the client is what is measured.

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};

/// The text of a large result.
const LARGE: usize = 1_000_000;

pub(crate) fn serve() {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let large = "x".repeat(LARGE);
    let mut line = String::new();
    while input.read_line(&mut line).is_ok_and(|length| length > 0) {
        answer(&line, &large, &mut output);
        line.clear();
        // Answers leave together with those to requests that are here already.
        if input.buffer().is_empty() && output.flush().is_err() {
            return;
        }
    }
}

fn answer(line: &str, large: &str, output: &mut impl std::io::Write) {
    let Some(id) = number_after(line, "\"id\":") else { return };
    let text = if line.contains("\"initialize\"") {
        let info = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;
        let _ = writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{info}}}"#);
        return;
    } else if line.contains("\"huge\"") {
        return huge(id, output);
    } else if line.contains("\"large\"") {
        large
    } else {
        "small"
    };
    let _ =
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
}

/// One line of 300 MB.
fn huge(id: u64, output: &mut impl std::io::Write) {
    let chunk = "x".repeat(1_000_000);
    let _ = write!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    for _ in 0..300 {
        let _ = write!(output, "{chunk}");
    }
    let _ = writeln!(output, r#""}}]}}}}"#);
}

fn number_after(line: &str, key: &str) -> Option<u64> {
    let rest = &line[line.find(key)? + key.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}
