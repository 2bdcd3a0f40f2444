//! Clocks, medians and the table.

use std::process::Command;
use std::time::{Duration, SystemTime};

use comfy_table::{Table, presets};

use crate::contenders::{Contender, Wharf};

/// What one round took.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) wall: Duration,
    /// Of this process alone, all threads.
    pub(crate) cpu: Duration,
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
            let (wall, cpu) = (tokio::time::Instant::now(), cpu_time());
            work(contender).await;
            if round > 0 {
                figures.push(Figures { wall: wall.elapsed(), cpu: cpu_time().saturating_sub(cpu) });
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
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

pub(crate) fn table(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut rows = rows.into_iter();
    table.set_header(rows.next().unwrap_or_default());
    table.add_rows(rows);
    table.to_string()
}

/// Runs one measurement in a process of its own and tells what it printed.
pub(crate) fn peak_memory_of(name: &str) -> String {
    let program = std::env::current_exe().expect("a program knows its path");
    let output = Command::new(program).arg(name).output().expect("a run");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Calls a tool whose answer is one line of 300 MB, and prints how much memory that took.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
pub(crate) async fn huge_line() {
    let wharf = Wharf::connect().await;
    let before = peak_memory();
    let failure = wharf.failure("huge").await;
    println!("{} MiB more than before it ({failure})", (peak_memory() - before) / 1024);
}

/// The most memory this process has held, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// How long the binary takes to say its version, if it has been built.
pub(crate) fn cold_start() -> String {
    let binary = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("wharf")));
    let Some(binary) = binary.filter(|binary| binary.is_file()) else {
        return "not built; run `cargo build --release` first".to_owned();
    };
    let start = |_: u32| {
        let began = SystemTime::now();
        let _ = Command::new(&binary).arg("--version").output();
        began.elapsed().unwrap_or_default()
    };
    let time = median((0..50).map(start));
    format!("{:.1} ms (bar: < 10 ms)", time.as_secs_f64() * 1000.0)
}
