//! The agent: the cost of a run compared with a handwritten loop, parallel runs, long conversations and many tools.

mod handwritten;
mod search;

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf::agent::cassette::{Recorder, Replay};
use wharf::agent::models::{Anthropic, Endpoint};
use wharf::agent::{
    Agent, AgentResult, Capabilities, Limits, Model, ModelError, ModelOptions, ModelRequest, ModelResponse,
    RequestPurpose, Run, StopReason,
};
use wharf::{
    Block, BlockKind, BoxFuture, CallFailed, Hints, HttpClient, HttpSettings, Json, Message, Role, Secret, ToolCall,
    ToolDefinition, ToolLoading, ToolOutput, ToolSource, Tools, Usage,
};

use crate::contenders::Server;
use crate::measure::{cpu_time, median, output_of, peak_memory};
use handwritten::HandwrittenLoop;

/// Sequential runs per round.
const SEQUENTIAL: usize = 200;
/// Parallel runs per round.
const PARALLEL: usize = 1_920;
/// Runs in flight.
const IN_FLIGHT: usize = 64;
/// Rounds per contender.
const ROUNDS: usize = 24;
/// Memory limit of a process with 64 parallel runs, in MiB.
const MAX_MEMORY_MIB: u64 = 40;
/// Limit of the time ratio for ten times as many messages.
const MAX_GROWTH: f64 = 15.0;
/// Number of recorded turns to replay.
const RECORDED_TURNS: u32 = 1_000;
/// Time limit for the replay.
const REPLAY_LIMIT: Duration = Duration::from_secs(1);

/// Compares runs; returns whether the bars are met.
pub(crate) async fn compare() -> bool {
    let server = Server::start().await;
    let mut met = true;
    for stream in [false, true] {
        met &= against_handwritten(&server, stream).await;
    }
    met & parallel_memory() & long_runs().await & long_conversations(&server).await & replay().await & search::measure()
}

/// Compares the agent with the handwritten loop, with the same prompt, tool and model.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn against_handwritten(server: &Server, stream: bool) -> bool {
    let hand = handwritten(server, stream);
    let agent = Arc::new(agent(server, stream));
    let mut times = [const { Vec::new() }; 8];
    for step in 0..2 * ROUNDS {
        // Alternates A, B, B, A.
        let first = matches!(step % 4, 0 | 3);
        let began = Instant::now();
        let cpu = cpu_time();
        for _ in 0..SEQUENTIAL {
            if first { run_handwritten(&hand).await } else { run_agent(&agent).await }
        }
        let took = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        let began = Instant::now();
        let cpu = cpu_time();
        if first {
            let hand = hand.clone();
            parallel(move || run_handwritten_owned(hand.clone())).await;
        } else {
            let agent = Arc::clone(&agent);
            parallel(move || run_agent_owned(Arc::clone(&agent))).await;
        }
        let parallel_took = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        let offset = if first { 0 } else { 4 };
        for (place, time) in took.into_iter().chain(parallel_took).enumerate() {
            times[offset + place].push(time);
        }
    }
    let [hand, hand_cpu, hand_parallel, hand_parallel_cpu, ours, ours_cpu, parallel, parallel_cpu] =
        times.map(|times| median(times.into_iter()).as_secs_f64() * 1e6);
    let each = |time: f64, runs: usize| time / f64::from(u32::try_from(runs).unwrap_or(1));
    let how = if stream { "streamed" } else { "not streamed" };
    let ratio = ours / hand;
    let throughput = hand_parallel / parallel;
    println!(
        "a run, responses {how}: {:.0} µs ({:.0} CPU), handwritten {:.0} µs ({:.0} CPU)",
        each(ours, SEQUENTIAL),
        each(ours_cpu, SEQUENTIAL),
        each(hand, SEQUENTIAL),
        each(hand_cpu, SEQUENTIAL)
    );
    println!("ratio: {ratio:.2} (bar: ≤ 1.3, aim: ≤ 1.1)");
    println!(
        "{IN_FLIGHT} in parallel, {how}: {:.0} µs per run ({:.0} CPU), handwritten {:.0} µs per run ({:.0} CPU); throughput \
         ratio: {throughput:.2} (bar: ≥ 0.8)",
        each(parallel, PARALLEL),
        each(parallel_cpu, PARALLEL),
        each(hand_parallel, PARALLEL),
        each(hand_parallel_cpu, PARALLEL)
    );
    ratio <= 1.3 && throughput >= 0.8
}

/// Prints the peak memory of a process with 64 parallel runs; returns whether the bar is met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
fn parallel_memory() -> bool {
    let output = output_of("hold-agents");
    println!("peak memory of a process with {IN_FLIGHT} parallel runs: {output} MiB (bar: < {MAX_MEMORY_MIB})");
    output.parse().is_ok_and(|mebibytes: u64| mebibytes < MAX_MEMORY_MIB)
}

/// Runs 64 runs in parallel, and prints the peak memory of this process.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) async fn hold() {
    let server = Server::start().await;
    let agent = Arc::new(agent(&server, true));
    for _ in 0..3 {
        let agent = Arc::clone(&agent);
        parallel(move || run_agent_owned(Arc::clone(&agent))).await;
    }
    println!("{}", peak_memory() / 1024);
}

/// Measures long runs, with an in-process model that responds immediately.
async fn long_runs() -> bool {
    let summarizing = r#"{"repetition": null, "summarization": {"trigger_tokens": 8000}}"#;
    long_run("a run of", &|turns| endless(turns)).await
        & long_run("a summarized run of", &|turns| with_settings(endless(turns), summarizing)).await
}

async fn long_run(what: &str, agent: &dyn Fn(u32) -> Agent) -> bool {
    let mut took = Vec::new();
    for messages in [1_000, 10_000] {
        let rounds = (0..3).map(|_| messages / 2);
        let mut times = Vec::new();
        for turns in rounds {
            let began = Instant::now();
            let result = finish(&agent(turns), run_of(turns)).await;
            times.push(began.elapsed());
            assert_eq!(result.metrics.iterations, turns as usize);
        }
        took.push(median(times.into_iter()));
    }
    print_growth(what, &took)
}

/// Measures one run after a long conversation, over HTTP.
async fn long_conversations(server: &Server) -> bool {
    let agent = unlimited(agent(server, false));
    let mut took = Vec::new();
    for messages in [1_000, 10_000] {
        let mut times = Vec::new();
        for _ in 0..5 {
            let conversation: Vec<Message> = (0..messages / 2)
                .flat_map(|_| {
                    let before =
                        Message::text(Role::User, "And what was it before, when it had not been requested yet?");
                    [before, Message::text(Role::Assistant, "It was much the same as it is now, as far as is known.")]
                })
                .chain([Message::text(Role::User, "How much?")])
                .collect();
            let mut run = Run::new("long", conversation, Limits::default());
            let began = Instant::now();
            let result = agent.run(&mut run, std::future::pending()).await.expect("a result");
            times.push(began.elapsed());
            assert_eq!(result.final_response.as_deref(), Some("It is 42."));
        }
        took.push(median(times.into_iter()));
    }
    print_growth("a run after", &took)
}

#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
fn print_growth(what: &str, took: &[Duration]) -> bool {
    let ratio = took[1].as_secs_f64() / took[0].as_secs_f64();
    let [short, long] = [took[0], took[1]].map(|time| format!("{:.1} ms", time.as_secs_f64() * 1e3));
    println!("{what} 10,000 messages: {long}, 1,000: {short}; ratio: {ratio:.1} (bar: ≤ {MAX_GROWTH})");
    ratio <= MAX_GROWTH
}

/// Measures the replay of a recorded run.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn replay() -> bool {
    let buffer = SharedBuffer::default();
    let recorder = Recorder::new(buffer.clone(), "endless:endless", wharf::Redactor::default()).expect("a recorder");
    let turns: Arc<dyn ToolSource> = Arc::new(tools);
    let agent = Agent::new(recorder.model(Arc::new(Endless::new(RECORDED_TURNS))), recorder.tools(turns));
    let live = finish(&unlimited(agent), run_of(RECORDED_TURNS)).await;
    let text = buffer.text();
    let began = Instant::now();
    let replay = Replay::parse(&text).expect("a cassette");
    let agent = Agent::new(replay.model("endless", "endless"), replay.tools());
    let replayed = finish(&unlimited(agent), run_of(RECORDED_TURNS)).await;
    let took = began.elapsed();
    let is_same = replayed.raw_trace == live.raw_trace && replay.finish().is_ok();
    println!(
        "replaying {RECORDED_TURNS} recorded turns ({:.1} MB): {:.0} ms (bar: < {} ms); same trace: {is_same}",
        f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX)) / 1e6,
        took.as_secs_f64() * 1e3,
        REPLAY_LIMIT.as_millis()
    );
    took < REPLAY_LIMIT && is_same
}

fn handwritten(server: &Server, stream: bool) -> HandwrittenLoop {
    HandwrittenLoop { http: reqwest::Client::new(), url: server.url().replace("/mcp", "/v1/messages"), stream }
}

fn agent(server: &Server, stream: bool) -> Agent {
    let http = HttpClient::new(HttpSettings::default()).expect("a client");
    let endpoint = Endpoint::new(&server.url().replace("/mcp", ""), Some(Secret::new("made-up")), http);
    let model = Anthropic::new(endpoint.expect("an endpoint"), "instant").expect("a model");
    Agent::new(Arc::new(model), Arc::new(tools)).with_options(ModelOptions { stream, ..ModelOptions::default() })
}

async fn run_handwritten(hand: &HandwrittenLoop) {
    assert_eq!(hand.run().await, "It is 42.");
}

async fn run_handwritten_owned(hand: HandwrittenLoop) {
    run_handwritten(&hand).await;
}

async fn run_agent(agent: &Agent) {
    let mut run = Run::new("bench", vec![Message::text(Role::User, "How much?")], Limits::default());
    let result = agent.run(&mut run, std::future::pending()).await.expect("a result");
    assert_eq!(result.final_response.as_deref(), Some("It is 42."));
}

async fn run_agent_owned(agent: Arc<Agent>) {
    run_agent(&agent).await;
}

async fn parallel<F>(run: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let run = run.clone();
        tasks.spawn(async move {
            for _ in 0..PARALLEL / IN_FLIGHT {
                run().await;
            }
        });
    }
    tasks.join_all().await;
}

/// Creates a run that may have this many turns.
fn run_of(turns: u32) -> Run {
    let limits = Limits { model_calls: turns + 1, tool_calls: turns + 1, ..Limits::default() };
    Run::new("long", vec![Message::text(Role::User, "How much?")], limits)
}

fn endless(turns: u32) -> Agent {
    unlimited(Agent::new(Arc::new(Endless::new(turns)), Arc::new(tools)))
}

/// Turns the loop guard off, so that the agent may repeat the same call, and summarization.
fn unlimited(agent: Agent) -> Agent {
    with_settings(agent, r#"{"repetition": null, "summarization": {"enabled": false}}"#)
}

fn with_settings(agent: Agent, settings: &str) -> Agent {
    agent.with_middleware(serde_json::from_str(settings).expect("settings"))
}

async fn finish(agent: &Agent, mut run: Run) -> AgentResult {
    agent.run(&mut run, std::future::pending()).await.expect("a result")
}

/// An in-process model that calls a tool in every turn except the last.
struct Endless {
    turns: u32,
    requests: AtomicU32,
}

impl Endless {
    fn new(turns: u32) -> Self {
        Self { turns, requests: AtomicU32::new(0) }
    }
}

impl Model for Endless {
    fn interface(&self) -> &'static str {
        "endless"
    }

    fn name(&self) -> &'static str {
        "endless"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: true, prompt_caching: true, ..Capabilities::default() }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        if request.purpose == RequestPurpose::Summary {
            return Box::pin(std::future::ready(Ok(response(Block::text("Two numbers were added, again and again.")))));
        }
        let turn = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let block = if turn >= self.turns {
            Block::text("It is 42.")
        } else {
            let arguments = Json::from(json!({"a": 40, "b": 2}));
            Block::from(BlockKind::ToolUse(ToolCall { id: turn.to_string().into(), name: "add".into(), arguments }))
        };
        Box::pin(std::future::ready(Ok(response(block))))
    }
}

fn response(block: Block) -> ModelResponse {
    let stop = if matches!(block.kind, BlockKind::Text(_)) { StopReason::EndTurn } else { StopReason::ToolUse };
    let message = Message::new(Role::Assistant, vec![block]);
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    ModelResponse { message, stop, model: "endless".into(), id: None, usage }
}

/// An in-process tool that adds two numbers.
struct Adder(Vec<ToolDefinition>);

fn tools() -> Arc<dyn Tools> {
    static ADDER: std::sync::OnceLock<Arc<Adder>> = std::sync::OnceLock::new();
    let adder = ADDER.get_or_init(|| {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
        Arc::new(Adder(vec![ToolDefinition {
            name: "add".into(),
            description: "Adds.".into(),
            input_schema: schema.into(),
            hints: Hints::default(),
            loading: ToolLoading::default(),
        }]))
    });
    Arc::clone(adder) as _
}

impl Tools for Adder {
    fn offered(&self) -> &[ToolDefinition] {
        &self.0
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        let arguments = call.arguments.to_value().unwrap_or_default();
        let sum = arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0);
        Box::pin(std::future::ready(Ok(ToolOutput::said(sum.to_string()))))
    }
}

/// A buffer that stores everything written to it.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
