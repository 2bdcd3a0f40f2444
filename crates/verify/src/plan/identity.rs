//! The ids of trials and units: digests of everything that can change an answer or a result.
//!
//! The keywords and descriptions of a question are not in the ids, because nothing is computed from them, and neither is
//! the reference answer, unless the judge of a trait sees it. The ids of the question and the labels of the models are, so
//! that no two trials of a run have the same id.

use serde::Serialize;
use serde_json::{Value, json};

use super::{PlanInput, RESULT_FORMAT};
use crate::benchmark::{Benchmark, Isolation, Question, Trait};
use crate::digest::digest;
use crate::ids::{TrialId, UnitId};
use crate::judge_prompt::JUDGE_PROMPT_VERSION;
use crate::model_under_test::{Judge, ModelSettings, ModelUnderTest};
use crate::scenario::Scenario;
use crate::servers::{ServerSet, isolation};
use crate::tool_set::ToolSet;

/// The tools of a trial, as far as they identify it. Computed once for all questions with the same servers.
#[derive(Clone, Serialize)]
pub(super) struct ToolsIdentity {
    tool_set: String,
    isolation: Isolation,
}

/// What identifies the trials of one question and model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrialIdentity {
    /// A digest of everything except the number of the replicate.
    common: String,
}

/// What identifies the units of one question and judge.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnitIdentity {
    /// A digest of everything except the trial.
    common: String,
}

/// The judge whose reading changes the conversation of a scenario.
pub(super) struct SteeringIdentity<'a> {
    pub(super) judge: &'a Judge,
    /// Whether it reads the tool calls too.
    pub(super) reads_full_trace: bool,
}

/// A judge's settings without those that have no effect on a judge.
#[derive(Serialize)]
struct JudgeSettings<'a> {
    label: &'a str,
    interface: &'a str,
    name: &'a str,
    base_url: &'a Option<String>,
    file_digest: &'a Option<String>,
    system_prompt: &'a Option<String>,
    options: &'a wharf_agent::ModelOptions,
    prompt_version: u32,
}

impl<'a> JudgeSettings<'a> {
    fn of(judge: &'a Judge) -> Self {
        let Judge { label, settings, .. } = judge;
        let ModelSettings { interface, name, base_url, file_digest, system_prompt, options, .. } = settings;
        let prompt_version = JUDGE_PROMPT_VERSION;
        Self { label, interface, name, base_url, file_digest, system_prompt, options, prompt_version }
    }
}

impl ToolsIdentity {
    pub(super) fn new(benchmark: &Benchmark, tools: &ToolSet) -> Self {
        Self { tool_set: tools.digest(), isolation: isolation(benchmark, tools) }
    }
}

impl TrialIdentity {
    pub(super) fn new(
        question: &Question,
        model: &ModelUnderTest,
        servers: &ServerSet,
        tools: &ToolsIdentity,
        steering: Option<&SteeringIdentity<'_>>,
    ) -> Self {
        let mut identity = json!({
            "format": RESULT_FORMAT,
            "question": {"id": question.id, "text": question.question},
            "model": {"label": model.label, "settings": model.settings},
            "servers": servers,
            "tools": tools,
        });
        if let Some(scenario) = &question.scenario {
            // The criteria are evaluated when the conversation is over.
            identity["scenario"] = json!(Scenario { outcome: Vec::new(), ..scenario.clone() });
        }
        if let Some(SteeringIdentity { judge, reads_full_trace }) = steering {
            identity["steering_judge"] = json!(JudgeSettings::of(judge));
            identity["steering_reads_full_trace"] = json!(reads_full_trace);
        }
        Self { common: digest(&identity) }
    }

    pub(super) fn trial_id(&self, replicate: u32) -> TrialId {
        TrialId(digest(&(&self.common, replicate)).into())
    }
}

impl UnitIdentity {
    pub(super) fn new(question: &Question, judge: Option<&Judge>, input: &PlanInput<'_>) -> Self {
        let PlanInput { benchmark, evaluation, embedding, .. } = *input;
        let traits: Vec<_> = benchmark.traits_of(question).collect();
        let judge: Option<Value> = judge.and_then(|judge| serde_json::to_value(JudgeSettings::of(judge)).ok());
        let mut identity = json!({
            "format": RESULT_FORMAT,
            "template": question.template,
            "traits": traits,
            "assertions": question.trace,
            "judge": judge,
            "evaluation": evaluation,
        });
        if let Some(scenario) = &question.scenario {
            identity["outcome"] = json!(scenario.outcome);
        }
        let compares_meanings = evaluation.mode.has_template() && question.template.is_some();
        if let Some(embedding) = embedding.filter(|_| compares_meanings) {
            identity["embedding"] = embedding.identity();
        }
        let includes_truth = |of: &Trait| of.judge_settings().is_some_and(|settings| settings.include_ground_truth);
        if evaluation.mode.has_rubric() && traits.iter().any(|(_, of)| includes_truth(of)) {
            identity["reference"] = json!(question.answer);
        }
        Self { common: digest(&identity) }
    }

    pub(super) fn unit_id(&self, trial: &TrialId) -> UnitId {
        UnitId(digest(&(&self.common, trial)).into())
    }
}
