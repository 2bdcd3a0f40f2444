//! What is sent: the same conversation on each wire, and what each option adds.

use serde_json::Value;
use wharf_agent::models::{Dialect, OpenAi};
use wharf_agent::{Cache, ModelOptions};
use wharf_protocol::{Block, BlockKind, Message, Role, ToolCall, ToolOutput};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Turn};

use super::kit::{ALL, Adapter, OPENAI, Question, endpoint, json, tool};

/// What is sent for a question.
async fn sent(adapter: Adapter, question: &Question) -> Value {
    let fake = FakeModels::new([Turn::text("ok")]);
    eventually(question.ask(&*adapter.model(&fake))).await.unwrap();
    fake.bodies().remove(0)
}

/// A line for each field, each tool, each message, and each of its parts.
fn lines(sent: &Value) -> String {
    let mut lines = Vec::new();
    for (key, value) in sent.as_object().unwrap() {
        let Value::Array(items) = value else {
            lines.push(format!("{key}: {value}"));
            continue;
        };
        lines.push(format!("{key}:"));
        for item in items {
            match &item["content"] {
                Value::Array(parts) => {
                    lines.push(format!("  {}", item["role"]));
                    lines.extend(parts.iter().map(|part| format!("    {part}")));
                }
                _ => lines.push(format!("  {item}")),
            }
        }
    }
    lines.join("\n")
}

/// A conversation with everything in it, of which nothing was said by the model that is asked.
fn conversation() -> Question {
    let call = |id: &str, arguments: &str| {
        Block::from(BlockKind::ToolUse(ToolCall { id: id.into(), name: "look".into(), arguments: json(arguments) }))
    };
    let output = |text: &str| ToolOutput::from_json(&json(text)).unwrap();
    let messages = vec![
        Message::text(Role::System, "Be brief."),
        Message::text(Role::System, "Be right."),
        Message::text(Role::User, "Look twice."),
        Message::new(
            Role::Assistant,
            vec![
                BlockKind::Thinking { text: "hm".into(), signature: Some("of another".into()) }.into(),
                Block::text("I look."),
                call("call.1", r#"{"b": 1, "a": 2.0}"#),
                call("call_2", r#""{\"n\": ""#),
            ],
        ),
        Message::returned(
            "call_2".into(),
            output(
                r#"{"isError":true,"content":[{"type":"text","text":"no"},{"type":"image","data":"aGk=","mimeType":"image/png"},
                {"type":"image","data":"aGk=","mimeType":"image/tiff"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"},
                {"type":"resource","resource":{"uri":"file:///x","text":"inside"}},
                {"type":"resource_link","uri":"https://example.com/z","name":"z"},{"type":"text","text":""}]}"#,
            ),
        ),
        Message::returned("call.1".into(), output(r#"{"structuredContent":{"n": 1.0}}"#)),
        Message::text(Role::User, "And?"),
    ];
    let options = ModelOptions { max_tokens: 100, ..ModelOptions::default() };
    Question { messages, tools: vec![tool("look"), tool("leap")], options, ..Question::default() }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_on_the_messages_api() {
    let question = Question {
        options: ModelOptions { cache: Some(Cache::FiveMinutes), ..conversation().options },
        ..conversation()
    };
    insta::assert_snapshot!(lines(&sent(Adapter::Anthropic, &question).await), @r#"
    model: "fake-1"
    max_tokens: 100
    stream: true
    tools:
      {"name":"look","description":"Does look","input_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}
      {"name":"leap","description":"Does leap","input_schema":{"type":"object","properties":{"n":{"type":"integer"}}},"cache_control":{"type":"ephemeral","ttl":"5m"}}
    system:
      {"type":"text","text":"Be brief."}
      {"type":"text","text":"Be right.","cache_control":{"type":"ephemeral","ttl":"5m"}}
    messages:
      "user"
        {"type":"text","text":"Look twice."}
      "assistant"
        {"type":"text","text":"I look."}
        {"type":"tool_use","id":"id_call_1","name":"look","input":{"b":1,"a":2.0}}
        {"type":"tool_use","id":"call_2","name":"look","input":{"INVALID_JSON":"{\"n\": "}}
      "user"
        {"type":"tool_result","tool_use_id":"call_2","content":[{"type":"text","text":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"text","text":"[image, image/tiff, 3 bytes]"},{"type":"text","text":"[audio, audio/wav, 3 bytes]"},{"type":"text","text":"inside"},{"type":"text","text":"[link to https://example.com/z]"}],"is_error":true}
        {"type":"tool_result","tool_use_id":"id_call_1","content":[{"type":"text","text":"{\"n\": 1.0}"}]}
      "user"
        {"type":"text","text":"And?"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_on_chat_completions() {
    insta::assert_snapshot!(lines(&sent(OPENAI, &conversation()).await), @r#"
    model: "fake-1"
    stream: true
    stream_options: {"include_usage":true}
    max_completion_tokens: 100
    tools:
      {"type":"function","function":{"name":"look","description":"Does look","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}
      {"type":"function","function":{"name":"leap","description":"Does leap","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}
    messages:
      {"role":"system","content":"Be brief.\n\nBe right."}
      {"role":"user","content":"Look twice."}
      {"role":"assistant","content":"I look.","tool_calls":[{"id":"call.1","type":"function","function":{"name":"look","arguments":"{\"b\": 1, \"a\": 2.0}"}},{"id":"call_2","type":"function","function":{"name":"look","arguments":"{\"n\": "}}]}
      {"role":"tool","tool_call_id":"call_2","content":"Error: no\n[image, image/png, 3 bytes]\n[image, image/tiff, 3 bytes]\n[audio, audio/wav, 3 bytes]\ninside\n[link to https://example.com/z]\n"}
      {"role":"tool","tool_call_id":"call.1","content":"{\"n\": 1.0}"}
      "user"
        {"type":"text","text":"Image 1 of the result of the call call_2:"}
        {"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}
      {"role":"user","content":"And?"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn without_tools_and_options_nothing_is_sent_that_was_not_asked_for() {
    let question = Question::new("?").whole();
    let mut sent_by = Vec::new();
    for adapter in ALL {
        sent_by.push(sent(adapter, &question).await.to_string());
    }
    insta::assert_snapshot!(sent_by.join("\n"), @r#"
    {"model":"fake-1","max_tokens":16384,"messages":[{"role":"user","content":[{"type":"text","text":"?"}]}]}
    {"model":"fake-1","max_completion_tokens":16384,"messages":[{"role":"user","content":"?"}]}
    {"model":"fake-1","max_tokens":16384,"usage":{"include":true},"messages":[{"role":"user","content":"?"}]}
    {"model":"fake-1","max_tokens":16384,"messages":[{"role":"user","content":"?"}]}
    {"model":"fake-1","max_tokens":16384,"messages":[{"role":"user","content":"?"}]}
    "#);
}

#[tokio::test(start_paused = true)]
async fn every_option_has_its_place() {
    let mut question = Question::new("?").whole();
    let schema =
        r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;
    question.options = ModelOptions {
        max_tokens: 4000,
        temperature: Some(0.5),
        thinking: Some(5000),
        schema: Some(json(schema)),
        cache: Some(Cache::Hour),
        stream: false,
    };
    let mut sent_by = Vec::new();
    for adapter in ALL {
        sent_by.push(sent(adapter, &question).await.to_string());
    }
    insta::assert_snapshot!(sent_by.join("\n"), @r#"
    {"model":"fake-1","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":5000},"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}},"messages":[{"role":"user","content":[{"type":"text","text":"?"}]}]}
    {"model":"fake-1","max_completion_tokens":4000,"temperature":0.5,"reasoning_effort":"medium","response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}},"messages":[{"role":"user","content":"?"}]}
    {"model":"fake-1","max_tokens":4000,"temperature":0.5,"reasoning":{"max_tokens":5000},"usage":{"include":true},"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}},"messages":[{"role":"user","content":"?"}]}
    {"model":"fake-1","max_tokens":4000,"temperature":0.5,"reasoning_effort":"medium","response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}},"messages":[{"role":"user","content":"?"}]}
    {"model":"fake-1","max_tokens":4000,"temperature":0.5,"reasoning_effort":"medium","response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}},"messages":[{"role":"user","content":"?"}]}
    "#);
}

#[tokio::test(start_paused = true)]
async fn the_mark_to_cache_is_on_the_last_tool_and_the_last_instruction_only() {
    for (cache, ttl) in [(Cache::FiveMinutes, "5m"), (Cache::Hour, "1h")] {
        let mut question = conversation();
        question.options.cache = Some(cache);
        let sent = sent(Adapter::Anthropic, &question).await;
        let mark = serde_json::json!({"type": "ephemeral", "ttl": ttl});
        assert_eq!(sent["tools"][1]["cache_control"], mark);
        assert_eq!(sent["system"][1]["cache_control"], mark);
        assert_eq!(sent.to_string().matches("cache_control").count(), 2);
    }
    assert!(!sent(Adapter::Anthropic, &conversation()).await.to_string().contains("cache_control"));
}

#[tokio::test(start_paused = true)]
async fn a_router_is_asked_to_cache_for_models_that_have_to_be_asked() {
    let mut question = conversation();
    question.options.cache = Some(Cache::FiveMinutes);
    let sent = async |name: &str| {
        let fake = FakeModels::new([Turn::text("ok")]);
        let model = OpenAi::new(Dialect::OpenRouter, endpoint(&fake), name).unwrap();
        eventually(question.ask(&model)).await.unwrap();
        fake.bodies().remove(0)
    };
    let asked = sent("anthropic/claude-sonnet-5").await;
    assert_eq!(asked.to_string().matches("cache_control").count(), 1);
    insta::assert_snapshot!(asked["messages"][0], @r#"{"role":"system","content":[{"type":"text","text":"Be brief.\n\nBe right.","cache_control":{"type":"ephemeral","ttl":"5m"}}]}"#);
    assert!(!sent("openai/gpt-5").await.to_string().contains("cache_control"));
}

#[tokio::test(start_paused = true)]
async fn what_one_wire_said_is_told_on_another_in_its_own_form() {
    for (from, to) in [(Adapter::Anthropic, OPENAI), (OPENAI, Adapter::Anthropic)] {
        let turn = Turn::default().thinking("hm").saying("I look.").calling("c1", "look", r#"{"n": 1.0}"#);
        let fake = FakeModels::new([turn]);
        let mut question = Question::new("?");
        let (answer, _) = eventually(question.ask(&*from.model(&fake))).await.unwrap();
        question.messages.push(answer.message);
        question.messages.push(Message::returned("c1".into(), ToolOutput::said("one")));
        let sent = &sent(to, &question).await["messages"][1];
        match to {
            Adapter::Anthropic => {
                insta::assert_snapshot!(sent, @r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"look","input":{"n":1.0}}]}"#);
            }
            Adapter::OpenAi(_) => {
                insta::assert_snapshot!(sent, @r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"n\": 1.0}"}}]}"#);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn headers_and_paths_are_those_of_the_wire() {
    let mut lines = Vec::new();
    for adapter in ALL {
        let fake = FakeModels::new([Turn::text("ok")]);
        let model = adapter.model(&fake);
        eventually(Question::new("?").ask(&*model)).await.unwrap();
        let seen = fake.requests().remove(0);
        let mut names: Vec<&str> = seen.headers.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        lines.push(format!("{} {} {} {}", model.interface(), seen.method, seen.path, names.join(" ")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    anthropic POST /v1/messages accept anthropic-version content-length content-type host user-agent x-api-key
    openai POST /v1/chat/completions accept authorization content-length content-type host user-agent
    openrouter POST /v1/chat/completions accept authorization content-length content-type host user-agent
    openai-endpoint POST /v1/chat/completions accept authorization content-length content-type host user-agent
    ollama POST /v1/chat/completions accept authorization content-length content-type host user-agent
    "#);
}

#[tokio::test]
async fn who_may_call_nothing_is_still_told_of_the_tools_that_were_used_where_the_wire_wants_that() {
    let told = async |adapter: Adapter, known: Vec<wharf_protocol::ToolDefinition>| {
        let mut question = Question { tools: Vec::new(), known, ..conversation() };
        question.options.cache = Some(Cache::FiveMinutes);
        let sent = sent(adapter, &question).await;
        let tools = sent["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (names, sent["tool_choice"]["type"].clone(), tools.last().map(|tool| tool["cache_control"]["ttl"].clone()))
    };
    for adapter in ALL {
        let (names, choice, marked) = told(adapter, vec![tool("look"), tool("leap")]).await;
        if adapter != Adapter::Anthropic {
            assert_eq!((names.len(), choice), (0, Value::Null), "{adapter:?}");
            continue;
        }
        // As before, so that what is cached stays good.
        assert_eq!((names, choice, marked.unwrap()), (vec!["look".into(), "leap".into()], "none".into(), "5m".into()));
        // Nobody knows them any more; their names are in the conversation.
        assert_eq!(told(adapter, Vec::new()).await.0, ["look"]);
    }
}
