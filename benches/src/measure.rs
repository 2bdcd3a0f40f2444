//! Clocks, counts and medians.

use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use crate::contenders::{Contender, Server, Wharf};

/// What one round took.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) wall: Duration,
    /// Of this process alone, all threads.
    pub(crate) cpu: Duration,
    /// TCP connections that were opened.
    pub(crate) connections: u64,
}

/// Lets every contender do the same work, in turns; the first turn warms up and does not count.
pub(crate) async fn rounds(
    all: &mut [Contender; 3],
    rounds: usize,
    work: impl AsyncFn(&mut Contender),
) -> [Vec<Figures>; 3] {
    let mut figures = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        for (contender, figures) in all.iter_mut().zip(&mut figures) {
            let connections = contender.connections().await;
            let (wall, cpu) = (Instant::now(), cpu_time());
            work(contender).await;
            let (wall, cpu) = (wall.elapsed(), cpu_time().saturating_sub(cpu));
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

/// The CPU time of this process, from the system's own account of it in nanoseconds for each thread.
pub(crate) fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Runs one measurement in a process of its own and tells what it printed.
pub(crate) fn peak_memory_of(name: &str) -> String {
    let program = std::env::current_exe().expect("a program knows its path");
    let output = Command::new(program).arg(name).output().expect("a run");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An answer that is far too long: as one line of 300 MB, or as a content of 200 MB whose length is announced or not.
#[derive(Clone, Copy)]
pub(crate) enum Huge {
    Line,
    Announced,
    InChunks,
}

/// Calls a tool whose answer is huge, and prints how much memory that took.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
pub(crate) async fn memory_under(huge: Huge) {
    let (wharf, _server) = match huge {
        Huge::Line => (Wharf::over_stdio().await, None),
        Huge::Announced | Huge::InChunks => {
            let server = Server::start().await;
            (Wharf::over_http(&server).await, Some(server))
        }
    };
    let before = peak_memory();
    let failure = wharf.failure(if matches!(huge, Huge::InChunks) { "huge-in-chunks" } else { "huge" }).await;
    println!("{} MiB more than before it ({failure})", (peak_memory() - before) / 1024);
}

/// What a call costs that finds its session lost, against the first call of a session that has nothing yet.
pub(crate) struct Recovery {
    pub(crate) renewed: Duration,
    pub(crate) fresh: Duration,
    /// TCP connections that were opened for all sessions that were lost together.
    pub(crate) connections: u64,
}

pub(crate) async fn recovery(rounds: usize) -> Recovery {
    let mut server = Server::start().await;
    let old = Wharf::over_http(&server).await;
    let (mut renewed, mut fresh, mut connections) = (Vec::new(), Vec::new(), 0);
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

/// Lets pass what a new session does besides: it asks whether the server has something to say unasked.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// The most memory this process has held, in KiB.
pub(crate) fn peak_memory() -> u64 {
    memory("VmHWM")
}

/// The memory this process holds, in KiB.
pub(crate) fn resident_memory() -> u64 {
    memory("VmRSS")
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// How long the binary takes to say its version, if it has been built.
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
