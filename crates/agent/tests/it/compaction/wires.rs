//! Compacted conversations on the wire of each provider.

use std::sync::Arc;

use serde_json::Value;
use wharf_agent::middleware::{Middleware, Summarization};
use wharf_agent::models::Dialect;
use wharf_agent::{Agent, Model, ModelOptions, RunEnd};
use wharf_protocol::{ToolOutput, Tools};
use wharf_testkit::models::{FakeModels, Turn};

use super::{new_run, tools};
use crate::kit::Behavior;
use crate::models::kit::{Adapter, OPENAI};

const TURNS: usize = 40;

/// A response with reasoning and its signature, byte for byte.
fn turn(adapter: Adapter, number: usize) -> Turn {
    if adapter == Adapter::Anthropic {
        return Turn::blocks([
            format!(r#"{{ "type":"thinking","thinking":"{}","signature":"sig-{number}"}}"#, "hm ".repeat(40)),
            format!(r#"{{"type":"redacted_thinking","data":"data-{number}" }}"#),
            format!(r#"{{"type":"tool_use","id":"c{number}","name":"look","input":{{ "at":{number}}}}}"#),
        ]);
    }
    Turn::message(format!(
        r#"{{"role":"assistant","content":"{}","reasoning_details":[{{"type":"reasoning.encrypted","data":"sig-{number}"}}],
        "tool_calls":[{{"id":"c{number}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}]}}"#,
        "I look. ".repeat(20)
    ))
}

/// Runs against a fake provider, and returns the bodies of its requests. Summaries have no tools.
async fn bodies(adapter: Adapter) -> Vec<Value> {
    let mut turns: Vec<Turn> = (1..=TURNS).map(|number| turn(adapter, number)).collect();
    turns.push(Turn::text("The end."));
    let fake = FakeModels::new(turns).summarizing("So far: one, two, three.");
    let tools = tools(TURNS, 80);
    tools.on_call("c39", Behavior::Says(ToolOutput::error("it broke")));
    let model: Arc<dyn Model> = adapter.model(&fake).into();
    let summarization = Summarization { trigger_tokens: Some(1_500), ..Summarization::default() };
    let agent = Agent::new(model, Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>))
        .with_options(ModelOptions { thinking: Some(2_048), stream: false, ..ModelOptions::default() })
        .with_middleware(Middleware { summarization, ..Middleware::default() });
    let result = agent.run(&mut new_run(), std::future::pending()).await.unwrap();
    assert_eq!((result.stop, fake.remaining_turns()), (RunEnd::Completed, 0));
    assert!(result.compactions.iter().any(|one| one.view.summary.is_some() && one.failure.is_none()));
    let (summaries, turns): (Vec<Value>, Vec<Value>) =
        fake.bodies().into_iter().partition(|body| body.get("tools").is_none());
    assert!(!summaries.is_empty() && summaries.iter().all(|body| body.get("thinking").is_none()));
    turns
}

#[tokio::test(start_paused = true)]
async fn reasoning_and_signatures_stay_valid_in_the_messages_api() {
    let bodies = bodies(Adapter::Anthropic).await;
    for body in &bodies {
        let messages = body["messages"].as_array().unwrap();
        let mut open: Option<String> = None;
        for message in messages {
            for block in message["content"].as_array().unwrap() {
                match block["type"].as_str().unwrap() {
                    "tool_use" => open = Some(block["id"].as_str().unwrap().to_owned()),
                    "tool_result" => assert_eq!(open.take().as_deref(), block["tool_use_id"].as_str()),
                    _ => {}
                }
            }
            if message["role"] == "assistant" {
                let content = &message["content"];
                let number = content[2]["input"]["at"].as_u64().unwrap();
                assert_eq!(content[0]["signature"], format!("sig-{number}"));
                assert_eq!(content[1]["data"], format!("data-{number}"));
            }
        }
        assert_eq!((open, &messages[0]["role"]), (None, &Value::from("user")));
    }
    let last = bodies.last().unwrap().to_string();
    assert!(last.contains("So far: one, two, three.") && !last.contains("sig-1\"") && last.contains("sig-40\""));
}

#[tokio::test(start_paused = true)]
async fn reasoning_stays_valid_in_chat_completions() {
    for adapter in [OPENAI, Adapter::OpenAi(Dialect::OpenRouter)] {
        let bodies = bodies(adapter).await;
        for body in &bodies {
            let mut open: Option<String> = None;
            for message in body["messages"].as_array().unwrap() {
                match message["role"].as_str().unwrap() {
                    "assistant" => {
                        let id = message["tool_calls"][0]["id"].as_str().unwrap();
                        assert_eq!(message["reasoning_details"][0]["data"], id.replace('c', "sig-"));
                        open = Some(id.to_owned());
                    }
                    "tool" => assert_eq!(open.take().as_deref(), message["tool_call_id"].as_str()),
                    _ => assert_eq!(open, None),
                }
            }
            assert_eq!(open, None);
        }
    }
}
