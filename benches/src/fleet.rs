//! The fleet: the cost of a call, the time to connect many servers, and their memory.

mod thousand;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf::config::{OAuthSettings, RemoteConfig, Scope, Server as Configured, StdioConfig, TransportConfig};
use wharf::fleet::dispatch::{Condition, Hook};
use wharf::fleet::{Dispatcher, Fleet, FleetOptions, LOCAL_GATE, Policy, REMOTE_GATE, ServerSpec, ServerState, Turn};
use wharf::{Json, ServerName, ToolCall, Tools, TraceEvent, TraceSink};

use crate::contenders::{Server, Wharf, program, rmcp_over_http, rmcp_over_stdio};
use crate::measure::{cpu_time, median, output_of, resident_memory};

/// Sequential calls per round.
const SEQUENTIAL: usize = 250;
/// Concurrent calls per round.
const CONCURRENT: usize = 3_200;
/// Rounds of calls per contender. Rounds are short and their order changes, because what ran before a round (or an idle
/// machine) matters more than what is measured.
const CALL_ROUNDS: usize = 96;
/// Calls in flight.
const IN_FLIGHT: usize = 32;
/// Number of stdio servers.
const LOCAL: usize = 30;
/// Number of HTTP servers.
const REMOTE: usize = 50;
/// Rounds of connecting per contender.
const CONNECT_ROUNDS: usize = 9;
/// Pause between contenders.
const PAUSE: Duration = Duration::from_millis(300);
/// Resident memory limit for oversized descriptions including their connection, in MiB.
const MAX_LONG_MIB: f64 = 10.0;
/// Time limit for connecting all servers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);

/// Measures the fleet; returns whether the bars are met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
pub(crate) async fn compare() -> bool {
    let through = calls().await;
    let mut ratio = 0.0;
    for (locals, remotes) in [(LOCAL, 0), (0, REMOTE), (LOCAL, REMOTE)] {
        let [wharf, own, rmcp, its] = connecting(locals, remotes).await;
        ratio = wharf.as_secs_f64() / rmcp.as_secs_f64();
        let [wharf, own, rmcp, its] = [wharf, own, rmcp, its].map(|time| format!("{:.0}", time.as_secs_f64() * 1e3));
        println!(
            "connecting {locals} stdio and {remotes} HTTP servers: wharf {wharf} ms ({own} CPU), rmcp {rmcp} ms ({its} CPU)"
        );
        println!("ratio: {ratio:.2} (bar for both in parallel: ≤ 1.1, aim: ≤ 1.0)");
    }
    let [wharf, rmcp] = ["hold-wharf", "hold-rmcp"].map(kibibytes);
    let held = wharf / rmcp;
    println!(
        "{REMOTE} connections with 500 tools each, resident: wharf {:.0} MiB, rmcp {:.0} MiB",
        wharf / 1024.0,
        rmcp / 1024.0
    );
    println!("ratio: {held:.2} (bar: ≤ 1.0, aim: ≤ 0.5)");
    let long = kibibytes("hold-long");
    let long = long / 1024.0;
    println!(
        "500 tools with 30 KB descriptions, resident: {long:.1} MiB more, 14 MiB received (bar: ≤ {MAX_LONG_MIB})"
    );
    let many = thousand::compare().await;
    through && many && ratio <= 1.1 && held <= 1.0 && long <= MAX_LONG_MIB
}

/// Compares a call through lookup, schema, hook, policy and trace with a call on the session alone.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn calls() -> bool {
    let session = Wharf::over_stdio().await;
    // A session validates arguments once it has listed its tools.
    session.list().await;
    let fleet = open(local().take(1)).await;
    let policy: Policy =
        serde_json::from_str(r#"{"deny": ["mcp__*__delete_*"], "allow": ["mcp__local-0__*"]}"#).expect("a policy");
    let dispatcher =
        Dispatcher::new(policy).with_hook(Arc::new(IdleHook(Condition::default()))).with_trace(Arc::new(DiscardTrace));
    let turn = Arc::new(Turn::new(fleet.catalog(), Arc::new(dispatcher)));
    let one = session.clone();
    let concurrent_session = move || {
        let session = one.clone();
        async move { session.call_as("small", &model_call()).await }
    };
    let one = Arc::clone(&turn);
    let concurrent_turn = move || {
        let turn = Arc::clone(&one);
        async move { call(&*turn).await }
    };
    let mut times = [const { Vec::new() }; 4];
    for step in 0..2 * CALL_ROUNDS {
        // Alternates A, B, B, A.
        if matches!(step % 4, 0 | 3) {
            times[0].push(time(sequential(async || session.call_as("small", &model_call()).await)).await);
        } else {
            times[1].push(time(sequential(async || call(&*turn).await)).await);
        }
    }
    for step in 0..2 * CALL_ROUNDS {
        if matches!(step % 4, 0 | 3) {
            times[2].push(time(concurrent(concurrent_session.clone())).await);
        } else {
            times[3].push(time(concurrent(concurrent_turn.clone())).await);
        }
    }
    fleet.close().await;
    let [alone, through, concurrent_alone, concurrent_through] = times.map(|times| median(times.into_iter()));
    let mut met = true;
    for (what, alone, through, calls) in [
        ("sequential calls", alone, through, SEQUENTIAL),
        ("32 in flight", concurrent_alone, concurrent_through, CONCURRENT),
    ] {
        let ratio = through.as_secs_f64() / alone.as_secs_f64();
        let [alone, through] =
            [alone, through].map(|time| time.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls).unwrap_or(1)));
        println!("{what} through the fleet: {through:.1} µs per call, {alone:.1} µs on the session alone");
        println!("ratio: {ratio:.2} (bar: ≤ 1.25, aim: ≤ 1.1)");
        met &= ratio <= 1.25;
    }
    met
}

async fn time(work: impl Future<Output = ()>) -> Duration {
    let began = Instant::now();
    work.await;
    began.elapsed()
}

async fn sequential(call: impl AsyncFn()) {
    for _ in 0..SEQUENTIAL {
        call().await;
    }
}

async fn concurrent<F>(call: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let call = call.clone();
        tasks.spawn(async move {
            for _ in 0..CONCURRENT / IN_FLIGHT {
                call().await;
            }
        });
    }
    tasks.join_all().await;
}

/// Returns a model's tool call; both contenders start with it.
fn model_call() -> ToolCall {
    let arguments = Json::from(serde_json::json!({"text": "hello"}));
    ToolCall { id: "call".into(), name: "mcp__local-0__small".into(), arguments }
}

async fn call(tools: &dyn Tools) {
    let output = tools.call(&model_call()).await.expect("a response");
    assert!(!output.content[0].as_text().expect("text").is_empty());
}

/// A hook that does nothing.
struct IdleHook(Condition);

impl Hook for IdleHook {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn condition(&self) -> &Condition {
        &self.0
    }
}

/// Discards all events. It does not even count them: a counter shared by many tasks would cost more than the fleet.
struct DiscardTrace;

impl TraceSink for DiscardTrace {
    fn record(&self, event: TraceEvent) {
        std::hint::black_box(event);
    }
}

#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
fn kibibytes(run: &str) -> f64 {
    let output = output_of(run);
    output.parse().unwrap_or_else(|_| {
        println!("{run} printed no number: {output}");
        f64::INFINITY
    })
}

/// Returns wall and CPU time until every server is connected and its tools are listed: of Wharf, then of rmcp behind the
/// same gates.
async fn connecting(locals: usize, remotes: usize) -> [Duration; 4] {
    let server = Server::start().await;
    let mut took = [const { Vec::new() }; 4];
    for round in 0..=CONNECT_ROUNDS {
        let began = Instant::now();
        let cpu = cpu_time();
        let fleet = open(local().take(locals).chain(remote(&server.url(), remotes))).await;
        let ours = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        fleet.close().await;
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        let cpu = cpu_time();
        let others = connect_rmcp(locals, remotes, &server.url()).await;
        let theirs = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        drop(others);
        // Dropped processes take a while to exit, which would count against the next contender.
        tokio::time::sleep(PAUSE).await;
        if round > 0 {
            took.iter_mut().zip(ours.into_iter().chain(theirs)).for_each(|(all, one)| all.push(one));
        }
    }
    took.map(|times| median(times.into_iter()))
}

/// Returns distinct servers, so that the era of each must be detected.
fn local() -> impl Iterator<Item = Configured> {
    (0..LOCAL).map(|number| {
        let command = program().to_string_lossy().into_owned();
        let args = ["serve", "0", "160", &number.to_string()].map(str::to_owned).into();
        let stdio = StdioConfig { command, args, env: [].into(), cwd: None };
        Configured::new(name("local", number), Scope::User, TransportConfig::Stdio(stdio))
    })
}

fn remote(url: &str, count: usize) -> impl Iterator<Item = Configured> {
    (0..count).map(move |number| {
        let remote = RemoteConfig {
            url: format!("{url}?{number}"),
            headers: Vec::new(),
            headers_helper: None,
            oauth: OAuthSettings::default(),
        };
        Configured::new(name("remote", number), Scope::User, TransportConfig::Http(remote))
    })
}

fn name(kind: &str, number: usize) -> ServerName {
    format!("{kind}-{number}").parse().expect("a name")
}

async fn open(servers: impl Iterator<Item = Configured>) -> Fleet {
    let fleet = Fleet::open(servers.map(ServerSpec::from), FleetOptions::default());
    assert!(fleet.settled(CONNECT_TIMEOUT).await, "not all servers connected in time");
    let statuses = fleet.statuses();
    assert!(statuses.iter().all(|status| status.state == ServerState::Connected), "{statuses:?}");
    fleet
}

async fn connect_rmcp(locals: usize, remotes: usize, url: &str) -> Vec<crate::contenders::Listed> {
    let local = Arc::new(Semaphore::new(LOCAL_GATE));
    let remote = Arc::new(Semaphore::new(REMOTE_GATE));
    let mut tasks = JoinSet::new();
    for _ in 0..locals {
        let gate = Arc::clone(&local);
        tasks.spawn(async move {
            let _permit = gate.acquire().await;
            rmcp_over_stdio().await
        });
    }
    for _ in 0..remotes {
        let gate = Arc::clone(&remote);
        let url = url.to_owned();
        tasks.spawn(async move {
            let _permit = gate.acquire().await;
            rmcp_over_http(&url).await
        });
    }
    tasks.join_all().await
}

/// Holds many connections with many tools, and prints the resident memory of this process in KiB.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) async fn hold(rmcp: bool) {
    let server = Server::with_tools(&["498"]).await;
    if rmcp {
        let mut held = Vec::new();
        for _ in 0..REMOTE {
            held.push(rmcp_over_http(&server.url()).await);
        }
        assert!(held.iter().all(|listed| listed.tools.len() == 500));
        println!("{}", resident_memory());
    } else {
        let fleet = open(remote(&server.url(), REMOTE)).await;
        let catalog = fleet.catalog();
        assert_eq!(catalog.entries().len(), 500 * REMOTE);
        println!("{}", resident_memory());
        drop(catalog);
    }
}

/// Holds one server with oversized descriptions, and prints how much the resident memory grew in KiB.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) async fn hold_long() {
    let server = Server::with_tools(&["498", "30000"]).await;
    let before = resident_memory();
    let fleet = open(remote(&server.url(), 1)).await;
    let catalog = fleet.catalog();
    assert_eq!(catalog.entries().len(), 500);
    println!("{}", resident_memory() - before);
}
