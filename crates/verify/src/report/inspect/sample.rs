//! Samples: a trial with the verdicts of all its judges.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::questions::{BenchmarkText, ReportQuestion};
use super::message::messages;
use super::{model_name, scorer, tokens};
use crate::outcome::{UnitResult, Verdict};

/// The questions of a benchmark, by id.
pub(super) struct Questions(BTreeMap<String, ReportQuestion>);

impl Questions {
    pub(super) fn new(benchmark: BenchmarkText) -> Self {
        Self(benchmark.questions.into_iter().map(|question| (question.id.to_string(), question)).collect())
    }
}

/// Returns the sample of a trial from its units.
pub(super) fn sample(units: &[Arc<UnitResult>], questions: &Questions) -> Value {
    let Some(first) = units.first() else { return Value::Null };
    let question = questions.0.get(first.question.as_str());
    let asked = first.scenario.as_ref().and_then(|scenario| scenario.turns.first()).map(|turn| turn.prompt.as_str());
    let text = asked.or(question.map(|question| question.question.as_str())).unwrap_or(first.question.as_str());
    let target = question.and_then(|question| question.answer.as_deref()).unwrap_or_default();
    let model = model_name(&first.model);
    let response = first.response.clone().unwrap_or_default();
    let scores: Map<String, Value> =
        units.iter().filter(|unit| unit.verdict.is_scored()).map(|unit| (scorer(unit), score(unit))).collect();
    // Several judges may be the same model, and a judge may be the answering one.
    let mut used = BTreeMap::from([(model.clone(), first.usage)]);
    for unit in units {
        if let Some(judge) = &unit.judge {
            *used.entry(model_name(judge)).or_default() += unit.judge_usage;
        }
    }
    let usage: Map<String, Value> = used.iter().map(|(model, used)| (model.clone(), tokens(used))).collect();
    #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds is far below 2^52")]
    let seconds = first.millis as f64 / 1000.0;
    let stop_reason = if first.limit_reached { "unknown" } else { "stop" };
    let mut sample = json!({
        "id": first.question,
        "epoch": first.replicate,
        "input": text,
        "target": target,
        "messages": messages(text, first, &model),
        "output": {
            "model": model,
            "choices": [{
                "message": {"role": "assistant", "content": response, "source": "generate"},
                "stop_reason": stop_reason,
            }],
            "completion": response,
            "usage": tokens(&first.usage),
            "time": seconds,
        },
        "scores": scores,
        "metadata": {
            "trial": first.trial,
            "keywords": first.keywords,
            "tool_set": first.tool_set,
            "turns": first.turns,
            "tool_calls": first.tool_calls,
        },
        "store": {},
        "events": [],
        "model_usage": usage,
        "total_time": seconds,
        "working_time": seconds,
        "attachments": {},
    });
    if scores.is_empty() {
        let reasons: Vec<String> = units.iter().map(|unit| format!("{}: {}", scorer(unit), reason(unit))).collect();
        sample["error"] = json!({"message": reasons.join("\n"), "traceback": "", "traceback_ansi": ""});
    }
    if first.limit_reached {
        sample["limit"] = json!({"type": "custom", "limit": f64::from(first.turns)});
    }
    sample
}

fn score(unit: &UnitResult) -> Value {
    let value = if unit.verdict == Verdict::Passed { "C" } else { "I" };
    json!({
        "value": value,
        "answer": unit.response,
        "explanation": (unit.verdict != Verdict::Passed).then(|| reason(unit)),
        "metadata": {
            "unit": unit.unit,
            "failure": unit.failure,
            "caveats": unit.caveats,
            "template": unit.template,
            "assertions": unit.assertions,
            "scenario": unit.scenario,
            "rubric": unit.rubric,
            "judge_reasoning": unit.judge_reasoning,
            "excerpts": unit.excerpts,
        },
    })
}

/// Returns why a unit did not pass.
fn reason(unit: &UnitResult) -> String {
    let failure = unit.failure.as_ref().map(|failure| failure.reason.as_str());
    unit.reason.as_deref().or(failure).unwrap_or("not scored").to_owned()
}
