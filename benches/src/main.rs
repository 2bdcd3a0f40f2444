//! Compares Wharf with its peers over stdio and HTTP, its agent with a handwritten loop, and verification with bare agent
//! runs, as ratios of one run.
//!
//! `scripts/bench` prints the tables, and fails if a bar is missed. All contenders talk to the same server, which is this
//! program with the argument `serve` or `serve-http`, on the same runtime. Rounds alternate between the contenders, and
//! the tables show medians.

mod agent;
mod contenders;
mod fleet;
mod measure;
mod server;
mod table;
mod verify;

use std::process::ExitCode;

use contenders::Contender;
use measure::{Huge, output_of, rounds};
use table::{Comparison, Targets};

/// Memory limit for an oversized message, in MiB: the maximum message size and some overhead.
const MAX_MEMORY_MIB: u64 = 40;
/// Rounds per contender.
const ROUNDS: usize = 7;
/// Sequential calls per round.
const SEQUENTIAL: usize = 4_000;
/// Concurrent calls per round.
const CONCURRENT: usize = 40_000;
/// Calls in flight.
const IN_FLIGHT: usize = 32;
/// Calls with a large result per round.
const LARGE: usize = 200;
/// Number of lost sessions, and of new ones.
const LOST_SESSIONS: usize = 200;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => server::serve_stdio(),
        Some("serve-http") => server::serve_http(),
        Some("huge-line") => runtime().block_on(measure::memory_under(Huge::Line)),
        Some("huge-content") => runtime().block_on(measure::memory_under(Huge::Announced)),
        Some("huge-chunks") => runtime().block_on(measure::memory_under(Huge::Chunked)),
        Some("hold-wharf") => runtime().block_on(fleet::hold(false)),
        Some("hold-rmcp") => runtime().block_on(fleet::hold(true)),
        Some("hold-long") => runtime().block_on(fleet::hold_long()),
        Some("hold-agents") => runtime().block_on(agent::hold()),
        Some("hold-verify-100") => runtime().block_on(verify::hold(1)),
        Some("hold-verify-10000") => runtime().block_on(verify::hold(100)),
        Some("verify-worker") => return exit_code(runtime().block_on(verify::work_against_faulty_provider())),
        Some("scale-worker") => runtime().block_on(verify::scale_worker()),
        Some("scale") => return exit_code(runtime().block_on(verify::compare_workers())),
        Some("verify") => return exit_code(runtime().block_on(verify::compare())),
        Some("agent") => return exit_code(runtime().block_on(agent::compare())),
        Some("fleet") => return exit_code(runtime().block_on(fleet::compare())),
        Some("stdio") => return exit_code(runtime().block_on(stdio())),
        Some("http") => return exit_code(runtime().block_on(http())),
        _ => {
            let all = async {
                let servers = stdio().await & http().await & fleet::compare().await;
                servers & agent::compare().await & verify::compare().await & verify::compare_workers().await
            };
            return exit_code(runtime().block_on(all));
        }
    }
    ExitCode::SUCCESS
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
fn exit_code(met: bool) -> ExitCode {
    if met {
        return ExitCode::SUCCESS;
    }
    println!("\na bar is missed");
    ExitCode::FAILURE
}

/// Compares over stdio; returns whether all bars are met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn stdio() -> bool {
    let comparison = compare("stdio", Contender::over_stdio().await).await;
    let bounded = memory("a 300 MB line", "huge-line");
    println!("`wharf --version`: {}\n", measure::cold_start());
    comparison.met() && bounded
}

/// Compares over Streamable HTTP; returns whether all bars are met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn http() -> bool {
    let comparison = compare("Streamable HTTP", Contender::over_http(IN_FLIGHT).await).await;
    let [wharf, rmcp, floor] = comparison.connections();
    println!("TCP connections opened after the warm-up: wharf {wharf} (bar: 0), rmcp {rmcp}, floor {floor}");
    let lost = measure::recovery(LOST_SESSIONS).await;
    let ratio = lost.renewed.as_secs_f64() / lost.fresh.as_secs_f64();
    let [renewed, fresh] = [lost.renewed, lost.fresh].map(|time| format!("{:.0} µs", time.as_secs_f64() * 1e6));
    println!("a call that finds its session lost: {renewed}; the first call of a new session: {fresh}");
    println!("ratio: {ratio:.2} (bar: < 1.0)");
    println!("TCP connections opened for {LOST_SESSIONS} lost sessions: {}", lost.connections);
    let announced = memory("a 200 MB response with its length announced", "huge-content");
    let chunked = memory("a 200 MB chunked response", "huge-chunks");
    comparison.met() && wharf == 0 && ratio < 1.0 && announced && chunked
}

/// Prints the memory that an oversized message takes; returns whether it is within the limit.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
fn memory(message: &str, run: &str) -> bool {
    let output = output_of(run);
    println!("memory during {message}: {output} (bar: ≤ {MAX_MEMORY_MIB} MiB)");
    output
        .split(' ')
        .next()
        .and_then(|mebibytes| mebibytes.parse::<u64>().ok())
        .is_some_and(|more| more <= MAX_MEMORY_MIB)
}

/// Measures all contenders and prints the table.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn compare(over: &str, mut all: [Contender; 3]) -> Comparison {
    let sequential = rounds(&mut all, ROUNDS, async |contender| contender.sequential("small", SEQUENTIAL).await).await;
    let concurrent =
        rounds(&mut all, ROUNDS, async |contender| contender.concurrent(CONCURRENT, IN_FLIGHT).await).await;
    let large = rounds(&mut all, ROUNDS, async |contender| contender.sequential("large", LARGE).await).await;
    let mut comparison = Comparison::default();
    comparison.wall("sequential calls, time per call", &sequential, SEQUENTIAL, Targets { bar: 1.0, aim: 1.3 });
    // 1.2 times the throughput, and 0.7 times that of the floor.
    comparison.wall("32 in flight, time per call", &concurrent, CONCURRENT, Targets { bar: 1.0 / 1.2, aim: 1.0 / 0.7 });
    comparison.wall("1 MB results, time per call", &large, LARGE, Targets { bar: 1.0, aim: 1.2 });
    comparison.cpu("sequential calls, client CPU per call", &sequential, SEQUENTIAL);
    comparison.cpu("32 in flight, client CPU per call", &concurrent, CONCURRENT);
    comparison.cpu("1 MB results, client CPU per call", &large, LARGE);
    println!("{over}, {ROUNDS} rounds each, medians; a ratio below 1.0 means Wharf takes less\n\n{comparison}\n");
    comparison
}
