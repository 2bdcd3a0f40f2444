//! Wharf against its peers over stdio and HTTP, and its agent against a loop written by hand, measured side by side in one run and told as ratios.
//!
//! `scripts/bench` prints the tables, and fails if a bar is missed. Every contender talks to the same server, which is this
//! very program with the argument `serve` or `serve-http`, on the same runtime; rounds alternate between them, and medians
//! count.

mod agent;
mod contenders;
mod fleet;
mod measure;
mod server;
mod table;

use std::process::ExitCode;

use contenders::Contender;
use measure::{Huge, peak_memory_of, rounds};
use table::{Asked, Comparison};

/// What something far too large may take, in MiB: the longest message there may be, and a little.
const MOST_MEMORY: u64 = 40;
/// How often every contender takes its turn.
const ROUNDS: usize = 7;
/// Calls in a row, in one round.
const SEQUENTIAL: usize = 4_000;
/// Calls in one round with 32 under way.
const CROWD: usize = 40_000;
/// How many are under way.
const IN_FLIGHT: usize = 32;
/// Calls with a large result, in one round.
const LARGE: usize = 200;
/// Sessions that are lost, and as many that are new.
const LOST: usize = 200;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => server::serve_stdio(),
        Some("serve-http") => server::serve_http(),
        Some("huge-line") => runtime().block_on(measure::memory_under(Huge::Line)),
        Some("huge-content") => runtime().block_on(measure::memory_under(Huge::Announced)),
        Some("huge-chunks") => runtime().block_on(measure::memory_under(Huge::InChunks)),
        Some("hold-wharf") => runtime().block_on(fleet::hold(false)),
        Some("hold-rmcp") => runtime().block_on(fleet::hold(true)),
        Some("hold-long") => runtime().block_on(fleet::hold_long()),
        Some("hold-agents") => runtime().block_on(agent::hold()),
        Some("agent") => return verdict(runtime().block_on(agent::compare())),
        Some("fleet") => return verdict(runtime().block_on(fleet::compare())),
        Some("stdio") => return verdict(runtime().block_on(stdio())),
        Some("http") => return verdict(runtime().block_on(http())),
        _ => {
            let all = async { stdio().await & http().await & fleet::compare().await & agent::compare().await };
            return verdict(runtime().block_on(all));
        }
    }
    ExitCode::SUCCESS
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn verdict(met: bool) -> ExitCode {
    if met {
        return ExitCode::SUCCESS;
    }
    println!("\na bar is missed");
    ExitCode::FAILURE
}

/// Prints how stdio compares; whether all bars are met.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn stdio() -> bool {
    let compared = compare("stdio", Contender::over_stdio().await).await;
    let bounded = memory("a 300 MB line", "huge-line");
    println!("`wharf --version`: {}\n", measure::cold_start());
    compared.met() && bounded
}

/// Prints how Streamable HTTP compares; whether all bars are met.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn http() -> bool {
    let compared = compare("Streamable HTTP", Contender::over_http(IN_FLIGHT).await).await;
    let [wharf, rmcp, floor] = compared.connections();
    println!("TCP connections opened after the warm-up: wharf {wharf} (bar: 0), rmcp {rmcp}, floor {floor}");
    let lost = measure::recovery(LOST).await;
    let ratio = lost.renewed.as_secs_f64() / lost.fresh.as_secs_f64();
    let [renewed, fresh] = [lost.renewed, lost.fresh].map(|time| format!("{:.0} µs", time.as_secs_f64() * 1e6));
    println!("a call that finds its session lost: {renewed}; the first call of a new session: {fresh}");
    println!("the one ÷ the other: {ratio:.2} (bar: < 1.0)");
    println!("TCP connections opened for {LOST} lost sessions: {}", lost.connections);
    let announced = memory("a 200 MB answer, announced", "huge-content");
    let in_chunks = memory("a 200 MB answer, in chunks", "huge-chunks");
    compared.met() && wharf == 0 && ratio < 1.0 && announced && in_chunks
}

/// Prints how much memory something far too large takes; whether that is bounded by the longest message there may be.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn memory(under: &str, run: &str) -> bool {
    let told = peak_memory_of(run);
    println!("memory under {under}: {told} (bar: ≤ {MOST_MEMORY} MiB)");
    told.split(' ').next().and_then(|mebibytes| mebibytes.parse::<u64>().ok()).is_some_and(|more| more <= MOST_MEMORY)
}

/// Measures, and prints the table.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
async fn compare(over: &str, mut all: [Contender; 3]) -> Comparison {
    let sequential = rounds(&mut all, ROUNDS, async |contender| contender.sequential("small", SEQUENTIAL).await).await;
    let crowd = rounds(&mut all, ROUNDS, async |contender| contender.crowd(CROWD, IN_FLIGHT).await).await;
    let large = rounds(&mut all, ROUNDS, async |contender| contender.sequential("large", LARGE).await).await;
    let mut compared = Comparison::default();
    compared.wall("one call after the other, time a call", &sequential, SEQUENTIAL, Asked { bar: 1.0, aim: 1.3 });
    // 1.2 times the throughput, and 0.7 times that of the floor.
    compared.wall("32 under way, time a call", &crowd, CROWD, Asked { bar: 1.0 / 1.2, aim: 1.0 / 0.7 });
    compared.wall("1 MB results, time a call", &large, LARGE, Asked { bar: 1.0, aim: 1.2 });
    compared.cpu("one call after the other, client CPU a call", &sequential, SEQUENTIAL);
    compared.cpu("32 under way, client CPU a call", &crowd, CROWD);
    compared.cpu("1 MB results, client CPU a call", &large, LARGE);
    println!("{over}, {ROUNDS} rounds each, medians; a ratio below 1.0 means Wharf takes less\n\n{compared}\n");
    compared
}
