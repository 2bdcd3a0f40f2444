//! The conversation of a scenario: one run of the agent that each turn continues.
//!
//! All judges of a trial share the conversation, so its path must not depend on the judge of a unit. Where a branch or a
//! variable needs a value that only a judge can read, the steering judge reads it once for the whole trial.

use std::ops::Range;

use serde_json::{Map, Value};
use wharf_agent::{RunEnd, TraceMessage};
use wharf_protocol::{Message, Role};

use super::answer::Answer;
use super::answering::Answering;
use super::context::TrialContext;
use super::steering::Steering;
use crate::assertion::{AssertionResult, TraceFacts};
use crate::journal::JournalError;
use crate::judge_prompt::{Spoken, trace_text};
use crate::outcome::Finding;
use crate::scenario::{Facts, Scenario, ScenarioEnd, State, Turn, TurnFacts, turn_passed};
use crate::template::TemplateResult;

/// The turns of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) turns: Vec<TakenTurn>,
    pub(crate) state: State,
    pub(crate) end: ScenarioEnd,
    /// Why the conversation ended before its scenario did, if the agent's run does not say it.
    pub(crate) stopped: Option<Stopped>,
    /// What the steering judge did.
    pub(crate) steering: Option<Steering>,
    max_turns: u32,
}

/// Why a conversation ended before its scenario did.
#[derive(Clone, Debug)]
pub(crate) enum Stopped {
    /// The units do not pass.
    Finding(Finding),
    /// The trial says nothing about the model.
    Invalid(String),
    /// It is unknown whether the trial had an effect.
    Indeterminate(String),
}

/// A turn that was taken.
#[derive(Clone, Debug)]
pub(crate) struct TakenTurn {
    pub(crate) name: String,
    /// The message to the model.
    pub(crate) prompt: String,
    pub(crate) response: Option<String>,
    /// Its messages in the trace.
    pub(crate) messages: Range<usize>,
    pub(crate) end: RunEnd,
    /// The values that the steering judge read.
    pub(crate) values: Option<Map<String, Value>>,
}

/// The results of the checks of a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnChecks {
    pub(crate) template: Option<TemplateResult>,
    pub(crate) assertions: Vec<AssertionResult>,
}

impl TurnChecks {
    /// Checks a turn with the values that a judge read.
    pub(super) fn new(
        turn: &Turn,
        response: &str,
        trace: &TraceFacts<'_>,
        values: Option<&Map<String, Value>>,
    ) -> Self {
        let empty = Map::new();
        // Without values the fields that a judge reads are unknown.
        let evaluate = |of: &crate::template::Template| of.evaluate(values.unwrap_or(&empty), response);
        let assertions = turn.trace.iter().map(|assertion| assertion.check(trace)).collect();
        Self { template: turn.template.as_ref().map(evaluate), assertions }
    }

    pub(super) fn passed(&self) -> Option<bool> {
        turn_passed(self.template.as_ref(), &self.assertions)
    }
}

impl Conversation {
    /// Returns the limit that ended the conversation.
    pub(super) fn limit(&self) -> Option<String> {
        let is_limit = self.end == ScenarioEnd::TurnLimit;
        is_limit.then(|| format!("the scenario's limit of {} turns was reached", self.max_turns))
    }

    /// Returns what was said, for a judge.
    pub(super) fn spoken<'a>(&'a self, trace: &'a [TraceMessage], full_trace: bool) -> Vec<Spoken<'a>> {
        let mut spoken = Vec::new();
        for turn in &self.turns {
            spoken.push(Spoken::User(&turn.prompt));
            if full_trace {
                spoken.extend(trace[turn.messages.clone()].iter().map(Spoken::Traced));
            } else {
                spoken.push(Spoken::Model(turn.response.as_deref().unwrap_or_default()));
            }
        }
        spoken
    }
}

impl TakenTurn {
    /// Returns what a judge reads of the turn.
    pub(super) fn judged_text(&self, trace: &[TraceMessage], full_trace: bool) -> String {
        if full_trace { trace_text(&trace[self.messages.clone()]) } else { self.response.clone().unwrap_or_default() }
    }
}

impl TrialContext {
    /// Returns what assertions on a part of the trace look at.
    pub(super) fn trace_facts<'a>(&'a self, messages: &'a [TraceMessage]) -> TraceFacts<'a> {
        // What a prepared trace could have called is not on record.
        let tools = (!self.model.settings.is_manual()).then_some(&self.tools.tools);
        TraceFacts { messages, tools }
    }
}

/// Holds the conversation of a scenario. An error of the journal ends the trial without an answer.
pub(super) async fn hold(answering: &Answering<'_>, scenario: &Scenario) -> Result<Answer, JournalError> {
    let trial = answering.trial;
    let steered = scenario.steered_turns();
    let mut conversation = Conversation {
        turns: Vec::new(),
        state: State::new(&scenario.state),
        end: ScenarioEnd::Stopped,
        stopped: None,
        steering: None,
        max_turns: scenario.max_turns,
    };
    let mut steering = trial.steering();
    let first = scenario.first_turn();
    let mut run = answering.start(first.map(|turn| turn.prompt.expand(&conversation.state)).unwrap_or_default());
    let mut current = first;
    let mut result = answering.drive(&mut run).await?;
    while let Some(turn) = current {
        let start = conversation.turns.last().map_or(0, |turn| turn.messages.end);
        let mut taken = TakenTurn {
            name: turn.name.clone(),
            prompt: turn.prompt.expand(&conversation.state),
            response: result.final_response.clone(),
            messages: start..result.trace_messages.len(),
            end: result.stop.clone(),
            values: None,
        };
        let is_answered = matches!(taken.end, RunEnd::Completed | RunEnd::Truncated) && !answering.is_stopped();
        let Some(response) = taken.response.clone().filter(|_| is_answered) else {
            if is_answered {
                let reason = format!("turn `{}`: the model gave no answer", turn.name);
                conversation.stopped = Some(Stopped::Finding(Finding::TraceInvalid(reason)));
            }
            conversation.turns.push(taken);
            break;
        };
        if steered.contains(turn.name.as_str()) {
            let text = taken.judged_text(&result.trace_messages, trial.evaluation.use_full_trace_for_template);
            match steering.read(turn, &taken.prompt, &text).await? {
                Ok(values) => taken.values = Some(values),
                Err(stopped) => {
                    conversation.stopped = Some(stopped);
                    conversation.turns.push(taken);
                    break;
                }
            }
        }
        conversation.state.update(turn, &response, taken.values.as_ref());
        conversation.turns.push(taken);
        current = following(&conversation, scenario, trial, &result.trace_messages);
        let Some(next) = current else {
            conversation.end = ScenarioEnd::Completed;
            break;
        };
        if conversation.turns.len() >= scenario.max_turns as usize {
            conversation.end = ScenarioEnd::TurnLimit;
            break;
        }
        run.continue_with(Message::text(Role::User, next.prompt.expand(&conversation.state)));
        result = answering.drive(&mut run).await?;
    }
    conversation.steering = steering.finish();
    Ok(answering.answer(result).with_conversation(conversation))
}

/// Returns the turn that follows the last one, as the steering judge read the conversation.
fn following<'a>(
    conversation: &Conversation,
    scenario: &'a Scenario,
    trial: &TrialContext,
    trace: &[TraceMessage],
) -> Option<&'a Turn> {
    let facts = |taken: &'_ TakenTurn| {
        let trace = trial.trace_facts(&trace[taken.messages.clone()]);
        let response = taken.response.as_deref().unwrap_or_default();
        let turn = scenario.turn(&taken.name)?;
        let passed = TurnChecks::new(turn, response, &trace, taken.values.as_ref()).passed();
        Some((trace, passed))
    };
    let checked: Vec<_> = conversation.turns.iter().filter_map(facts).collect();
    let turns: Vec<TurnFacts<'_>> = conversation
        .turns
        .iter()
        .zip(checked)
        .map(|(taken, (trace, passed))| TurnFacts {
            name: &taken.name,
            response: taken.response.as_deref().unwrap_or_default(),
            trace,
            values: taken.values.as_ref(),
            passed,
            reason: None,
            lacks_values: false,
        })
        .collect();
    scenario.following(&Facts { scenario, turns: &turns, state: &conversation.state })
}
