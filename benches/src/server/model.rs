//! A model that responds immediately over the Messages API: with a tool call first, and with text after its result.

use std::fmt::Write as _;
use std::io::{self, Write};

const CALL: &str = r#"{"type":"tool_use","id":"toolu_1","name":"add","input":{"a":40,"b":2}}"#;
const TEXT: &str = r#"{"type":"text","text":"It is 42."}"#;

/// Returns whether a request is for a model.
pub(super) fn is_model_request(message: &str) -> bool {
    message.contains("\"max_tokens\"")
}

pub(super) fn answer(message: &str, output: &mut impl Write) -> io::Result<()> {
    // The last message decides. It is the end of the conversation, which may be anywhere in the request.
    let returned = message.rfind("\"tool_result\"").is_some_and(|at| !message[at..].contains("\"How much?\""));
    let (block, stop) = if returned { (TEXT, "end_turn") } else { (CALL, "tool_use") };
    let (kind, content) = if message.contains("\"stream\":true") {
        ("text/event-stream", events(returned, stop))
    } else {
        let usage = r#"{"input_tokens":100,"output_tokens":10}"#;
        let text = format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"instant","content":[{block}],"stop_reason":"{stop}","stop_sequence":null,"usage":{usage}}}"#
        );
        ("application/json", text)
    };
    write!(output, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{content}", content.len())
}

fn events(returned: bool, stop: &str) -> String {
    let (begin, deltas): (&str, &[&str]) = if returned {
        (
            r#"{"type":"text","text":""}"#,
            &[r#"{"type":"text_delta","text":"It is "}"#, r#"{"type":"text_delta","text":"42."}"#],
        )
    } else {
        (
            r#"{"type":"tool_use","id":"toolu_1","name":"add","input":{}}"#,
            &[
                r#"{"type":"input_json_delta","partial_json":"{\"a\":40,"}"#,
                r#"{"type":"input_json_delta","partial_json":"\"b\":2}"}"#,
            ],
        )
    };
    let mut text = String::new();
    let mut event = |kind: &str, fields: &str| {
        let _ = write!(text, "event: {kind}\ndata: {{\"type\":\"{kind}\"{fields}}}\n\n");
    };
    event(
        "message_start",
        r#","message":{"id":"msg_1","type":"message","role":"assistant","model":"instant","content":[],"stop_reason":null,"usage":{"input_tokens":100,"output_tokens":1}}"#,
    );
    event("content_block_start", &format!(r#","index":0,"content_block":{begin}"#));
    for delta in deltas {
        event("content_block_delta", &format!(r#","index":0,"delta":{delta}"#));
    }
    event("content_block_stop", r#","index":0"#);
    event("message_delta", &format!(r#","delta":{{"stop_reason":"{stop}"}},"usage":{{"output_tokens":10}}"#));
    event("message_stop", "");
    text
}
