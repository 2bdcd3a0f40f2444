//! Long conversations: what is removed, what is summarized, and what always stays.

mod model;
mod wires;

use std::sync::Arc;

use wharf_agent::cassette::{Recorder, Replay};
use wharf_agent::middleware::{Middleware, Summarization};
use wharf_agent::{Agent, AgentResult, CompactionReason, Limits, Model, ModelErrorKind, Run, RunEnd};
use wharf_protocol::{Message, Redactor, Role, ToolOutput, Tools};

use crate::kit::{Behavior, EventLog, MemoryFile, TestTools};
use model::{Summaries, WindowModel, size};

const QUESTION: &str = "How many harbors does the island of Example have, and which one is the oldest?";

fn limits() -> Limits {
    Limits { model_calls: 10_000, tool_calls: 10_000, ..Limits::default() }
}

fn new_run() -> Run {
    let messages = vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, QUESTION)];
    Run::new("long", messages, limits())
}

/// Tools whose results have about this many words.
fn tools(turns: usize, words: usize) -> Arc<TestTools> {
    let tools = TestTools::new();
    for turn in 1..=turns {
        let text = format!("result {turn}: {}", "harbor ".repeat(words));
        tools.on_call(&format!("c{turn}"), Behavior::Says(ToolOutput::said(text)));
    }
    tools
}

fn agent(model: &Arc<WindowModel>, tools: &Arc<TestTools>, summarization: Summarization) -> Agent {
    let tools = Arc::clone(tools);
    let middleware = Middleware { summarization, ..Middleware::default() };
    Agent::new(Arc::clone(model) as Arc<dyn Model>, Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>))
        .with_middleware(middleware)
}

async fn finish(agent: &Agent, run: &mut Run) -> AgentResult {
    agent.run(run, std::future::pending()).await.unwrap()
}

/// Whether a conversation has the question of the user in the user's own message.
fn has_question(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.role == Role::User && message.plain_text().contains(QUESTION))
}

#[tokio::test(start_paused = true)]
async fn a_run_of_500_turns_finishes_in_a_small_window() {
    // The provider counts more tokens than the estimate.
    for reported in [70, 180] {
        let model = Arc::new(WindowModel { reported, words: 20, ..WindowModel::new(8_000, 500) });
        let tools = tools(500, 100);
        let mut run = new_run();
        let result = finish(&agent(&model, &tools, Summarization::default()), &mut run).await;
        assert_eq!((result.stop, result.final_response.as_deref()), (RunEnd::Completed, Some("The end.")));
        assert_eq!(*model.rejected.lock().unwrap(), 0, "no request was too long");
        let requests = model.requests.lock().unwrap();
        assert!(requests.iter().all(|messages| has_question(messages)));
        let all = run.messages();
        assert_eq!((all.len(), result.trace_messages.len()), (1_003, 1_001), "the trace has everything");
        // The last 20 messages are sent as they are.
        for (turn, sent) in requests.iter().enumerate() {
            let recent = &all[..2 + 2 * turn];
            let count = recent.len().min(20);
            assert_eq!(sent[sent.len() - count..], recent[recent.len() - count..], "turn {}", turn + 1);
        }
        let summaries = model.summarized.lock().unwrap().len();
        assert!((5..60).contains(&summaries), "{summaries} summaries");
        assert_eq!(result.compactions.iter().filter(|one| one.usage.input_tokens > 0).count(), summaries);
    }
}

#[tokio::test(start_paused = true)]
async fn summarization_starts_at_exactly_the_configured_number_of_tokens() {
    let model = Arc::new(WindowModel::new(1_000_000, 60));
    let tools = tools(60, 100);
    let settings = Summarization { trigger_tokens: Some(4_000), ..Summarization::default() };
    let mut run = new_run();
    let result = finish(&agent(&model, &tools, settings), &mut run).await;
    let first = &result.compactions[0];
    assert_eq!(first.reason, CompactionReason::Threshold);
    let requests = model.requests.lock().unwrap();
    let whole = |turn: usize| size(&run.messages()[..2 * turn]);
    let turn = first.turn as usize;
    assert!(whole(turn - 1) < 4_000 && first.tokens_before >= 4_000, "{} {}", whole(turn - 1), first.tokens_before);
    assert_eq!(requests[turn - 2].len(), 2 * (turn - 1), "nothing was changed before");
    assert!(size(&requests[turn - 1]) < 4_000 && requests.iter().all(|messages| size(messages) <= 4_100));
}

#[tokio::test(start_paused = true)]
async fn old_tool_results_are_removed_before_anything_is_summarized() {
    let model = Arc::new(WindowModel::new(20_000, 30));
    let tools = tools(30, 600);
    let mut run = new_run();
    let log = Arc::new(EventLog::default());
    let agent = agent(&model, &tools, Summarization::default()).with_events(Arc::clone(&log) as _);
    let result = finish(&agent, &mut run).await;
    let first = &result.compactions[0];
    assert_eq!((first.view.summarized, first.view.summary.as_ref()), (0, None));
    assert!(first.view.cleared > 0 && first.tokens_after < first.tokens_before);
    let events = log.all();
    let event = events.iter().find(|event| event["type"] == "compacted").unwrap();
    assert_eq!(event["tokens_after"], first.tokens_after);
    assert!(model.summarized.lock().unwrap().is_empty(), "removing results was enough");
    let last = model.requests.lock().unwrap().last().unwrap().clone();
    let text = |position: usize| last[position].result().unwrap().text();
    assert_eq!(text(3), "[The content of this old result was removed to save space.]");
    assert!(text(last.len() - 1).starts_with("result 30: harbor"));
}

#[tokio::test(start_paused = true)]
async fn a_run_survives_bad_summaries() {
    for (summaries, failure) in [
        (Summaries::Empty, Some("the model wrote no text")),
        (Summaries::Calls, Some("the model wrote no text")),
        (Summaries::Refused, Some("the model refused")),
        (Summaries::Failed, Some("quota exceeded: no credit")),
        (Summaries::Lying, None),
    ] {
        let model = Arc::new(WindowModel { summaries, words: 20, ..WindowModel::new(8_000, 100) });
        let mut run = new_run();
        let result = finish(&agent(&model, &tools(100, 100), Summarization::default()), &mut run).await;
        assert_eq!((result.stop, result.turns), (RunEnd::Completed, 101));
        let summarized = result.compactions.iter().find(|one| one.view.summary.is_some()).unwrap();
        assert_eq!(summarized.failure.as_deref(), failure);
        let requests = model.requests.lock().unwrap();
        assert!(requests.iter().all(|messages| has_question(messages) && size(messages) <= 8_000));
        let opening = requests.last().unwrap()[1].plain_text();
        assert!(opening.starts_with(QUESTION), "{opening}");
        match failure {
            Some(_) => assert!(opening.contains("No summary is available.") && opening.contains("look ("), "{opening}"),
            // It is not the user's, and shorter than what it replaces.
            None => assert!(opening.contains("written by a model, not by the user") && opening.len() < 8_000),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_message_is_shortened_instead_of_ending_the_run() {
    let model = Arc::new(WindowModel::new(8_000, 3));
    let tools = TestTools::new();
    tools.on_call("c2", Behavior::Says(ToolOutput::said(format!("start {} end", "harbor ".repeat(100_000)))));
    let mut run = new_run();
    let result = finish(&agent(&model, &tools, Summarization::default()), &mut run).await;
    assert_eq!((result.stop, *model.rejected.lock().unwrap()), (RunEnd::Completed, 0));
    let requests = model.requests.lock().unwrap();
    let shown = requests[2].last().unwrap().result().unwrap().text();
    assert!(shown.starts_with("start harbor") && shown.ends_with("harbor  end"), "{shown}");
    assert!(shown.contains("characters were removed here to save space."));
    let kept = run.messages().iter().filter_map(|message| message.result()).map(|returned| returned.text().len()).max();
    assert!(kept > Some(700_000), "the trace has all of it");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_never_shortened() {
    let model = Arc::new(WindowModel::new(8_000, 3));
    let question = format!("How many words are these: {}?", "harbor ".repeat(100_000));
    let mut run = Run::new("long", vec![Message::text(Role::User, question)], limits());
    let result = finish(&agent(&model, &TestTools::new(), Summarization::default()), &mut run).await;
    assert!(matches!(result.stop, RunEnd::ModelFailed(ref error) if error.kind == ModelErrorKind::ContextTooLong));
    assert!(result.compactions.is_empty() && *model.rejected.lock().unwrap() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_request_is_compacted_and_sent_again_once() {
    // The provider has a smaller window than it says.
    let model = Arc::new(WindowModel { true_window: 6_000, ..WindowModel::new(200_000, 200) });
    let mut run = new_run();
    let result = finish(&agent(&model, &tools(200, 100), Summarization::default()), &mut run).await;
    assert_eq!(result.stop, RunEnd::Completed);
    assert_eq!(result.compactions[0].reason, CompactionReason::Overflow);
    assert_eq!(*model.rejected.lock().unwrap(), 1, "the size of the rejected request is remembered");

    let model = Arc::new(WindowModel { true_window: 10, ..WindowModel::new(200_000, 200) });
    let result = finish(&agent(&model, &tools(200, 100), Summarization::default()), &mut new_run()).await;
    let RunEnd::ModelFailed(error) = result.stop else { panic!("{:?}", result.stop) };
    assert_eq!(error.kind, ModelErrorKind::ContextTooLong);
    assert!(*model.rejected.lock().unwrap() <= 2);
}

#[tokio::test(start_paused = true)]
async fn summarization_can_be_turned_off() {
    let model = Arc::new(WindowModel::new(6_000, 200));
    let settings = Summarization { enabled: false, ..Summarization::default() };
    let result = finish(&agent(&model, &tools(200, 100), settings), &mut new_run()).await;
    assert!(matches!(result.stop, RunEnd::ModelFailed(ref error) if error.kind == ModelErrorKind::ContextTooLong));
    assert!(result.compactions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_continues_with_the_same_view() {
    let model = Arc::new(WindowModel { words: 20, ..WindowModel::new(8_000, 90) });
    let mut run = Run::new("long", new_run().messages().to_vec(), Limits { model_calls: 80, ..limits() });
    let first = finish(&agent(&model, &tools(90, 100), Summarization::default()), &mut run).await;
    assert!(first.compactions.len() > 1 && matches!(first.stop, RunEnd::Limit(_)));
    let mut resumed = Run::read(run.write()).unwrap();
    assert_eq!(resumed.compactions(), first.compactions);
    assert!(resumed.set_limits(limits()));
    finish(&agent(&model, &tools(90, 100), Summarization::default()), &mut resumed).await;
    let requests = model.requests.lock().unwrap();
    let (before, after) = (&requests[79], &requests[80]);
    assert_eq!(after[..before.len()], before[..], "the request after resuming extends the one before");
}

#[tokio::test(start_paused = true)]
async fn a_recording_of_a_long_run_can_be_replayed() {
    let model = Arc::new(WindowModel { words: 20, ..WindowModel::new(8_000, 100) });
    let file = MemoryFile::default();
    let recorder = Recorder::new(file.clone(), "fake:window-1", Redactor::default()).unwrap();
    let live = tools(100, 100);
    let source = { move || Arc::clone(&live) as Arc<dyn Tools> };
    let live_agent = Agent::new(recorder.model(Arc::clone(&model) as _), recorder.tools(Arc::new(source)));
    let result = finish(&live_agent, &mut new_run()).await;
    assert!(result.compactions.iter().any(|one| one.view.summary.is_some()));
    assert!(result.compactions.iter().any(|one| one.view.summary.is_none()), "results were removed in place, too");
    assert!(file.text().contains("The content of this old result"), "the recording has what was sent");
    let replay = Replay::parse(&file.text()).unwrap();
    let agent = Agent::new(replay.model("fake", "window-1"), replay.tools());
    let replayed = finish(&agent, &mut new_run()).await;
    replay.finish().unwrap();
    assert_eq!((replayed.compactions, replayed.raw_trace), (result.compactions, result.raw_trace));
}
