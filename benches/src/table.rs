//! The table: what each contender took, how Wharf compares, and what is asked for.

use std::fmt;
use std::time::Duration;

use comfy_table::{Table, presets};

use crate::measure::{Figures, median};

/// What a ratio may be at most: against rmcp or the run has failed, and against the floor if all goes well.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) bar: f64,
    pub(crate) aim: f64,
}

#[derive(Default)]
pub(crate) struct Comparison {
    rows: Vec<Vec<String>>,
    missed: bool,
    connections: [u64; 3],
}

impl Comparison {
    /// A line about time, which counts.
    pub(crate) fn wall(&mut self, name: &str, figures: &[Vec<Figures>; 3], calls: usize, asked: Asked) {
        let times = medians(figures, |figure| figure.wall);
        self.missed |= ratio(times, 1) > asked.bar;
        for (all, figures) in self.connections.iter_mut().zip(figures) {
            *all += figures.iter().map(|figure| figure.connections).sum::<u64>();
        }
        self.push(name, times, calls, [asked.bar, asked.aim].map(at_most));
    }

    /// A line about CPU time, which is only told.
    pub(crate) fn cpu(&mut self, name: &str, figures: &[Vec<Figures>; 3], calls: usize) {
        self.push(name, medians(figures, |figure| figure.cpu), calls, [const { String::new() }; 2]);
    }

    fn push(&mut self, name: &str, times: [Duration; 3], calls: usize, asked: [String; 2]) {
        let mut row = vec![name.to_owned()];
        row.extend(times.map(|time| per_call(time, calls)));
        row.extend([1, 2].map(|other| format!("{:.2}", ratio(times, other))));
        row.extend(asked);
        self.rows.push(row);
    }

    /// Whether no bar is missed.
    pub(crate) fn met(&self) -> bool {
        !self.missed
    }

    /// TCP connections that each contender opened while it was timed.
    pub(crate) fn connections(&self) -> [u64; 3] {
        self.connections
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["", "wharf", "rmcp 3.8", "floor", "÷ rmcp", "÷ floor", "bar", "aim"]);
        table.add_rows(&self.rows);
        table.fmt(f)
    }
}

fn medians(figures: &[Vec<Figures>; 3], of: impl Fn(&Figures) -> Duration) -> [Duration; 3] {
    figures.each_ref().map(|figures| median(figures.iter().map(&of)))
}

/// What Wharf took, as a multiple of what another did.
fn ratio(times: [Duration; 3], other: usize) -> f64 {
    times[0].as_secs_f64() / times[other].as_secs_f64()
}

fn per_call(time: Duration, calls: usize) -> String {
    let micros = time.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
    format!("{micros:.1} µs")
}

/// `≤ 1.0`, `≤ 0.83`: as many digits as it needs, two at the most.
fn at_most(ratio: f64) -> String {
    let text = format!("{ratio:.2}");
    format!("≤ {}", text.strip_suffix('0').unwrap_or(&text))
}
