//! Tools for a model that has never heard of any.

use wharf_agent::models::{Dialect, OpenAi};
use wharf_agent::{Delta, StopReason};
use wharf_protocol::{Message, Role, ToolOutput};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Turn};

use super::kit::{OPENAI, Question, endpoint, json, tool};

fn model(fake: &FakeModels) -> OpenAi {
    OpenAi::new(Dialect::Endpoint, endpoint(fake), "tiny").unwrap().emulating_tools()
}

#[tokio::test(start_paused = true)]
async fn calls_and_results_are_texts_on_the_wire_and_calls_and_results_here() {
    let fake = FakeModels::new([
        Turn::text(r#"{"tool": "add", "arguments": {"n": 1.0}}"#),
        Turn::text("```json\n{\"tool\":\"add\",\"arguments\":{\"n\":2}}\n```"),
        Turn::text(r#"{"answer":"It is \"3\"."}"#),
    ]);
    let model = model(&fake);
    let mut question = Question::new("1 + 2?");
    question.messages.insert(0, Message::text(Role::System, "Be brief."));
    question.tools = vec![tool("add")];
    let (first, deltas) = eventually(question.ask(&model)).await.unwrap();
    assert_eq!(first.stop, StopReason::ToolUse);
    let call = first.message.calls().next().unwrap().clone();
    assert_eq!((&*call.name, call.arguments.as_str()), ("add", r#"{"n": 1.0}"#));
    let told =
        [Delta::ToolUse { id: call.id.clone(), name: "add".into() }, Delta::Arguments(call.arguments.to_string())];
    assert_eq!(deltas, told);
    question.messages.extend([first.message, Message::returned(call.id.clone(), ToolOutput::error("not now"))]);

    let (second, _) = eventually(question.ask(&model)).await.unwrap();
    let again = second.message.calls().next().unwrap().clone();
    assert_ne!(again.id, call.id);
    question.messages.extend([second.message, Message::returned(again.id, ToolOutput::said("3"))]);

    let (third, deltas) = eventually(question.ask(&model)).await.unwrap();
    assert_eq!((third.stop, third.message.spoken().as_str()), (StopReason::EndTurn, r#"It is "3"."#));
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
async fn what_is_no_step_is_the_answer() {
    for (said, expected) in
        [("Just 3.", "Just 3."), (r#"{"x":1}"#, r#"{"x":1}"#), (r#"{"answer":{"n": 3}}"#, r#"{"n": 3}"#)]
    {
        let fake = FakeModels::new([Turn::text(said)]);
        let mut question = Question::new("?");
        question.tools = vec![tool("add")];
        let (answer, _) = eventually(question.ask(&model(&fake))).await.unwrap();
        assert_eq!(answer.message.spoken(), expected);
        assert_eq!(answer.message.calls().count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_form_of_the_answer_is_part_of_the_form_of_the_step() {
    let fake = FakeModels::new([Turn::text(r#"{"answer":{"n":3}}"#), Turn::text("3")]);
    let mut question = Question::new("?");
    question.options.schema = Some(json(r#"{"type":"object"}"#));
    question.tools = vec![tool("add")];
    eventually(question.ask(&model(&fake))).await.unwrap();
    let steps = fake.bodies()[0]["response_format"]["json_schema"]["schema"]["anyOf"].clone();
    assert_eq!(steps[1]["properties"]["answer"], serde_json::json!({"type":"object"}));
    question.tools.clear();
    question.options.schema = None;
    eventually(question.ask(&model(&fake))).await.unwrap();
    assert!(fake.bodies()[1].get("response_format").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_with_a_model_that_has_tools_and_back() {
    let fake = FakeModels::new([
        Turn::text(r#"{"tool":"add","arguments":{"n":1}}"#),
        Turn::default().calling("c2", "add", r#"{"n":2}"#),
        Turn::text(r#"{"answer":"3"}"#),
    ]);
    let mut question = Question::new("?").whole();
    question.tools = vec![tool("add")];
    let (emulated, native) = (model(&fake), OPENAI.model(&fake));
    let (first, _) = eventually(question.ask(&emulated)).await.unwrap();
    let id = first.message.calls().next().unwrap().id.clone();
    question.messages.extend([first.message, Message::returned(id, ToolOutput::said("one"))]);
    let (second, _) = eventually(question.ask(&*native)).await.unwrap();
    question.messages.extend([second.message, Message::returned("c2".into(), ToolOutput::said("two"))]);
    eventually(question.ask(&emulated)).await.unwrap();
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
