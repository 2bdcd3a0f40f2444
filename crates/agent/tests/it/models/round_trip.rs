//! A provider's messages are sent back to it byte for byte.

use proptest::prelude::*;
use wharf_agent::Delta;
use wharf_protocol::{BlockKind, Message, Role};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Turn};

use super::kit::{Adapter, OPENAI, TestRequest};

/// Sends two requests, the second with the first response in the conversation, and returns the body of the second.
async fn sent_back(adapter: Adapter, stream: bool, turn: Turn) -> String {
    let fake = FakeModels::new([turn, Turn::text("ok")]);
    let model = adapter.model(&fake);
    let mut request = TestRequest::new("?").streaming(stream);
    let (answer, deltas) = eventually(request.complete(&*model)).await.unwrap();
    check_deltas(&answer.message, &deltas);
    // Through a checkpoint.
    let saved = serde_json::to_string(&answer.message).unwrap();
    request.messages.push(serde_json::from_str::<Message>(&saved).unwrap());
    request.messages.push(Message::text(Role::User, "and?"));
    eventually(request.complete(&*model)).await.unwrap();
    fake.requests()[1].body.clone()
}

/// Checks that the deltas contain the same content as the message.
fn check_deltas(message: &Message, deltas: &[Delta]) {
    let mut streamed = [const { String::new() }; 3];
    for delta in deltas {
        match delta {
            Delta::Text(text) => streamed[0].push_str(text),
            Delta::Thinking(text) => streamed[1].push_str(text),
            Delta::ToolUse { id, name } => streamed[2].extend(["\n", id, " ", name, " "]),
            Delta::Arguments(text) => streamed[2].push_str(text),
        }
    }
    let mut complete = [message.plain_text(), String::new(), String::new()];
    for block in &message.content {
        match &block.kind {
            BlockKind::Thinking { text, .. } => complete[1].push_str(text),
            BlockKind::ToolUse(call) => {
                complete[2].extend(["\n", &call.id, " ", &call.name, " ", call.arguments.as_str()]);
            }
            _ => {}
        }
    }
    assert_eq!(streamed, complete);
}

fn blocking<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

#[tokio::test(start_paused = true)]
async fn unstreamed_blocks_are_sent_back_byte_for_byte() {
    let blocks = [
        r#"{ "signature":"c2ln","type":"thinking", "thinking":"h\u006d" ,"new":1.50}"#,
        r#"{"type":"redacted_thinking","data":"eA==" }"#,
        r#"{"type":"text","text":"caf\u00e9","citations":[ {"x":1e3} ]}"#,
        r#"{"type":"hologram","z":{"b":1,"a":2}}"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"t","input":{ "b":1.0, "a":[ ] },"caller":{"type":"direct"}}"#,
        r#"{"type":"thinking","thinking":"more","signature":"c2ln"}"#,
    ];
    let body = sent_back(Adapter::Anthropic, false, Turn::blocks(blocks)).await;
    let expected = format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","));
    assert!(body.contains(&expected), "{body}");
}

#[tokio::test(start_paused = true)]
async fn an_unstreamed_message_is_sent_back_byte_for_byte() {
    let message = r#"{ "role":"assistant","content":"caf\u00e9", "refusal":null,"annotations":[ ],"x":1.50,"tool_calls":[ {"id":"c1","type":"function","function":{"name":"t","arguments":"{ }"},"extra_content":{"google":{"thought_signature":"eA=="}}} ],"reasoning_details":[{"type":"reasoning.encrypted","data":"eA==","index":0}]}"#;
    let body = sent_back(OPENAI, false, Turn::message(message)).await;
    assert!(body.contains(message), "{body}");
}

#[tokio::test(start_paused = true)]
async fn blank_text_is_not_sent_back() {
    let blocks = [r#"{"type":"text","text":""}"#, r#"{"type":"text","text":"so"}"#];
    let body = sent_back(Adapter::Anthropic, true, Turn::blocks(blocks)).await;
    assert!(body.contains(r#"{"role":"assistant","content":[{"type":"text","text":"so"}]}"#), "{body}");
}

/// Difficult text: quotes, line breaks, text that looks like an event, multibyte characters.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z ]{1,6}",
        Just("\n\ndata: [DONE]\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\"}]}\\".to_owned()),
        Just("é🎉\u{2028}\u{feff}\u{0}".to_owned()),
        Just("--- AI Message ---".to_owned()),
    ];
    proptest::collection::vec(piece, 1..5).prop_map(|pieces| format!("x{}", pieces.concat()))
}

/// Arguments as a model might write them, with spaces and number formats that a serializer would change.
fn arguments() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("1.50".to_owned()),
        Just("1e3".to_owned()),
        Just("123456789012345678901234567890".to_owned()),
        Just("[ ]".to_owned()),
        Just("{ \"z\" : null }".to_owned()),
        Just("\"\\u00e9\"".to_owned()),
        text().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    proptest::collection::vec(value, 0..4).prop_map(|values| {
        let fields = values.iter().enumerate().map(|(place, value)| format!("\"k{}\" :{value}", 9 - place));
        format!("{{ {}}}", fields.collect::<Vec<_>>().join(", "))
    })
}

/// A block as the Messages API writes it. Only `input` has arbitrary formatting.
fn block() -> impl Strategy<Value = String> {
    let quoted = |text: String| serde_json::to_string(&text).unwrap();
    prop_oneof![
        text().prop_map(move |text| format!(r#"{{"type":"text","text":{}}}"#, quoted(text))),
        (text(), "[a-zA-Z0-9+/]{0,8}").prop_map(move |(text, signature)| format!(
            r#"{{"type":"thinking","thinking":{},"signature":"{signature}"}}"#,
            quoted(text)
        )),
        "[a-zA-Z0-9+/]{1,8}".prop_map(|data| format!(r#"{{"type":"redacted_thinking","data":"{data}"}}"#)),
        arguments().prop_map(|input| format!(r#"{{"type":"tool_use","id":"ID","name":"t","input":{input}}}"#)),
        arguments().prop_map(|input| format!(
            r#"{{"type":"server_tool_use","id":"s","name":"search","input":{input},"x":1}}"#
        )),
        text().prop_map(move |text| format!(r#"{{"type":"hologram","content":[{{"y":{}}}]}}"#, quoted(text))),
    ]
}

/// A message as Chat Completions writes it.
fn message() -> impl Strategy<Value = String> {
    let calls = proptest::collection::vec(arguments(), 0..3);
    let details = proptest::collection::vec((text(), any::<bool>()), 0..3);
    (proptest::option::of(text()), details, calls, any::<bool>()).prop_map(|(content, details, calls, unknown)| {
        let mut message = serde_json::json!({"role": "assistant", "content": content});
        if !details.is_empty() {
            let detail = |(index, (text, plain)): (usize, &(String, bool))| match plain {
                true => serde_json::json!({"type":"reasoning.text","text":text,"signature":null,"index":index}),
                false => serde_json::json!({"type":"reasoning.encrypted","data":text,"id":"r","index":index}),
            };
            message["reasoning_details"] = details.iter().enumerate().map(detail).collect();
        }
        if unknown {
            message["x_vendor"] = serde_json::json!({"b": [1, "é"], "a": null});
        }
        if !calls.is_empty() {
            let call = |(place, arguments): (usize, &String)| {
                serde_json::json!({"id":format!("c{place}"),"type":"function",
                    "function":{"name":"t","arguments":arguments},"extra_content":{"s":"eA=="}})
            };
            message["tool_calls"] = calls.iter().enumerate().map(call).collect();
        }
        message.to_string()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_blocks_are_sent_back_byte_for_byte(
        blocks in proptest::collection::vec(block(), 1..6),
        stream: bool,
        bytes in 0_usize..40,
        texts in 1_usize..8,
    ) {
        let blocks: Vec<String> = blocks
            .iter()
            .enumerate()
            .map(|(place, block)| block.replace("\"ID\"", &format!("\"toolu_{place}\"")))
            .collect();
        let turn = Turn::blocks(blocks.clone()).split(bytes, texts);
        let body = blocking(sent_back(Adapter::Anthropic, stream, turn));
        let expected = format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","));
        prop_assert!(body.contains(&expected), "stream: {stream}\nexpected {expected}\nin {body}");
    }

    #[test]
    fn any_message_is_sent_back_byte_for_byte(
        message in message(),
        stream: bool,
        bytes in 0_usize..40,
        texts in 1_usize..8,
    ) {
        let turn = Turn::message(message.clone()).split(bytes, texts);
        let body = blocking(sent_back(OPENAI, stream, turn));
        prop_assert!(body.contains(&message), "stream: {stream}\nexpected {message}\nin {body}");
    }

    /// Corrupted streams cause neither a panic nor a hang.
    #[test]
    fn a_corrupted_stream_is_a_response_or_an_error(
        corruptions in proptest::collection::vec((any::<u8>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        anthropic: bool,
        stream: bool,
    ) {
        let mut bytes = if anthropic { ANTHROPIC } else { CHAT }.as_bytes().to_vec();
        for (how, one, other) in &corruptions {
            let one = one.index(bytes.len());
            let other = other.index(bytes.len());
            let from = one.min(other);
            let to = one.max(other);
            match how % 4 {
                0 => bytes[one] = *how,
                1 => drop(bytes.drain(from..to)),
                2 => {
                    let again = bytes[from..to].to_vec();
                    bytes.splice(to..to, again);
                }
                _ => bytes.swap(one, other),
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let kind = if stream { "text/event-stream" } else { "application/json" };
        let fake = FakeModels::new([Turn::status(200, &[("content-type", kind)], body)]);
        let adapter = if anthropic { Adapter::Anthropic } else { OPENAI };
        blocking(async { drop(eventually(TestRequest::new("?").complete(&*adapter.model(&fake))).await) });
    }
}

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":3,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"t","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}

data: {"type":"message_stop"}

"#;

const CHAT: &str = r#"data: {"id":"c","model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"so","x":[{"index":0,"y":"1"}]}}]}

data: {"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{\"n\""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":0.1}}

data: [DONE]

"#;
