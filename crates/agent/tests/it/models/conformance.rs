//! The same conversation has the same trace on every adapter, streamed or not.

use wharf_agent::{
    Delta, Limits, Model, ModelError, ModelOptions, ModelRequest, Run, RunEnd, Step, StopReason, trace_messages,
};
use wharf_protocol::{Content, Message, Role, ToolDefinition, ToolOutput};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Tokens, Turn};

use super::kit::{ALL, Adapter, TestRequest, json, tool};

fn script() -> FakeModels {
    let tokens = Tokens { input: 100, output: 20, cache_read: 60, cache_write: 10, reasoning: 7, cost: None };
    FakeModels::new([
        Turn::default()
            .thinking("Two numbers are needed — both at once.")
            .saying("I will look both up.")
            .calling("call_a", "first", r#"{"n": 1.0, "é":"✓ \" \\"}"#)
            .calling("call_b", "second", r#"{"n":2}"#)
            .costing(tokens),
        Turn::default().calling("call_c", "third", "{}"),
        Turn::text("They are 1 and 2.\n\nDone. 🎉"),
    ])
}

fn output(name: &str) -> ToolOutput {
    match name {
        "first" => ToolOutput::said("one"),
        "second" => ToolOutput::error("it broke"),
        _ => {
            let mut output = ToolOutput::said("see:");
            let image = r#"{"type":"image","data":"aGk=","mimeType":"image/png"}"#;
            output.content.push(Content::from_json(json(image)));
            output.rebuilt()
        }
    }
}

/// Executes a run, and returns results in reverse order.
async fn drive(model: &dyn Model, run: &mut Run, options: &ModelOptions) -> Result<Vec<Delta>, ModelError> {
    let tools: Vec<ToolDefinition> = ["first", "second", "third"].map(tool).to_vec();
    let deltas = std::sync::Mutex::new(Vec::new());
    let on_delta = |delta: Delta| deltas.lock().unwrap().push(delta);
    loop {
        match run.step() {
            Step::CallModel { .. } => {
                let messages = run.messages().to_vec();
                let request = ModelRequest {
                    purpose: wharf_agent::RequestPurpose::TURN,
                    messages: &messages,
                    instructions: &[],
                    tools: &tools,
                    all_tools: &tools,
                    options,
                    on_delta: &on_delta,
                };
                let response = model.complete(&request).await?;
                run.on_response(response, |name| tools.iter().find(|tool| &*tool.name == name).map(|tool| tool.hints));
            }
            Step::CallTools(batch) => {
                for (index, call) in batch.into_iter().rev() {
                    run.on_tool_result(index, Ok(output(&call.name)));
                }
            }
            Step::Done(stop) => {
                assert_eq!(stop, RunEnd::Completed);
                return Ok(deltas.into_inner().unwrap());
            }
        }
    }
}

async fn trace(adapter: Adapter, stream: bool) -> (String, String) {
    let fake = script();
    let model = adapter.model(&fake);
    let messages = vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "Which numbers?")];
    let mut run = Run::new("s", messages, Limits::default());
    let options = ModelOptions { stream, ..ModelOptions::default() };
    let deltas = eventually(drive(&*model, &mut run, &options)).await.unwrap();
    assert_eq!(fake.remaining_turns(), 0);
    assert_eq!(run.model(), Some("fake-1"));
    let trace = serde_json::to_string_pretty(&trace_messages(run.new_messages())).unwrap();
    (trace, merged(&deltas))
}

/// The deltas as text, with consecutive parts merged.
fn merged(deltas: &[Delta]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut kind = "";
    for delta in deltas {
        let (this, text) = match delta {
            Delta::Text(text) => ("text ", text.clone()),
            Delta::Thinking(text) => ("thinking ", text.clone()),
            Delta::ToolUse { id, name } => ("call ", format!("{id} {name}")),
            Delta::Arguments(text) => ("arguments ", text.clone()),
        };
        match parts.last_mut() {
            Some(last) if this == kind && this != "call " => last.push_str(&text),
            _ => parts.push(format!("{this}{text}")),
        }
        kind = this;
    }
    parts.join("\n")
}

#[tokio::test(start_paused = true)]
async fn the_same_conversation_has_the_same_trace_on_every_adapter() {
    let (expected, deltas) = trace(Adapter::Anthropic, true).await;
    insta::assert_snapshot!(expected, @r#"
    [
      {
        "role": "assistant",
        "content": "I will look both up.",
        "block_index": 0,
        "tool_calls": [
          {
            "id": "call_a",
            "name": "first",
            "input": {"n": 1.0, "é":"✓ \" \\"}
          },
          {
            "id": "call_b",
            "name": "second",
            "input": {"n":2}
          }
        ],
        "thinking": {
          "thinking": "Two numbers are needed — both at once."
        },
        "usage_metadata": {
          "input_tokens": 100,
          "output_tokens": 20,
          "cache_read_tokens": 60,
          "cache_write_tokens": 10,
          "reasoning_tokens": 7
        }
      },
      {
        "role": "tool",
        "content": "one",
        "block_index": 1,
        "tool_result": {
          "tool_use_id": "call_a",
          "is_error": false
        }
      },
      {
        "role": "tool",
        "content": "it broke",
        "block_index": 2,
        "tool_result": {
          "tool_use_id": "call_b",
          "is_error": true
        }
      },
      {
        "role": "assistant",
        "content": "",
        "block_index": 3,
        "tool_calls": [
          {
            "id": "call_c",
            "name": "third",
            "input": {}
          }
        ],
        "usage_metadata": {
          "input_tokens": 10,
          "output_tokens": 5,
          "cache_read_tokens": 0,
          "cache_write_tokens": 0,
          "reasoning_tokens": 0
        }
      },
      {
        "role": "tool",
        "content": "see:\n[image, image/png, 2 bytes]",
        "block_index": 4,
        "tool_result": {
          "tool_use_id": "call_c",
          "is_error": false,
          "output": {"content":[{"type":"text","text":"see:"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}
        }
      },
      {
        "role": "assistant",
        "content": "They are 1 and 2.\n\nDone. 🎉",
        "block_index": 5,
        "usage_metadata": {
          "input_tokens": 10,
          "output_tokens": 5,
          "cache_read_tokens": 0,
          "cache_write_tokens": 0,
          "reasoning_tokens": 0
        }
      }
    ]
    "#);
    for adapter in ALL {
        for stream in [true, false] {
            let (trace, merged) = trace(adapter, stream).await;
            assert_eq!(trace, expected, "{adapter:?}, stream: {stream}");
            assert_eq!(merged, deltas, "{adapter:?}, stream: {stream}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deltas_contain_the_whole_response_in_order() {
    let (_, deltas) = trace(Adapter::Anthropic, true).await;
    insta::assert_snapshot!(deltas, @r#"
    thinking Two numbers are needed — both at once.
    text I will look both up.
    call call_a first
    arguments {"n": 1.0, "é":"✓ \" \\"}
    call call_b second
    arguments {"n":2}
    call call_c third
    arguments {}
    text They are 1 and 2.

    Done. 🎉
    "#);
}

#[tokio::test(start_paused = true)]
async fn stop_reasons_are_the_same_on_every_adapter() {
    let cases = [
        ("end_turn", "stop", StopReason::EndTurn),
        ("stop_sequence", "stop", StopReason::EndTurn),
        ("max_tokens", "length", StopReason::MaxTokens),
        ("refusal", "content_filter", StopReason::Refusal),
        ("pause_turn", "pause_turn", StopReason::Other("pause_turn".into())),
    ];
    for (anthropic, openai, expected) in cases {
        for adapter in ALL {
            let reason = if adapter == Adapter::Anthropic { anthropic } else { openai };
            for stream in [true, false] {
                let model = adapter.model(&FakeModels::new([Turn::text("so").stopping(reason)]));
                let (answer, _) = eventually(TestRequest::new("?").streaming(stream).complete(&*model)).await.unwrap();
                assert_eq!(answer.stop, expected, "{adapter:?}, stream: {stream}");
                assert_eq!(answer.message.plain_text(), "so");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn adapters_work_over_a_real_port() {
    tokio::time::resume();
    for adapter in ALL {
        let fake = FakeModels::new([Turn::text("hello").split(3, 2)]);
        let listening = fake.listen().await;
        let base = if adapter == Adapter::Anthropic { listening.anthropic_url() } else { listening.openai_url() };
        let http = wharf_io::HttpClient::new(wharf_io::HttpSettings::default()).unwrap();
        let model = adapter.at(wharf_agent::models::Endpoint::new(&base, None, http).unwrap());
        let (answer, _) = wharf_testkit::soon(TestRequest::new("?").complete(&*model)).await.unwrap();
        assert_eq!(answer.message.plain_text(), "hello");
    }
}
