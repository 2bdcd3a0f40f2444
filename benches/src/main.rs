//! Wharf against its peers over stdio, measured side by side in one run and told as ratios.
//!
//! `scripts/bench` prints the table, and fails if a bar is missed. Every contender talks to the same server, which is this
//! very program with the argument `serve`, on the same runtime; rounds alternate between them, and medians count.

mod contenders;
mod measure;
mod server;

use std::process::ExitCode;
use std::time::Duration;

use contenders::{Contender, Floor, Rmcp, Wharf};
use measure::{Figures, median, peak_memory_of, rounds};

/// How often every contender takes its turn.
const ROUNDS: usize = 7;
/// Calls in a row, in one round.
const SEQUENTIAL: usize = 4_000;
/// Calls in one round with 32 under way.
const CROWD: usize = 40_000;
/// How many are under way.
const IN_FLIGHT: usize = 32;
/// Calls with a large result, in one round.
const LARGE: usize = 60;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => server::serve(),
        Some("huge-line") => runtime().block_on(measure::huge_line()),
        _ => return runtime().block_on(compare()),
    }
    ExitCode::SUCCESS
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

#[expect(clippy::print_stdout, reason = "printing the table is what this program is for")]
async fn compare() -> ExitCode {
    let wharf = Contender::Wharf(Wharf::connect().await);
    let rmcp = Contender::Rmcp(Rmcp::connect().await);
    let floor = Contender::Floor(Box::new(Floor::connect()));
    let mut all = [wharf, rmcp, floor];

    let sequential = rounds(&mut all, ROUNDS, async |contender| contender.sequential("small", SEQUENTIAL).await).await;
    let crowd = rounds(&mut all, ROUNDS, async |contender| contender.crowd(CROWD, IN_FLIGHT).await).await;
    let large = rounds(&mut all, ROUNDS, async |contender| contender.sequential("large", LARGE).await).await;

    println!("stdio, {ROUNDS} rounds each, medians; a ratio below 1.0 means Wharf takes less\n");
    let head = ["", "wharf", "rmcp 3.8", "floor", "÷ rmcp", "÷ floor", "bar", "aim"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.push(row("one call after the other, time a call", walls(&sequential), SEQUENTIAL, ["≤ 1.0", "≤ 1.3"]));
    rows.push(row("32 under way, time a call", walls(&crowd), CROWD, ["≤ 0.83", "≤ 1.43"]));
    rows.push(row("1 MB results, time a call", walls(&large), LARGE, ["≤ 1.0", "≤ 1.2"]));
    let cpu = crowd.each_ref().map(|figures| median(figures.iter().map(|figure| figure.cpu)));
    rows.push(row("32 under way, client CPU a call", cpu, CROWD, ["", ""]));
    println!("{}", measure::table(rows));

    println!("\nmemory under a 300 MB line: {}", peak_memory_of("huge-line"));
    println!("`wharf --version`: {}", measure::cold_start());

    let ratio = |figures| {
        let [wharf, rmcp, _] = walls(figures);
        wharf.as_secs_f64() / rmcp.as_secs_f64()
    };
    let missed = ratio(&sequential) > 1.0 || ratio(&crowd) > 1.0 / 1.2 || ratio(&large) > 1.0;
    if missed {
        println!("\na bar is missed");
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn walls(figures: &[Vec<Figures>; 3]) -> [Duration; 3] {
    figures.each_ref().map(|figures| median(figures.iter().map(|figure| figure.wall)))
}

/// One line of the table: what each took, how Wharf compares, and what is asked for.
fn row(name: &str, times: [Duration; 3], calls: usize, asked: [&str; 2]) -> Vec<String> {
    let ratio = |other: usize| format!("{:.2}", times[0].as_secs_f64() / times[other].as_secs_f64());
    let mut row = vec![name.to_owned()];
    row.extend(times.map(|time| per_call(time, calls)));
    row.extend([ratio(1), ratio(2)]);
    row.extend(asked.map(str::to_owned));
    row
}

fn per_call(time: Duration, calls: usize) -> String {
    let micros = time.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
    format!("{micros:.1} µs")
}
