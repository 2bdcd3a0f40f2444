//! Wharf against its peers over stdio, measured side by side in one run and told as ratios.
//!
//! `cargo run --release -p wharf-benches` prints the table. Every contender talks to the same server, which is this
//! very program with the argument `serve`, on the same runtime; rounds alternate between them, and medians count.

mod contenders;
mod measure;
mod server;

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

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => server::serve(),
        Some("huge-line") => runtime().block_on(measure::huge_line()),
        _ => runtime().block_on(compare()),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

#[expect(clippy::print_stdout, reason = "printing the table is what this program is for")]
async fn compare() {
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
    rows.push(row("one call after the other, time a call", &sequential, SEQUENTIAL, ("≤ 1.0", "≤ 1.3")));
    rows.push(row("32 under way, time a call", &crowd, CROWD, ("≤ 0.83", "≤ 1.43")));
    rows.push(row("1 MB results, time a call", &large, LARGE, ("≤ 1.0", "≤ 1.2")));
    rows.push(cpu_row("32 under way, client CPU a call", &crowd, CROWD));
    println!("{}", measure::table(rows));

    println!("\nmemory under a 300 MB line: {}", peak_memory_of("huge-line"));
    println!("`wharf --version`: {}", measure::cold_start());
}

fn row(name: &str, figures: &[Vec<Figures>; 3], calls: usize, (bar, aim): (&str, &str)) -> Vec<String> {
    let time = |index: usize| median(figures[index].iter().map(|figure| figure.wall));
    let each = |index: usize| per_call(time(index), calls);
    let ratio = |index: usize| format!("{:.2}", time(0).as_secs_f64() / time(index).as_secs_f64());
    vec![name.to_owned(), each(0), each(1), each(2), ratio(1), ratio(2), bar.to_owned(), aim.to_owned()]
}

fn cpu_row(name: &str, figures: &[Vec<Figures>; 3], calls: usize) -> Vec<String> {
    let time = |index: usize| median(figures[index].iter().map(|figure| figure.cpu));
    let ratio = |index: usize| format!("{:.2}", time(0).as_secs_f64() / time(index).as_secs_f64());
    let each = [0, 1, 2].map(|index| per_call(time(index), calls));
    let mut row = vec![name.to_owned()];
    row.extend(each);
    row.extend([ratio(1), ratio(2), String::new(), String::new()]);
    row
}

fn per_call(time: Duration, calls: usize) -> String {
    let micros = time.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
    format!("{micros:.1} µs")
}
