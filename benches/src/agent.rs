//! The agent: what a run costs against a loop written by hand, many at once, and long conversations.

mod hand;

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf::agent::cassette::{Recorder, Replay};
use wharf::agent::models::{Anthropic, Endpoint};
use wharf::agent::{
    Agent, AgentResult, Capabilities, Limits, Model, ModelError, ModelOptions, ModelRequest, ModelResponse, Run,
    StopReason,
};
use wharf::{
    Block, BlockKind, BoxFuture, CallFailed, Hints, HttpClient, HttpSettings, Json, Message, Role, Secret, ToolCall,
    ToolDefinition, ToolOutput, ToolSource, Tools, Usage,
};

use crate::contenders::Server;
use crate::measure::{cpu_time, median, peak_memory, peak_memory_of};
use hand::Hand;

/// Runs one after the other, until it is the other's turn.
const SEQUENTIAL: usize = 200;
/// Runs with 64 under way, until it is the other's turn.
const CROWD: usize = 1_920;
/// How many are under way.
const IN_FLIGHT: usize = 64;
/// How often each has its turn.
const TURNS: usize = 24;
/// What 64 at once may take, in MiB, with everything else in the process.
const MOST_MEMORY: u64 = 40;
/// How much longer a conversation ten times as long may take.
const LINEAR: f64 = 15.0;
/// How many recorded turns are played, and how long that may take.
const RECORDED: u32 = 1_000;
const REPLAY: Duration = Duration::from_secs(1);

/// Prints how runs compare; whether the bars are met.
pub(crate) async fn compare() -> bool {
    let server = Server::start().await;
    let mut met = true;
    for stream in [false, true] {
        met &= against_hand(&server, stream).await;
    }
    met & in_memory() & long_runs().await & long_conversations(&server).await & played().await
}

/// The same question, the same tool and the same model: the loop of the one, and of the other.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn against_hand(server: &Server, stream: bool) -> bool {
    let hand = hand(server, stream);
    let agent = Arc::new(agent(server, stream));
    let mut times = [const { Vec::new() }; 8];
    for step in 0..2 * TURNS {
        // One, the other, the other, the one.
        let first = matches!(step % 4, 0 | 3);
        let (began, cpu) = (Instant::now(), cpu_time());
        for _ in 0..SEQUENTIAL {
            if first { by_hand(&hand).await } else { by_agent(&agent).await }
        }
        let took = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        let (began, cpu) = (Instant::now(), cpu_time());
        if first {
            let hand = hand.clone();
            crowd(move || by_hand_owned(hand.clone())).await;
        } else {
            let agent = Arc::clone(&agent);
            crowd(move || by_agent_owned(Arc::clone(&agent))).await;
        }
        let crowd = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        let offset = if first { 0 } else { 4 };
        for (place, time) in took.into_iter().chain(crowd).enumerate() {
            times[offset + place].push(time);
        }
    }
    let [hand, hand_cpu, hand_crowd, hand_crowd_cpu, ours, ours_cpu, crowd, crowd_cpu] =
        times.map(|times| median(times.into_iter()).as_secs_f64() * 1e6);
    let each = |time: f64, runs: usize| time / f64::from(u32::try_from(runs).unwrap_or(1));
    let how = if stream { "streamed" } else { "in one piece" };
    let (ratio, throughput) = (ours / hand, hand_crowd / crowd);
    println!(
        "a run of two questions and a call, {how}: {:.0} µs ({:.0} of CPU), by hand {:.0} µs ({:.0})",
        each(ours, SEQUENTIAL),
        each(ours_cpu, SEQUENTIAL),
        each(hand, SEQUENTIAL),
        each(hand_cpu, SEQUENTIAL)
    );
    println!("the one ÷ the other: {ratio:.2} (bar: ≤ 1.3, aim: ≤ 1.1)");
    println!(
        "{IN_FLIGHT} at once: {:.0} µs a run ({:.0} of CPU), by hand {:.0} µs ({:.0}); throughput of the one ÷ the other: \
         {throughput:.2} (bar: ≥ 0.8)",
        each(crowd, CROWD),
        each(crowd_cpu, CROWD),
        each(hand_crowd, CROWD),
        each(hand_crowd_cpu, CROWD)
    );
    ratio <= 1.3 && throughput >= 0.8
}

/// Prints how much memory a process takes that has 64 runs under way.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn in_memory() -> bool {
    let told = peak_memory_of("hold-agents");
    println!("a process with {IN_FLIGHT} runs at once: {told} MiB at most (bar: < {MOST_MEMORY})");
    told.parse().is_ok_and(|most: u64| most < MOST_MEMORY)
}

/// Has 64 runs under way for a while, and prints the most memory this process has held.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
pub(crate) async fn hold() {
    let server = Server::start().await;
    let agent = Arc::new(agent(&server, true));
    for _ in 0..3 {
        let agent = Arc::clone(&agent);
        crowd(move || by_agent_owned(Arc::clone(&agent))).await;
    }
    println!("{}", peak_memory() / 1024);
}

/// Prints how long runs take that become long themselves, with a model that answers at once in this process.
async fn long_runs() -> bool {
    let mut took = Vec::new();
    for messages in [1_000, 10_000] {
        let rounds = (0..3).map(|_| messages / 2);
        let mut times = Vec::new();
        for turns in rounds {
            let began = Instant::now();
            let result = finish(&endless(turns), run_of(turns)).await;
            times.push(began.elapsed());
            assert_eq!(result.metrics.iterations, turns as usize);
        }
        took.push(median(times.into_iter()));
    }
    told_linear("a run of", &took)
}

/// Prints how long one run takes on top of a conversation, over HTTP.
async fn long_conversations(server: &Server) -> bool {
    let agent = agent(server, false);
    let mut took = Vec::new();
    for messages in [1_000, 10_000] {
        let mut times = Vec::new();
        for _ in 0..5 {
            let conversation: Vec<Message> = (0..messages / 2)
                .flat_map(|_| {
                    let before = Message::text(Role::User, "And what was it before, when nobody had asked for it yet?");
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
    told_linear("a question and its answer on top of", &took)
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn told_linear(what: &str, took: &[Duration]) -> bool {
    let ratio = took[1].as_secs_f64() / took[0].as_secs_f64();
    let [short, long] = [took[0], took[1]].map(|time| format!("{:.1} ms", time.as_secs_f64() * 1e3));
    println!("{what} 1,000 messages: {short}, 10,000: {long}; the one ÷ the other: {ratio:.1} (bar: ≤ {LINEAR})");
    ratio <= LINEAR
}

/// Prints how long it takes to play what was recorded.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn played() -> bool {
    let tape = Tape::default();
    let recorder = Recorder::new(tape.clone(), &[]).expect("it can be written");
    let turns: Arc<dyn ToolSource> = Arc::new(tools);
    let agent = Agent::new(recorder.model(Arc::new(Endless { turns: RECORDED })), recorder.tools(turns));
    let live = finish(&unlimited(agent), run_of(RECORDED)).await;
    let text = tape.text();
    let began = Instant::now();
    let replay = Replay::parse(&text).expect("a cassette");
    let agent = Agent::new(replay.model("endless", "endless"), replay.tools());
    let played = finish(&unlimited(agent), run_of(RECORDED)).await;
    let took = began.elapsed();
    let is_same = played.raw_trace == live.raw_trace && replay.finish().is_ok();
    println!(
        "playing {RECORDED} recorded turns ({:.1} MB): {:.0} ms (bar: < {} ms); to the same trace: {is_same}",
        f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX)) / 1e6,
        took.as_secs_f64() * 1e3,
        REPLAY.as_millis()
    );
    took < REPLAY && is_same
}

fn hand(server: &Server, stream: bool) -> Hand {
    Hand { http: reqwest::Client::new(), url: server.url().replace("/mcp", "/v1/messages"), stream }
}

fn agent(server: &Server, stream: bool) -> Agent {
    let http = HttpClient::new(HttpSettings::default()).expect("a client");
    let endpoint = Endpoint::new(&server.url().replace("/mcp", ""), Some(Secret::new("made-up")), http);
    let model = Anthropic::new(endpoint.expect("an endpoint"), "instant").expect("a model");
    Agent::new(Arc::new(model), Arc::new(tools)).with_options(ModelOptions { stream, ..ModelOptions::default() })
}

async fn by_hand(hand: &Hand) {
    assert_eq!(hand.run().await, "It is 42.");
}

async fn by_hand_owned(hand: Hand) {
    by_hand(&hand).await;
}

async fn by_agent(agent: &Agent) {
    let mut run = Run::new("bench", vec![Message::text(Role::User, "How much?")], Limits::default());
    let result = agent.run(&mut run, std::future::pending()).await.expect("a result");
    assert_eq!(result.final_response.as_deref(), Some("It is 42."));
}

async fn by_agent_owned(agent: Arc<Agent>) {
    by_agent(&agent).await;
}

async fn crowd<F>(run: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let run = run.clone();
        tasks.spawn(async move {
            for _ in 0..CROWD / IN_FLIGHT {
                run().await;
            }
        });
    }
    tasks.join_all().await;
}

/// A run that may become so long.
fn run_of(turns: u32) -> Run {
    let limits = Limits { model_calls: turns + 1, tool_calls: turns + 1, ..Limits::default() };
    Run::new("long", vec![Message::text(Role::User, "How much?")], limits)
}

fn endless(turns: u32) -> Agent {
    unlimited(Agent::new(Arc::new(Endless { turns }), Arc::new(tools)))
}

/// The same, however often it calls the same.
fn unlimited(agent: Agent) -> Agent {
    let middleware = serde_json::from_str(r#"{"repetition": null}"#).expect("settings");
    agent.with_middleware(middleware)
}

async fn finish(agent: &Agent, mut run: Run) -> AgentResult {
    agent.run(&mut run, std::future::pending()).await.expect("a result")
}

/// A model in this process that calls a tool in every turn but the last.
struct Endless {
    turns: u32,
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
        let turn = request.messages.len().div_ceil(2);
        let block = if turn >= self.turns as usize {
            Block::text("It is 42.")
        } else {
            let arguments = Json::from(json!({"a": 40, "b": 2}));
            Block::from(BlockKind::ToolUse(ToolCall { id: turn.to_string().into(), name: "add".into(), arguments }))
        };
        let stop = if matches!(block.kind, BlockKind::Text(_)) { StopReason::EndTurn } else { StopReason::ToolUse };
        let message = Message::new(Role::Assistant, vec![block]);
        let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
        Box::pin(std::future::ready(Ok(ModelResponse { message, stop, model: "endless".into(), id: None, usage })))
    }
}

/// A tool that adds, at once.
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

/// Keeps what is written.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
