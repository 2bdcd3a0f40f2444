//! A thousand in-process servers, a tenth of them faulty: the latency of calls to the others.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf::config::{Scope, Server, TransportConfig};
use wharf::fleet::{Dispatcher, Fleet, FleetOptions, Policy, ServerSpec, ServerState, Turn};
use wharf::{InProcess, Json, ToolCall, Tools as _};

use crate::measure::median;
use crate::server::answer;

const SERVERS: usize = 1_000;
/// Calls per healthy server and round.
const CALLS: usize = 4;
/// Concurrent callers.
const CALLERS: usize = 4;
const ROUNDS: usize = 9;

/// The fault of a server.
#[derive(Clone, Copy)]
enum Fault {
    /// Does not respond to requests that contain this text.
    Silent(&'static str),
    /// Disconnects immediately, or after a request that contains this text.
    Disconnects(&'static str),
    /// Sends invalid results.
    Invalid,
}

/// Returns the fault of a server; the faults are evenly distributed.
fn fault(number: usize) -> Option<Fault> {
    if !number.is_multiple_of(10) {
        return None;
    }
    Some(match number / 10 % 5 {
        0 => Fault::Silent(""),
        1 => Fault::Disconnects(""),
        2 => Fault::Silent("\"tools/list\""),
        3 => Fault::Invalid,
        _ => Fault::Disconnects("\"tools/list\""),
    })
}

async fn serve(stream: DuplexStream, fault: Option<Fault>) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut reply = Vec::new();
        answer(&line, "", &mut reply);
        let ends = matches!(fault, Some(Fault::Disconnects(at)) if line.contains(at));
        match fault {
            Some(Fault::Silent(at)) if line.contains(at) => continue,
            Some(Fault::Invalid) if !reply.is_empty() => {
                reply = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n".to_vec();
            }
            Some(Fault::Disconnects("")) => return,
            _ => {}
        }
        if output.write_all(&reply).await.is_err() || ends {
            return;
        }
    }
}

/// Opens a fleet in which every tenth server is faulty, or none, and waits until all others are connected.
async fn fleet(with_faults: bool) -> Fleet {
    let servers = (0..SERVERS).map(|number| {
        let fault = if with_faults { fault(number) } else { None };
        let transport = InProcess::new(move |stream| serve(stream, fault));
        let name = format!("s{number}");
        let key = format!("in-process {number}");
        let transport = TransportConfig::Custom(key.into(), std::sync::Arc::new(transport));
        ServerSpec::from(Server::new(name.parse().expect("a name"), Scope::User, transport))
    });
    let fleet = Fleet::open(servers, FleetOptions { local_gate: SERVERS, ..FleetOptions::default() });
    let mut changes = fleet.changes();
    let connected = || fleet.statuses().iter().filter(|status| status.state == ServerState::Connected).count();
    while connected() < SERVERS / 10 * if with_faults { 9 } else { 10 } {
        changes.changed().await.expect("an open fleet");
    }
    fleet
}

/// Returns the 99th percentile of the latency of calls, to servers that are healthy in both fleets.
async fn p99(fleet: &Fleet) -> Duration {
    let turn =
        std::sync::Arc::new(Turn::new(fleet.catalog(), std::sync::Arc::new(Dispatcher::new(Policy::permissive()))));
    let mut tasks = JoinSet::new();
    for caller in 0..CALLERS {
        let turn = std::sync::Arc::clone(&turn);
        tasks.spawn(async move {
            let mut times = Vec::new();
            let mine = (0..SERVERS * CALLS).filter(|number| fault(number % SERVERS).is_none());
            for number in mine.skip(caller).step_by(CALLERS) {
                let name = format!("mcp__s{}__small", number % SERVERS);
                let arguments = Json::from(serde_json::json!({"text": "hello"}));
                let call = ToolCall { id: "call".into(), name: name.into(), arguments };
                let began = Instant::now();
                let output = turn.call(&call).await.expect("a response");
                times.push(began.elapsed());
                assert!(!output.is_error, "{}", output.text());
            }
            times
        });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Compares fleets with and without faulty servers; returns whether the bar is met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
pub(super) async fn compare() -> bool {
    let mut p99s = Vec::new();
    // Sequentially, so that the cost of faulty servers does not affect both.
    for with_faults in [false, true] {
        let fleet = fleet(with_faults).await;
        let mut times = Vec::new();
        for round in 0..=ROUNDS {
            let took = p99(&fleet).await;
            if round > 0 {
                times.push(took);
            }
        }
        fleet.close().await;
        p99s.push(median(times.into_iter()).as_secs_f64() * 1e6);
    }
    let without = p99s[0];
    let with = p99s[1];
    let ratio = with / without;
    println!(
        "{SERVERS} servers, p99 of a call: {with:.0} µs with 100 of them faulty, {without:.0} µs with none faulty"
    );
    println!("ratio: {ratio:.2} (bar: ≤ 2)");
    ratio <= 2.0
}
