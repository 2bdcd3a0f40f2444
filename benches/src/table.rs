//! The table: the time of each contender, the ratios, and the targets.

use std::fmt;
use std::time::Duration;

use comfy_table::{Table, presets};

use crate::measure::{Figures, median};

/// Upper limits of ratios: the bar against rmcp, which must hold, and the aim against the floor.
#[derive(Clone, Copy)]
pub(crate) struct Targets {
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
    /// Adds a row about wall time, which has a bar.
    pub(crate) fn wall(&mut self, name: &str, figures: &[Vec<Figures>; 3], calls: usize, targets: Targets) {
        let times = medians(figures, |figure| figure.wall);
        self.missed |= ratio(times, 1) > targets.bar;
        for (all, figures) in self.connections.iter_mut().zip(figures) {
            *all += figures.iter().map(|figure| figure.connections).sum::<u64>();
        }
        self.push(name, times, calls, [targets.bar, targets.aim].map(at_most));
    }

    /// Adds a row about CPU time, without a bar.
    pub(crate) fn cpu(&mut self, name: &str, figures: &[Vec<Figures>; 3], calls: usize) {
        self.push(name, medians(figures, |figure| figure.cpu), calls, [const { String::new() }; 2]);
    }

    fn push(&mut self, name: &str, times: [Duration; 3], calls: usize, targets: [String; 2]) {
        let mut row = vec![name.to_owned()];
        row.extend(times.map(|time| per_call(time, calls)));
        row.extend([1, 2].map(|other| format!("{:.2}", ratio(times, other))));
        row.extend(targets);
        self.rows.push(row);
    }

    /// Returns whether all bars are met.
    pub(crate) fn met(&self) -> bool {
        !self.missed
    }

    /// Returns how many TCP connections each contender opened during its rounds.
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

/// Returns Wharf's time divided by that of another contender.
fn ratio(times: [Duration; 3], other: usize) -> f64 {
    times[0].as_secs_f64() / times[other].as_secs_f64()
}

fn per_call(time: Duration, calls: usize) -> String {
    let micros = time.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
    format!("{micros:.1} µs")
}

/// Formats a limit with one or two decimals: `≤ 1.0`, `≤ 0.83`.
fn at_most(ratio: f64) -> String {
    let text = format!("{ratio:.2}");
    format!("≤ {}", text.strip_suffix('0').unwrap_or(&text))
}
