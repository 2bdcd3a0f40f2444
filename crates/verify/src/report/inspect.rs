//! Eval logs of Inspect (`inspect_ai`): one log per answering model, one sample per question and replicate, one scorer per judge.
//!
//! A verdict that is not scored here has no score there either: such samples carry the reason as their error.

mod message;
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use wharf_protocol::Usage;

use super::export::ExportError;
use super::questions::BenchmarkText;
use crate::digest::digest;
use crate::ids::{LastTrial, QuestionId, RunId};
use crate::outcome::{ModelIdentity, UnitResult, Verdict};
use crate::store::{ResultPages, RunState, RunStore, RunSummary};
use sample::{Questions, sample};

/// Version of the log format.
const LOG_VERSION: u32 = 2;
/// Name of the scorer of units without a judge.
const NO_JUDGE: &str = "checks";

/// The eval log of one model, before it is written.
#[derive(Clone, Debug)]
pub struct InspectLog {
    /// Label of the model.
    pub model: String,
    /// The name of the file by which its viewer finds the log.
    pub file_name: String,
    identity: ModelIdentity,
    totals: Totals,
}

/// What a log says about all its samples.
#[derive(Clone, Debug, Default)]
struct Totals {
    samples: u64,
    last_trial: LastTrial,
    epochs: u32,
    /// The ids of the questions, in the order of the plan.
    questions: Vec<String>,
    seen: BTreeSet<QuestionId>,
    /// Passed, failed and unscored units, by scorer.
    scores: BTreeMap<String, [u64; 3]>,
    usage: BTreeMap<String, Usage>,
    /// Time of the requests and calls of all trials.
    millis: u64,
}

/// Returns the logs of a run, one per answering model.
///
/// # Errors
/// If the results cannot be read.
pub async fn inspect_logs(store: &dyn RunStore, run: &RunId) -> Result<Vec<InspectLog>, ExportError> {
    let (found, _) = store.run(run).await?;
    let mut logs: Vec<InspectLog> = Vec::new();
    let mut pages = ResultPages::new(store, run);
    while let Some(page) = pages.next().await? {
        for unit in page {
            let known = logs.iter().position(|log| log.model == unit.model.label);
            let position = known.unwrap_or_else(|| {
                logs.push(InspectLog {
                    model: unit.model.label.clone(),
                    file_name: file_name(&found, &unit.model.label),
                    identity: unit.model.clone(),
                    totals: Totals::default(),
                });
                logs.len() - 1
            });
            logs[position].totals.add(&unit);
        }
    }
    Ok(logs)
}

impl InspectLog {
    /// Writes the log. The results are read again, so that the memory does not grow with the run.
    ///
    /// # Errors
    /// If the results cannot be read or written.
    pub async fn write<W: Write + Send>(
        &self,
        store: &dyn RunStore,
        run: &RunId,
        mut out: W,
    ) -> Result<(), ExportError> {
        let (found, settings) = store.run(run).await?;
        let questions = Questions::new(BenchmarkText::of_settings(&settings));
        let head = self.head(&found).to_string();
        // The object stays open: its last key is the list of samples.
        let open = head.strip_suffix('}').unwrap_or(&head);
        write!(out, "{open},\"samples\":[")?;
        let mut pages = ResultPages::new(store, run);
        let mut units: Vec<Arc<UnitResult>> = Vec::new();
        let mut is_first = true;
        while let Some(page) = pages.next().await? {
            for unit in page.into_iter().filter(|unit| unit.model.label == self.model) {
                // The units of a trial follow each other.
                if units.first().is_some_and(|first| first.trial != unit.trial) {
                    write_sample(&mut out, &sample(&units, &questions), is_first)?;
                    is_first = false;
                    units.clear();
                }
                units.push(unit);
            }
        }
        if !units.is_empty() {
            write_sample(&mut out, &sample(&units, &questions), is_first)?;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()?;
        Ok(())
    }

    fn head(&self, run: &RunSummary) -> Value {
        let Totals { samples, epochs, questions, scores, usage, millis, .. } = &self.totals;
        let created = iso(run.created, ':');
        // The store does not know when a model's last trial ended, and the viewer shows `NaN` without an end. The time
        // of the requests is the one that can be compared: how many ran at once does not change it.
        let completed = iso(run.created.saturating_add_unsigned(millis / 1000), ':');
        let id = log_id(run, &self.model);
        let model = model_name(&self.identity);
        let scorers: Vec<Value> = scores.keys().map(|name| json!({"name": name})).collect();
        let results: Vec<Value> = scores.iter().map(|(name, counts)| score(name, *counts)).collect();
        let usage: Map<String, Value> = usage.iter().map(|(model, used)| (model.clone(), tokens(used))).collect();
        let status = match run.state {
            RunState::Finished => "success",
            RunState::Stopped | RunState::Canceled => "cancelled",
            RunState::Running | RunState::Paused => "started",
        };
        json!({
            "version": LOG_VERSION,
            "status": status,
            "eval": {
                "eval_id": id,
                "run_id": run.id,
                "created": created,
                "task": run.benchmark,
                "task_id": id,
                "task_version": 0,
                "dataset": {"name": run.benchmark, "samples": questions.len(), "sample_ids": questions},
                "model": model,
                "config": {"epochs": epochs},
                "packages": {"wharf": env!("CARGO_PKG_VERSION")},
                "metadata": {"model": self.identity},
                "scorers": scorers,
            },
            "plan": {"name": "plan", "steps": [], "config": {}},
            "results": {"total_samples": samples, "completed_samples": samples, "scores": results},
            "stats": {"started_at": created, "completed_at": completed, "model_usage": usage},
        })
    }
}

fn write_sample(out: &mut impl Write, sample: &Value, is_first: bool) -> std::io::Result<()> {
    out.write_all(if is_first { b"\n" } else { b",\n" })?;
    out.write_all(sample.to_string().as_bytes())
}

impl Totals {
    fn add(&mut self, unit: &UnitResult) {
        self.epochs = self.epochs.max(unit.replicate);
        if self.seen.insert(unit.question.clone()) {
            self.questions.push(unit.question.to_string());
        }
        if self.last_trial.is_new(&unit.trial) {
            self.samples += 1;
            self.millis = self.millis.saturating_add(unit.millis);
            *self.usage.entry(model_name(&unit.model)).or_default() += unit.usage;
        }
        if let Some(judge) = &unit.judge {
            *self.usage.entry(model_name(judge)).or_default() += unit.judge_usage;
        }
        let counts = self.scores.entry(scorer(unit)).or_default();
        counts[match unit.verdict {
            Verdict::Passed => 0,
            Verdict::Failed => 1,
            Verdict::Invalid | Verdict::Indeterminate => 2,
        }] += 1;
    }
}

/// Returns the name of a unit's scorer.
fn scorer(unit: &UnitResult) -> String {
    unit.judge.as_ref().map_or_else(|| NO_JUDGE.to_owned(), |judge| judge.label.clone())
}

/// Returns a model's name in the form of the log: `provider/model`.
fn model_name(model: &ModelIdentity) -> String {
    format!("{}/{}", model.interface, model.model)
}

#[expect(clippy::cast_precision_loss, reason = "counts of units are far below 2^52")]
fn score(name: &str, [passed, failed, unscored]: [u64; 3]) -> Value {
    let scored = passed + failed;
    let mut metrics = Map::new();
    if scored > 0 {
        let accuracy = passed as f64 / scored as f64;
        metrics.insert("accuracy".to_owned(), json!({"name": "accuracy", "value": accuracy, "params": {}}));
    }
    json!({
        "name": name,
        "scorer": name,
        "scored_samples": scored,
        "unscored_samples": unscored,
        "params": {},
        "metrics": metrics,
    })
}

/// Returns tokens and cost in the form of the log.
fn tokens(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        "input_tokens_cache_read": usage.cache_read_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_cost": usage.cost_usd,
    })
}

fn log_id(run: &RunSummary, model: &str) -> String {
    digest(&json!([run.id, model])).chars().take(22).collect()
}

/// Returns the name of a log: its viewer lists files that begin with a time.
fn file_name(run: &RunSummary, model: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let task: String = format!("{}-{model}", run.benchmark).chars().map(plain).take(100).collect();
    format!("{}_{task}_{}.json", iso(run.created, '-'), log_id(run, model))
}

/// Returns a time in seconds since 1970 as text, in UTC, with a separator between hours, minutes and seconds.
fn iso(seconds: i64, separator: char) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The calendar by eras of 400 years that begin on March 1.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    let s = separator;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}{s}{minute:02}{s}{second:02}+00{s}00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_and_know_leap_years() {
        assert_eq!(iso(0, ':'), "1970-01-01T00:00:00+00:00");
        assert_eq!(iso(951_782_399, ':'), "2000-02-28T23:59:59+00:00");
        assert_eq!(iso(951_782_400, '-'), "2000-02-29T00-00-00+00-00");
        assert_eq!(iso(1_794_866_743, ':'), "2026-11-16T22:05:43+00:00");
        assert_eq!(iso(-1, ':'), "1969-12-31T23:59:59+00:00");
    }
}
