//! The fleet: what a call through it costs, how fast many servers are there, and how much memory they take.

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
use crate::measure::{cpu_time, median, peak_memory_of, resident_memory};

/// Calls in a row, until it is the other's turn.
const SEQUENTIAL: usize = 250;
/// Calls with 32 under way, until it is the other's turn.
const CROWD: usize = 3_200;
/// How often each has its turn. Turns are short and their order changes, because what came before a turn (a machine that
/// had a rest, and one that did not) makes more of a difference than what is measured.
const TURNS: usize = 96;
/// How many are under way.
const IN_FLIGHT: usize = 32;
/// Servers in processes of their own.
const LOCAL: usize = 30;
/// Servers behind HTTP.
const REMOTE: usize = 50;
/// How often each contender connects all of them.
const ROUNDS: usize = 9;
/// The pause between one contender and the other.
const REST: Duration = Duration::from_millis(300);
/// What may be resident of descriptions that are far too long, in MiB, with the connection they came over.
const MOST_LONG: f64 = 10.0;
/// The longest anything here may take.
const LONG: Duration = Duration::from_secs(120);

/// Prints how fast many servers are connected and how much memory they take; whether the bars are met.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
pub(crate) async fn compare() -> bool {
    let through = calls().await;
    let mut ratio = 0.0;
    for (locals, remotes) in [(LOCAL, 0), (0, REMOTE), (LOCAL, REMOTE)] {
        let [wharf, own, rmcp, its] = connecting(locals, remotes).await;
        ratio = wharf.as_secs_f64() / rmcp.as_secs_f64();
        let [wharf, own, rmcp, its] = [wharf, own, rmcp, its].map(|time| format!("{:.0}", time.as_secs_f64() * 1e3));
        println!(
            "connecting {locals} stdio and {remotes} HTTP servers: wharf {wharf} ms ({own} of CPU), rmcp {rmcp} ms ({its})"
        );
        println!("the one ÷ the other: {ratio:.2} (bar for all together: ≤ 1.1, aim: ≤ 1.0)");
    }
    let [wharf, rmcp] = ["hold-wharf", "hold-rmcp"].map(kibibytes);
    let held = wharf / rmcp;
    println!(
        "{REMOTE} connections with 500 tools each: wharf {:.0} MiB, rmcp {:.0} MiB",
        wharf / 1024.0,
        rmcp / 1024.0
    );
    println!("the one ÷ the other: {held:.2} (bar: ≤ 1.0, aim: ≤ 0.5)");
    let long = kibibytes("hold-long");
    let long = long / 1024.0;
    println!(
        "500 tools with descriptions of 30 KB: {long:.1} MiB more than before, of 14 that came (bar: ≤ {MOST_LONG})"
    );
    let many = thousand::compare().await;
    through && many && ratio <= 1.1 && held <= 1.0 && long <= MOST_LONG
}

/// Prints what a call costs through lookup, schema, hook, policy and trace, against the session alone.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn calls() -> bool {
    let session = Wharf::over_stdio().await;
    // A session knows its tools, and checks arguments against them, as soon as it has listed them.
    session.list().await;
    let fleet = open(local().take(1)).await;
    let policy: Policy =
        serde_json::from_str(r#"{"deny": ["mcp__*__delete_*"], "allow": ["mcp__local-0__*"]}"#).expect("a policy");
    let dispatcher =
        Dispatcher::new(policy).with_hook(Arc::new(Watcher(Condition::default()))).with_trace(Arc::new(Listener));
    let turn = Arc::new(Turn { catalog: fleet.catalog(), dispatcher: Arc::new(dispatcher) });
    let one = session.clone();
    let crowd_session = move || {
        let session = one.clone();
        async move { session.make("small", &made()).await }
    };
    let one = Arc::clone(&turn);
    let crowd_turn = move || {
        let turn = Arc::clone(&one);
        async move { call(&*turn).await }
    };
    let mut times = [const { Vec::new() }; 4];
    for step in 0..2 * TURNS {
        // One, the other, the other, the one.
        if matches!(step % 4, 0 | 3) {
            times[0].push(time(sequential(async || session.make("small", &made()).await)).await);
        } else {
            times[1].push(time(sequential(async || call(&*turn).await)).await);
        }
    }
    for step in 0..2 * TURNS {
        if matches!(step % 4, 0 | 3) {
            times[2].push(time(crowd(crowd_session.clone())).await);
        } else {
            times[3].push(time(crowd(crowd_turn.clone())).await);
        }
    }
    fleet.close().await;
    let [alone, through, crowd_alone, crowd_through] = times.map(|times| median(times.into_iter()));
    let mut met = true;
    for (what, alone, through, calls) in
        [("one call after the other", alone, through, SEQUENTIAL), ("32 under way", crowd_alone, crowd_through, CROWD)]
    {
        let ratio = through.as_secs_f64() / alone.as_secs_f64();
        let [alone, through] =
            [alone, through].map(|time| time.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls).unwrap_or(1)));
        println!("{what}: {through:.1} µs a call through the fleet, {alone:.1} µs on the session alone");
        println!("the one ÷ the other: {ratio:.2} (bar: ≤ 1.25, aim: ≤ 1.1)");
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

async fn crowd<F>(call: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let call = call.clone();
        tasks.spawn(async move {
            for _ in 0..CROWD / IN_FLIGHT {
                call().await;
            }
        });
    }
    tasks.join_all().await;
}

/// What a model has said: both begin with this.
fn made() -> ToolCall {
    let arguments = Json::from(serde_json::json!({"text": "hello"}));
    ToolCall { id: "call".into(), name: "mcp__local-0__small".into(), arguments }
}

async fn call(tools: &dyn Tools) {
    let output = tools.call(&made()).await.expect("an answer");
    assert!(!output.content[0].as_text().expect("text").is_empty());
}

/// A hook that looks and does nothing.
struct Watcher(Condition);

impl Hook for Watcher {
    fn name(&self) -> &'static str {
        "watcher"
    }

    fn condition(&self) -> &Condition {
        &self.0
    }
}

/// Hears everything and keeps nothing. It does not even count: what many tasks count together would cost more than the
/// fleet does.
struct Listener;

impl TraceSink for Listener {
    fn record(&self, event: TraceEvent) {
        std::hint::black_box(event);
    }
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn kibibytes(run: &str) -> f64 {
    let told = peak_memory_of(run);
    told.parse().unwrap_or_else(|_| {
        println!("{run} did not say how much it holds: {told}");
        f64::INFINITY
    })
}

/// How long each takes until every server is connected and its tools are listed, and how much of that is its own work:
/// Wharf, and rmcp behind the same gates.
async fn connecting(locals: usize, remotes: usize) -> [Duration; 4] {
    let server = Server::start().await;
    let mut took = [const { Vec::new() }; 4];
    for round in 0..=ROUNDS {
        let (began, cpu) = (Instant::now(), cpu_time());
        let fleet = open(local().take(locals).chain(remote(&server.url(), remotes))).await;
        let ours = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        fleet.close().await;
        tokio::time::sleep(REST).await;
        let (began, cpu) = (Instant::now(), cpu_time());
        let others = all_of_rmcp(locals, remotes, &server.url()).await;
        let theirs = [began.elapsed(), cpu_time().saturating_sub(cpu)];
        drop(others);
        // Processes that are dropped take a while to end, and would take it from whoever comes next.
        tokio::time::sleep(REST).await;
        if round > 0 {
            took.iter_mut().zip(ours.into_iter().chain(theirs)).for_each(|(all, one)| all.push(one));
        }
    }
    took.map(|times| median(times.into_iter()))
}

/// Every one is another server, of which nobody knows yet which era it speaks.
fn local() -> impl Iterator<Item = Configured> {
    (0..LOCAL).map(|number| {
        let command = program().to_string_lossy().into_owned();
        let args = ["serve", "0", "160", &number.to_string()].map(str::to_owned).into();
        let launch = StdioConfig { command, args, env: [].into(), cwd: None };
        Configured::new(name("local", number), Scope::User, TransportConfig::Stdio(launch))
    })
}

fn remote(url: &str, many: usize) -> impl Iterator<Item = Configured> {
    (0..many).map(move |number| {
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
    assert!(fleet.settled(LONG).await, "not all were connected in time");
    let statuses = fleet.statuses();
    assert!(statuses.iter().all(|status| status.state == ServerState::Connected), "{statuses:?}");
    fleet
}

async fn all_of_rmcp(locals: usize, remotes: usize, url: &str) -> Vec<crate::contenders::Listed> {
    let (local, remote) = (Arc::new(Semaphore::new(LOCAL_GATE)), Arc::new(Semaphore::new(REMOTE_GATE)));
    let mut tasks = JoinSet::new();
    for _ in 0..locals {
        let gate = Arc::clone(&local);
        tasks.spawn(async move {
            let _turn = gate.acquire().await;
            rmcp_over_stdio().await
        });
    }
    for _ in 0..remotes {
        let (gate, url) = (Arc::clone(&remote), url.to_owned());
        tasks.spawn(async move {
            let _turn = gate.acquire().await;
            rmcp_over_http(&url).await
        });
    }
    tasks.join_all().await
}

/// Holds many connections with many tools, and prints how much memory this process takes in KiB.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
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

/// Holds one server whose descriptions are far too long, and prints how much more memory this process takes in KiB.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
pub(crate) async fn hold_long() {
    let (server, before) = (Server::with_tools(&["498", "30000"]).await, resident_memory());
    let fleet = open(remote(&server.url(), 1)).await;
    let catalog = fleet.catalog();
    assert_eq!(catalog.entries().len(), 500);
    println!("{}", resident_memory() - before);
}
