//! Runs with more tools than a model is offered at once.

use std::sync::Arc;

use serde_json::json;
use wharf_agent::cassette::{Recorder, Replay};
use wharf_agent::middleware::{Middleware, ToolSearch};
use wharf_agent::{Agent, AgentResult, Limits, Model, ModelError, ModelResponse, Run};
use wharf_protocol::{
    BoxFuture, CallFailed, Hints, Json, Redactor, ToolCall, ToolDefinition, ToolLoading, ToolOutput, ToolSource, Tools,
};

use crate::kit::{Fake, MemoryFile, answer, new_run};

/// A hundred tools of about 115 tokens each, and a search tool that finds the two that a query names.
struct ManyTools(Vec<ToolDefinition>);

impl ManyTools {
    fn new() -> Self {
        let tool = |name: String, loading| ToolDefinition {
            name: name.into(),
            description: "does something with harbors ".repeat(24).into(),
            input_schema: json!({"type": "object"}).into(),
            hints: Hints::default(),
            loading,
        };
        let loading = |number: usize| match number {
            3 => ToolLoading::Always,
            4 | 5 => ToolLoading::Requested,
            _ => ToolLoading::Deferred,
        };
        let tools = (0..100).map(|number| tool(format!("t{number}"), loading(number)));
        Self(tools.chain([tool("search_tools".to_owned(), ToolLoading::Always)]).collect())
    }
}

impl Tools for ManyTools {
    fn offered(&self) -> &[ToolDefinition] {
        &self.0
    }

    fn search_tool(&self) -> Option<&str> {
        Some("search_tools")
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        let output = ToolOutput::said(format!("{} ran", call.name));
        let found = json!({"tools": call.arguments.to_value().unwrap()["find"]});
        let is_search = &*call.name == "search_tools";
        let output = if is_search { ToolOutput { structured: Some(Json::from(found)), ..output } } else { output };
        Box::pin(std::future::ready(Ok(output.rebuilt())))
    }
}

fn source() -> Arc<dyn ToolSource> {
    let tools: Arc<dyn Tools> = Arc::new(ManyTools::new());
    Arc::new(move || Arc::clone(&tools))
}

fn search(id: &str, names: &[&str]) -> ModelResponse {
    let tools: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    answer("", &[("search_tools", id, json!({"find": tools}))])
}

/// Searches, calls what was found, searches again, calls a tool by its name without a search, and answers.
fn script() -> Vec<Result<ModelResponse, ModelError>> {
    vec![
        Ok(search("s1", &["t50", "t51"])),
        Ok(answer("", &[("t50", "c1", json!({}))])),
        Ok(search("s2", &["t51", "t60", "no_such_tool"])),
        Ok(answer("", &[("t70", "c2", json!({}))])),
        Ok(answer("done", &[])),
    ]
}

async fn finish(agent: Agent, settings: ToolSearch, run: &mut Run) -> AgentResult {
    let agent = agent.with_middleware(Middleware { tool_search: settings, ..Middleware::default() });
    agent.run(run, std::future::pending()).await.unwrap()
}

/// Returns the tools of each request.
fn offered(model: &Fake) -> Vec<String> {
    model.requests.lock().unwrap().iter().map(|request| request.tools.join(" ")).collect()
}

#[tokio::test(start_paused = true)]
async fn many_tools_are_deferred_and_found_ones_stay_offered() {
    let model = Arc::new(Fake::new(script()));
    let settings = ToolSearch { trigger_tokens: Some(400), ..ToolSearch::default() };
    let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, source());
    let mut run = new_run(Limits::default());
    let result = finish(agent, settings.clone(), &mut run).await;
    assert_eq!(result.final_response.as_deref(), Some("done"));
    // Only one of the two tools fits that their server wants to be offered at once.
    assert_eq!(
        offered(&model),
        [
            "t3 t4 search_tools",
            "t3 t4 search_tools t50 t51",
            "t3 t4 search_tools t50 t51",
            "t3 t4 search_tools t50 t51 t60",
            "t3 t4 search_tools t50 t51 t60 t70",
        ]
    );
    // Also after a checkpoint.
    let mut resumed = Run::read(run.write()).unwrap();
    assert!(resumed.continue_with(wharf_protocol::Message::text(wharf_protocol::Role::User, "and?")));
    let model = Arc::new(Fake::new([Ok(answer("that", &[]))]));
    finish(Agent::new(Arc::clone(&model) as Arc<dyn Model>, source()), settings, &mut resumed).await;
    assert_eq!(offered(&model), ["t3 t4 search_tools t50 t51 t60 t70"]);
}

#[tokio::test(start_paused = true)]
async fn few_tools_are_offered_at_once_without_a_search_tool() {
    let all: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    let off = ToolSearch { enabled: false, trigger_tokens: Some(1), ..ToolSearch::default() };
    let large = ToolSearch { trigger_tokens: Some(1_000_000), ..ToolSearch::default() };
    // The tools have about 11,500 tokens.
    for (settings, window, expected) in [
        (off, 8_000, 100),
        (large, 8_000, 100),
        (ToolSearch::default(), 100_000, 3),
        (ToolSearch::default(), 200_000, 100),
    ] {
        let model = Arc::new(Fake::new([Ok(answer("done", &[]))]));
        let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, source()).with_context_window(window);
        finish(agent, settings, &mut new_run(Limits::default())).await;
        let tools = offered(&model).remove(0);
        if expected == 100 {
            assert_eq!(tools, all.join(" "), "{window}");
        } else {
            assert!(tools.starts_with("t3 t4 t5 search_tools"), "{tools}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recording_of_a_run_with_deferred_tools_can_be_replayed() {
    let settings = ToolSearch { trigger_tokens: Some(400), ..ToolSearch::default() };
    let file = MemoryFile::default();
    let recorder = Recorder::new(file.clone(), "fake:fake-1", Redactor::default()).unwrap();
    let agent = Agent::new(recorder.model(Arc::new(Fake::new(script()))), recorder.tools(source()));
    let live = finish(agent, settings.clone(), &mut new_run(Limits::default())).await;
    let replay = Replay::parse(&file.text()).unwrap();
    let agent = Agent::new(replay.model("fake", "fake-1"), replay.tools());
    let replayed = finish(agent, settings, &mut new_run(Limits::default())).await;
    replay.finish().unwrap();
    assert_eq!(replayed.raw_trace, live.raw_trace);
}
