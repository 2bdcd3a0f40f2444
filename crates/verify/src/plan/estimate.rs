//! What a plan will roughly cost, before anything is sent.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::{Plan, PlanInput, needs_judge};
use crate::benchmark::{NamedTrait, Question, TraitKind};
use crate::evaluation::DeepTemplate;
use crate::rubric::{excerpt_rules, requests};
use crate::scenario::Turn;
use crate::servers::ServerSet;
use crate::template::Template;

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

/// A rough estimate of a run: a model with tools makes three requests in a turn, and an answer has 300 tokens. Of a
/// scenario, the longest conversation counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Units of the plan.
    pub units: u64,
    /// Trials of the plan.
    pub trials: u64,
    /// Requests to answering models.
    pub model_requests: u64,
    /// Requests to answering models, if every conversation is as short as it can be.
    pub min_model_requests: u64,
    /// Requests to judges.
    pub judge_requests: u64,
    /// Requests to judges, if every conversation is as short as it can be.
    pub min_judge_requests: u64,
    /// Input tokens of all requests.
    pub input_tokens: u64,
    /// Output tokens of all requests.
    pub output_tokens: u64,
}

/// The turns of a trial, and those that a judge reads.
struct Length {
    turns: u64,
    /// Those that every judge reads for its unit.
    judged: u64,
    /// Those that the steering judge reads once, beside the readings for its unit.
    steered: u64,
}

impl Length {
    /// Returns the shortest and the longest conversation about a question.
    fn of(question: &Question, input: &PlanInput<'_>) -> (Self, Self) {
        let has_template = input.evaluation.mode.has_template();
        let Some(scenario) = &question.scenario else {
            let judged = question.template.as_ref().is_some_and(Template::needs_judge) && has_template;
            let one = || Self { turns: 1, judged: judged.into(), steered: 0 };
            return (one(), one());
        };
        let is_judged = |turn: &Turn| turn.template.as_ref().is_some_and(Template::needs_judge) && has_template;
        let (min, max) = (u64::from(scenario.min_turns()), u64::from(scenario.most_turns()));
        let always = scenario.turns.iter().all(is_judged);
        let first = scenario.first_turn().is_some_and(is_judged);
        // What the steering judge reads counts for its unit, unless that needs no values or other requests.
        let is_reused = has_template && input.evaluation.deep_judgment.template == DeepTemplate::Disabled;
        let steered = if is_reused { BTreeSet::new() } else { scenario.steered_turns() };
        let starts_steered = scenario.first_turn().is_some_and(|turn| steered.contains(turn.name.as_str()));
        let all_steered = steered.len() == scenario.turns.len();
        let shortest = Self {
            turns: min,
            judged: if always { min } else { first.into() },
            steered: if all_steered { min } else { starts_steered.into() },
        };
        let longest = Self {
            turns: max,
            judged: if scenario.turns.iter().any(is_judged) { max } else { 0 },
            steered: if steered.is_empty() { 0 } else { max },
        };
        (shortest, longest)
    }
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
            let prompt = tokens(question.text().len() + system + definitions);
            let requests = match (model.settings.is_manual(), servers.is_empty()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => AGENT_REQUESTS,
            };
            let (shortest, longest) = Length::of(question, input);
            estimate.trials += 1;
            estimate.units += trial.units.len() as u64;
            estimate.model_requests += requests * longest.turns;
            estimate.min_model_requests += requests * shortest.turns;
            let results = TOOL_RESULT_TOKENS * requests * requests.saturating_sub(1) / 2;
            // Each turn of a conversation repeats the messages before it.
            let said = tokens(question.text().len()) + ANSWER_TOKENS + TOOL_RESULT_TOKENS * requests.saturating_sub(1);
            let repeated = said * longest.turns * longest.turns.saturating_sub(1) / 2;
            estimate.input_tokens += (prompt * requests + results) * longest.turns + repeated * requests;
            estimate.output_tokens += ANSWER_TOKENS * requests * longest.turns;
            if !needs_judge(question, input) {
                continue;
            }
            let has_template = |of: &&Template| input.evaluation.mode.has_template() && of.needs_judge();
            let templates = question.scenario.iter().flat_map(|of| &of.turns).filter_map(|turn| turn.template.as_ref());
            let template = question.template.iter().chain(templates).find(has_template);
            let schema = template.and_then(Template::judge_schema).map_or(0, |schema| schema.to_string().len());
            let is_sufficiency_checked = input.evaluation.sufficiency_check && question.template.is_some();
            let checks = |length: &Length| {
                let checks = u64::from(input.evaluation.abstention_check)
                    + u64::from(is_sufficiency_checked && template.is_some())
                    + template_requests(input) * length.judged
                    + rubric_requests(question, input);
                checks * trial.units.len() as u64 + length.steered
            };
            let judge_requests = checks(&longest);
            let judged = JUDGE_PROMPT_TOKENS + ANSWER_TOKENS + tokens(schema + question.text().len());
            estimate.judge_requests += judge_requests;
            estimate.min_judge_requests += checks(&shortest);
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
