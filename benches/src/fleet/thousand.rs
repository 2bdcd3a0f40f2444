//! A thousand servers in this process, of which a tenth is bad: what the others' calls take, by the clock on the wall.

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
/// How often all good ones are called in one round.
const CALLS: usize = 4;
/// Callers at the same time.
const CALLERS: usize = 4;
const ROUNDS: usize = 9;

/// What is wrong with a server.
#[derive(Clone, Copy)]
enum Bad {
    /// It does not answer the first question, or that for its tools.
    Mute(&'static str),
    /// It ends at once, or after its tools.
    Ends(&'static str),
    /// Its greeting makes no sense.
    Babbles,
}

/// The faults, each for an equal share of the bad ones.
fn fault(number: usize) -> Option<Bad> {
    if !number.is_multiple_of(10) {
        return None;
    }
    Some(match number / 10 % 5 {
        0 => Bad::Mute(""),
        1 => Bad::Ends(""),
        2 => Bad::Mute("\"tools/list\""),
        3 => Bad::Babbles,
        _ => Bad::Ends("\"tools/list\""),
    })
}

async fn serve(stream: DuplexStream, bad: Option<Bad>) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut reply = Vec::new();
        answer(&line, "", &mut reply);
        let ends = matches!(bad, Some(Bad::Ends(at)) if line.contains(at));
        match bad {
            Some(Bad::Mute(at)) if line.contains(at) => continue,
            Some(Bad::Babbles) if !reply.is_empty() => {
                reply = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n".to_vec();
            }
            Some(Bad::Ends("")) => return,
            _ => {}
        }
        if output.write_all(&reply).await.is_err() || ends {
            return;
        }
    }
}

/// A fleet in which every tenth server is bad, or none, as soon as all others are there.
async fn fleet(with_bad: bool) -> Fleet {
    let servers = (0..SERVERS).map(|number| {
        let bad = fault(number).filter(|_| with_bad);
        let transport = InProcess::new(move |stream| serve(stream, bad));
        let (name, key) = (format!("s{number}"), format!("in-process {number}"));
        let reach = TransportConfig::Custom(key.into(), std::sync::Arc::new(transport));
        ServerSpec::from(Server::new(name.parse().expect("a name"), Scope::User, reach))
    });
    let fleet = Fleet::open(servers, FleetOptions { local_gate: SERVERS, ..FleetOptions::default() });
    let mut changes = fleet.changes();
    let there = || fleet.statuses().iter().filter(|status| status.state == ServerState::Connected).count();
    while there() < SERVERS / 10 * if with_bad { 9 } else { 10 } {
        changes.changed().await.expect("a fleet that goes on");
    }
    fleet
}

/// How long the slowest of a hundred calls but one took, over the servers that are good in both fleets.
async fn p99(fleet: &Fleet) -> Duration {
    let turn = std::sync::Arc::new(Turn {
        catalog: fleet.catalog(),
        dispatcher: std::sync::Arc::new(Dispatcher::new(Policy::permissive())),
    });
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
                let output = turn.call(&call).await.expect("an answer");
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

/// Prints how the good ones do beside the bad ones; whether the bar is met.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
pub(super) async fn compare() -> bool {
    let mut p99s = Vec::new();
    // One after the other: what the bad ones cost is not to be found in both.
    for with_bad in [false, true] {
        let fleet = fleet(with_bad).await;
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
    let (alone, beside) = (p99s[0], p99s[1]);
    let ratio = beside / alone;
    println!("{SERVERS} servers, p99 of a call: {beside:.0} µs beside 100 bad ones, {alone:.0} µs without");
    println!("the one ÷ the other: {ratio:.2} (bar: ≤ 2)");
    ratio <= 2.0
}
