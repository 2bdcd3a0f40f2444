//! What a plan will roughly cost, before anything is sent.

use std::collections::HashMap;

use serde::Serialize;

use super::{Plan, PlanInput, needs_judge};
use crate::benchmark::{NamedTrait, Question, TraitKind};
use crate::evaluation::DeepTemplate;
use crate::rubric::{excerpt_rules, requests};
use crate::servers::ServerSet;

/// The approximate number of characters per token.
const CHARS_PER_TOKEN: usize = 4;
/// The assumed number of model requests of a trial with tools.
const AGENT_REQUESTS: u64 = 3;
/// The assumed length of an answer, in tokens.
const ANSWER_TOKENS: u64 = 300;
/// The assumed length of the results of one turn's tool calls, in tokens.
const TOOL_RESULT_TOKENS: u64 = 500;
/// The length of a judge's prompt without question and answer, in tokens.
const JUDGE_PROMPT_TOKENS: u64 = 400;

/// A rough estimate of a run: a model with tools makes three requests, and an answer has 300 tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Units of the plan.
    pub units: u64,
    /// Trials of the plan.
    pub trials: u64,
    /// Requests to answering models.
    pub model_requests: u64,
    /// Requests to judges.
    pub judge_requests: u64,
    /// Input tokens of all requests.
    pub input_tokens: u64,
    /// Output tokens of all requests.
    pub output_tokens: u64,
}

impl Plan {
    /// Estimates what the plan costs. `input` is what it was made of.
    pub fn estimate(&self, input: &PlanInput<'_>) -> Estimate {
        let mut estimate = Estimate::default();
        let questions: HashMap<_, _> =
            input.benchmark.questions.iter().map(|question| (&question.id, question)).collect();
        for trial in self.trials() {
            let model = input.models.iter().find(|model| model.label == trial.model);
            let (Some(question), Some(model)) = (questions.get(&trial.question), model) else { continue };
            let servers = ServerSet::of(input.benchmark, question, model);
            let tools = input.tool_sets.get(&servers).map_or(&[][..], |set| &set.tools);
            let definitions: usize = tools
                .iter()
                .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.as_str().len())
                .sum();
            let system = model.settings.system_prompt.as_ref().map_or(0, String::len);
            let prompt = tokens(question.question.len() + system + definitions);
            let requests = match (model.settings.is_manual(), servers.is_empty()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => AGENT_REQUESTS,
            };
            estimate.trials += 1;
            estimate.units += trial.units.len() as u64;
            estimate.model_requests += requests;
            let results = TOOL_RESULT_TOKENS * requests * requests.saturating_sub(1) / 2;
            estimate.input_tokens += prompt * requests + results;
            estimate.output_tokens += ANSWER_TOKENS * requests;
            if !needs_judge(question, input) {
                continue;
            }
            let template = question.template.as_ref().filter(|_| input.evaluation.mode.has_template());
            let template = template.and_then(crate::template::Template::judge_schema);
            let checks = u64::from(input.evaluation.abstention_check)
                + u64::from(input.evaluation.sufficiency_check && template.is_some())
                + template_requests(input) * u64::from(template.is_some())
                + rubric_requests(question, input);
            let judge_requests = checks * trial.units.len() as u64;
            let schema = template.map_or(0, |schema| schema.to_string().len());
            let judged = JUDGE_PROMPT_TOKENS + ANSWER_TOKENS + tokens(schema + question.question.len());
            estimate.judge_requests += judge_requests;
            estimate.input_tokens += judge_requests * judged;
            estimate.output_tokens += judge_requests * tokens(schema).max(20);
        }
        estimate
    }
}

/// The assumed number of requests for a trait that an agent investigates.
const AGENTIC_REQUESTS: usize = 4;

/// Returns the number of requests for a template, if all excerpts are found.
fn template_requests(input: &PlanInput<'_>) -> u64 {
    match input.evaluation.deep_judgment.template {
        DeepTemplate::Disabled => 1,
        DeepTemplate::ReasoningOnly => 2,
        DeepTemplate::Full => 3,
    }
}

/// Returns the number of requests for the traits of an answer, if all concepts are present.
fn rubric_requests(question: &Question, input: &PlanInput<'_>) -> u64 {
    if !input.evaluation.mode.has_rubric() {
        return 0;
    }
    let traits: Vec<NamedTrait> = input
        .benchmark
        .traits_of(question)
        .map(|(name, of)| NamedTrait { name: name.to_owned(), definition: of.clone() })
        .collect();
    let has_presence_check = traits.iter().any(|of| of.definition.if_present);
    let metrics = traits.iter().filter(|of| matches!(of.definition.kind, TraitKind::Metric(_))).count();
    let agentic = traits.iter().filter(|of| matches!(of.definition.kind, TraitKind::Agentic(_))).count();
    let deep = &input.evaluation.deep_judgment;
    let with_excerpts = traits.iter().filter(|of| excerpt_rules(&of.definition, deep).is_some()).count();
    let shared = requests(&traits, input.evaluation).len();
    (shared + 2 * with_excerpts + AGENTIC_REQUESTS * agentic + metrics + usize::from(has_presence_check)) as u64
}

fn tokens(chars: usize) -> u64 {
    chars.div_ceil(CHARS_PER_TOKEN) as u64
}
