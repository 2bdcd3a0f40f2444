//! Emulated tools, for models without tool support.

use wharf_agent::models::{Dialect, OpenAi};
use wharf_agent::{Delta, StopReason};
use wharf_protocol::{Message, Role, ToolOutput};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Turn};

use super::kit::{OPENAI, TestRequest, endpoint, json, tool};

fn model(fake: &FakeModels) -> OpenAi {
    OpenAi::new(Dialect::Endpoint, endpoint(fake), "tiny").unwrap().with_emulated_tools()
}

#[tokio::test(start_paused = true)]
async fn emulated_calls_and_results_are_text_on_the_wire() {
    let fake = FakeModels::new([
        Turn::text(r#"{"tool": "add", "arguments": {"n": 1.0}}"#),
        Turn::text("```json\n{\"tool\":\"add\",\"arguments\":{\"n\":2}}\n```"),
        Turn::text(r#"{"answer":"It is \"3\"."}"#),
    ]);
    let model = model(&fake);
    let mut request = TestRequest::new("1 + 2?");
    request.messages.insert(0, Message::text(Role::System, "Be brief."));
    request.tools = vec![tool("add")];
    let (first, deltas) = eventually(request.complete(&model)).await.unwrap();
    assert_eq!(first.stop, StopReason::ToolUse);
    let call = first.message.calls().next().unwrap().clone();
    assert_eq!((&*call.name, call.arguments.as_str()), ("add", r#"{"n": 1.0}"#));
    let reported =
        [Delta::ToolUse { id: call.id.clone(), name: "add".into() }, Delta::Arguments(call.arguments.to_string())];
    assert_eq!(deltas, reported);
    request.messages.extend([first.message, Message::tool_result(call.id.clone(), ToolOutput::error("not now"))]);

    let (second, _) = eventually(request.complete(&model)).await.unwrap();
    let again = second.message.calls().next().unwrap().clone();
    assert_ne!(again.id, call.id);
    request.messages.extend([second.message, Message::tool_result(again.id, ToolOutput::said("3"))]);

    let (third, deltas) = eventually(request.complete(&model)).await.unwrap();
    assert_eq!((third.stop, third.message.plain_text().as_str()), (StopReason::EndTurn, r#"It is "3"."#));
    assert_eq!(deltas, [Delta::Text(r#"It is "3"."#.to_owned())]);

    let sent = &fake.bodies()[2];
    assert!(sent.get("tools").is_none() && sent.get("stream").is_none(), "{sent}");
    insta::assert_snapshot!(serde_json::to_string_pretty(&sent["messages"]).unwrap(), @r#"
    [
      {
        "role": "system",
        "content": "Be brief.\n\nYou can use tools. Answer with one JSON object and nothing else. When a tool can help, call it: {\"tool\": NAME, \"arguments\": {...}}; you will be told its result. Once you have been told what you need, or where no tool can help, write {\"answer\": ...}. These are the tools:\n\nadd: Does add\nArguments: {\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}"
      },
      {
        "role": "user",
        "content": "1 + 2?"
      },
      {
        "role": "assistant",
        "content": "{\"tool\": \"add\", \"arguments\": {\"n\": 1.0}}"
      },
      {
        "role": "user",
        "content": "Result of add:\nError: not now"
      },
      {
        "role": "assistant",
        "content": "```json\n{\"tool\":\"add\",\"arguments\":{\"n\":2}}\n```"
      },
      {
        "role": "user",
        "content": "Result of add:\n3"
      }
    ]
    "#);
    insta::assert_snapshot!(serde_json::to_string_pretty(&sent["response_format"]).unwrap(), @r#"
    {
      "type": "json_schema",
      "json_schema": {
        "name": "step",
        "strict": false,
        "schema": {
          "anyOf": [
            {
              "type": "object",
              "properties": {
                "tool": {
                  "const": "add"
                },
                "arguments": {
                  "type": "object",
                  "properties": {
                    "n": {
                      "type": "integer"
                    }
                  }
                }
              },
              "required": [
                "tool",
                "arguments"
              ],
              "additionalProperties": false
            },
            {
              "type": "object",
              "properties": {
                "answer": {
                  "type": "string"
                }
              },
              "required": [
                "answer"
              ],
              "additionalProperties": false
            }
          ]
        }
      }
    }
    "#);
}

#[tokio::test(start_paused = true)]
async fn text_in_another_form_is_the_answer() {
    for (text, expected) in
        [("Just 3.", "Just 3."), (r#"{"x":1}"#, r#"{"x":1}"#), (r#"{"answer":{"n": 3}}"#, r#"{"n": 3}"#)]
    {
        let fake = FakeModels::new([Turn::text(text)]);
        let mut request = TestRequest::new("?");
        request.tools = vec![tool("add")];
        let (answer, _) = eventually(request.complete(&model(&fake))).await.unwrap();
        assert_eq!(answer.message.plain_text(), expected);
        assert_eq!(answer.message.calls().count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_schema_is_part_of_the_response_format() {
    let fake = FakeModels::new([Turn::text(r#"{"answer":{"n":3}}"#), Turn::text("3")]);
    let mut request = TestRequest::new("?");
    request.options.schema = Some(json(r#"{"type":"object"}"#));
    request.tools = vec![tool("add")];
    eventually(request.complete(&model(&fake))).await.unwrap();
    let steps = fake.bodies()[0]["response_format"]["json_schema"]["schema"]["anyOf"].clone();
    assert_eq!(steps[1]["properties"]["answer"], serde_json::json!({"type":"object"}));
    request.tools.clear();
    request.options.schema = None;
    eventually(request.complete(&model(&fake))).await.unwrap();
    assert!(fake.bodies()[1].get("response_format").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_conversation_can_switch_between_emulated_and_native_tools() {
    let fake = FakeModels::new([
        Turn::text(r#"{"tool":"add","arguments":{"n":1}}"#),
        Turn::default().calling("c2", "add", r#"{"n":2}"#),
        Turn::text(r#"{"answer":"3"}"#),
    ]);
    let mut request = TestRequest::new("?").unstreamed();
    request.tools = vec![tool("add")];
    let emulated = model(&fake);
    let native = OPENAI.model(&fake);
    let (first, _) = eventually(request.complete(&emulated)).await.unwrap();
    let id = first.message.calls().next().unwrap().id.clone();
    request.messages.extend([first.message, Message::tool_result(id, ToolOutput::said("one"))]);
    let (second, _) = eventually(request.complete(&*native)).await.unwrap();
    request.messages.extend([second.message, Message::tool_result("c2".into(), ToolOutput::said("two"))]);
    eventually(request.complete(&emulated)).await.unwrap();
    let bodies = fake.bodies();
    insta::assert_snapshot!(bodies[1]["messages"], @r#"[{"role":"user","content":"?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"n\":1}"}}]},{"role":"tool","tool_call_id":"call_1","content":"one"}]"#);
    insta::assert_snapshot!(bodies[2]["messages"].as_array().unwrap()[1..].iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r#"
    {"role":"user","content":"?"}
    {"role":"assistant","content":"{\"tool\":\"add\",\"arguments\":{\"n\":1}}"}
    {"role":"user","content":"Result of add:\none"}
    {"role":"assistant","content":"{\"tool\":\"add\",\"arguments\":{\"n\":2}}"}
    {"role":"user","content":"Result of add:\ntwo"}
    "#);
}
