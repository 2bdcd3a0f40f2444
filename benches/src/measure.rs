//! Measures time, memory and connections.

use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use crate::contenders::{Contender, Server, Wharf};

/// The measurements of one round.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) wall: Duration,
    /// CPU time of this process, all threads.
    pub(crate) cpu: Duration,
    /// Opened TCP connections.
    pub(crate) connections: u64,
}

/// Runs the same work with every contender in alternating rounds. The first round is a warm-up and is not counted.
pub(crate) async fn rounds(
    all: &mut [Contender; 3],
    rounds: usize,
    work: impl AsyncFn(&mut Contender),
) -> [Vec<Figures>; 3] {
    let mut figures = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        for (contender, figures) in all.iter_mut().zip(&mut figures) {
            let connections = contender.connections().await;
            let wall = Instant::now();
            let cpu = cpu_time();
            work(contender).await;
            let wall = wall.elapsed();
            let cpu = cpu_time().saturating_sub(cpu);
            if round > 0 {
                let connections = contender.connections().await - connections;
                figures.push(Figures { wall, cpu, connections });
            }
        }
    }
    figures
}

pub(crate) fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

/// Returns the CPU time of this process, summed from the scheduler's nanoseconds of each thread.
pub(crate) fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Runs one measurement in its own process and returns what it printed.
pub(crate) fn output_of(name: &str) -> String {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program).arg(name).output().expect("a run");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An oversized response: one line of 300 MB, or a body of 200 MB with or without an announced length.
#[derive(Clone, Copy)]
pub(crate) enum Huge {
    Line,
    Announced,
    Chunked,
}

/// Calls a tool whose response is oversized, and prints how much memory that takes.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) async fn memory_under(huge: Huge) {
    let (wharf, _server) = match huge {
        Huge::Line => (Wharf::over_stdio().await, None),
        Huge::Announced | Huge::Chunked => {
            let server = Server::start().await;
            (Wharf::over_http(&server).await, Some(server))
        }
    };
    let before = peak_memory();
    let failure = wharf.failure(if matches!(huge, Huge::Chunked) { "huge-in-chunks" } else { "huge" }).await;
    println!("{} MiB more than before ({failure})", (peak_memory() - before) / 1024);
}

/// The time of a call that finds its session lost, and of the first call of a new session.
pub(crate) struct Recovery {
    pub(crate) renewed: Duration,
    pub(crate) fresh: Duration,
    /// TCP connections opened for all lost sessions together.
    pub(crate) connections: u64,
}

pub(crate) async fn recovery(rounds: usize) -> Recovery {
    let mut server = Server::start().await;
    let old = Wharf::over_http(&server).await;
    let mut renewed = Vec::new();
    let mut fresh = Vec::new();
    let mut connections = 0;
    for _ in 0..rounds {
        old.call("forget").await;
        let before = server.connections().await;
        let began = Instant::now();
        old.call("small").await;
        renewed.push(began.elapsed());
        settle().await;
        connections += server.connections().await - before;

        let began = Instant::now();
        let new = Wharf::over_http(&server).await;
        new.call("small").await;
        fresh.push(began.elapsed());
        settle().await;
        new.close().await;
    }
    Recovery { renewed: median(renewed.into_iter()), fresh: median(fresh.into_iter()), connections }
}

/// Waits for the background work of a new session: it requests the notification stream.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Returns the peak resident memory of this process, in KiB.
pub(crate) fn peak_memory() -> u64 {
    memory("VmHWM")
}

/// Returns the resident memory of this process, in KiB.
pub(crate) fn resident_memory() -> u64 {
    memory("VmRSS")
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Returns how long `wharf --version` takes, if the binary is built.
pub(crate) fn cold_start() -> String {
    let binary = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("wharf")));
    let Some(binary) = binary.filter(|binary| binary.is_file()) else {
        return "not built; run `cargo build --release` first".to_owned();
    };
    let start = |_: u32| {
        let began = Instant::now();
        let _ = Command::new(&binary).arg("--version").output();
        began.elapsed()
    };
    let time = median((0..50).map(start));
    format!("{:.1} ms (bar: < 10 ms)", time.as_secs_f64() * 1000.0)
}
