//! Excerpts of an answer: the judge gives them, and only those that are found in the answer count.

use std::ops::Range;

use serde_json::Value;

use super::answer::Answer;
use super::context::UnitContext;
use super::conversation::TakenTurn;
use super::stage::StageError;
use crate::evidence::{Excerpt, ExcerptRules, MAX_EXCERPT_CHARS, Searcher, SourceText, Subject};
use crate::judge::JudgeError;
use crate::judge_prompt::{EvidenceItem, JudgedAnswer, collect_excerpts, explain, replace_excerpts};
use crate::stage_name::StageName;

/// An item of a form, and what its excerpts support.
#[derive(Clone, Debug)]
pub(super) struct Supported {
    pub(super) item: EvidenceItem,
    pub(super) subject: Subject,
}

/// Why the judge gave no evidence.
pub(super) enum NoEvidence {
    Judge(JudgeError),
    Stage(StageError),
}

/// Where the excerpts of a judge are searched: in what it reads.
#[derive(Clone, Debug)]
pub(super) enum Sources {
    /// In the final response, or in the answers to all turns of a scenario.
    Response,
    /// In all messages of the model and the tools.
    Trace,
    /// In the answer to the turn with this index.
    TurnResponse(usize),
    /// In all messages of the turn with this index.
    TurnMessages(usize),
}

/// What a judge reads, and where its excerpts are searched.
pub(super) struct Evidence<'a> {
    pub(super) stage: StageName,
    /// The text that the judge reads.
    pub(super) judged: JudgedAnswer<'a>,
    pub(super) sources: Sources,
    /// The turn of a scenario that the judge reads.
    pub(super) turn: Option<&'a str>,
}

impl Evidence<'_> {
    /// Returns the excerpts of all items that are found in the answer. The judge may replace the others.
    pub(super) async fn collect(
        &self,
        unit: &mut UnitContext,
        supported: &[Supported],
        rules: ExcerptRules,
    ) -> Result<Vec<Excerpt>, NoEvidence> {
        let answer = unit.needed_answer(self.stage).map_err(NoEvidence::Stage)?;
        let sources = sources(&answer, &self.sources);
        let mut searcher = Searcher::new(sources, rules.threshold);
        let items: Vec<EvidenceItem> = supported.iter().map(|of| of.item.clone()).collect();
        let mut prompt = collect_excerpts(self.judged, &items, rules.max);
        let mut retries = 0;
        loop {
            let read = |value: &Value| read_excerpts(supported, value, rules.max);
            let judge = unit.needed_judge(self.stage).map_err(NoEvidence::Stage)?;
            let quoted = judge.ask(prompt.clone(), read).await.map_err(NoEvidence::Judge)?.value;
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            for (of, texts) in supported.iter().zip(&quoted) {
                for text in texts {
                    match searcher.find(&of.subject, text) {
                        Some(excerpt) => found.push(excerpt),
                        None => missing.push(text.as_str()),
                    }
                }
            }
            if missing.is_empty() || retries == rules.retries {
                return Ok(found);
            }
            retries += 1;
            let answer: serde_json::Map<String, Value> =
                supported.iter().zip(&quoted).map(|(of, texts)| (of.item.key.clone(), texts.clone().into())).collect();
            replace_excerpts(&mut prompt, &Value::Object(answer).to_string(), &missing);
        }
    }

    /// Returns the judge's reasoning about each item.
    pub(super) async fn reasoning(
        &self,
        unit: &mut UnitContext,
        supported: &[Supported],
        excerpts: Option<&[Excerpt]>,
    ) -> Result<Vec<String>, NoEvidence> {
        let items: Vec<EvidenceItem> = supported.iter().map(|of| of.item.clone()).collect();
        let listed = excerpts.map(|excerpts| excerpts_text(supported, excerpts));
        let prompt = explain(self.judged, &items, listed.as_deref());
        let read = |value: &Value| {
            let text = |of: &Supported| {
                let text = value.get(&of.item.key).and_then(Value::as_str);
                text.map(str::to_owned).ok_or_else(|| format!("`{}`: expected a text", of.item.key))
            };
            supported.iter().map(text).collect::<Result<Vec<String>, String>>()
        };
        let judge = unit.needed_judge(self.stage).map_err(NoEvidence::Stage)?;
        Ok(judge.ask(prompt, read).await.map_err(NoEvidence::Judge)?.value)
    }
}

/// Lists excerpts for a judge, under the key of their item.
pub(super) fn excerpts_text(supported: &[Supported], excerpts: &[Excerpt]) -> String {
    let mut lines = Vec::new();
    for of in supported {
        lines.push(format!("{}:", of.item.key));
        let own: Vec<String> = excerpts
            .iter()
            .filter(|of_item| of_item.subject == of.subject)
            .map(|of| format!("- {}", of.text))
            .collect();
        lines.push(if own.is_empty() { "(none)".to_owned() } else { own.join("\n") });
    }
    lines.join("\n")
}

/// Returns the texts that excerpts are searched in: those that the judge reads.
fn sources<'a>(answer: &'a Answer, sources: &Sources) -> Vec<SourceText<'a>> {
    let turns = answer.conversation.as_ref().map(|conversation| conversation.turns.as_slice());
    let turn = |index: usize| turns.and_then(|turns| turns.get(index));
    let response = |of: &'a TakenTurn| response_in(answer, of.response.as_deref(), of.messages.clone());
    match (sources, turns) {
        (Sources::Trace, _) => messages_in(answer, 0..answer.trace.len()),
        (Sources::Response, Some(turns)) => turns.iter().map(response).collect(),
        (Sources::Response, None) => vec![response_in(answer, answer.response.as_deref(), 0..answer.trace.len())],
        (Sources::TurnResponse(index), _) => turn(*index).map(response).into_iter().collect(),
        (Sources::TurnMessages(index), _) => {
            turn(*index).map(|turn| messages_in(answer, turn.messages.clone())).unwrap_or_default()
        }
    }
}

fn messages_in(answer: &Answer, range: Range<usize>) -> Vec<SourceText<'_>> {
    let messages = answer.trace.iter().enumerate().take(range.end).skip(range.start);
    messages.map(|(index, message)| SourceText { message: Some(index), text: &message.content }).collect()
}

/// Returns an answer of the model, with the message that contains it.
fn response_in<'a>(answer: &'a Answer, response: Option<&'a str>, range: Range<usize>) -> SourceText<'a> {
    let text = response.unwrap_or_default();
    let mut messages = messages_in(answer, range).into_iter().rev();
    let message = messages.find(|message| message.text == text).and_then(|message| message.message);
    SourceText { message, text }
}

/// Reads the excerpts of each item, at most `max` of them.
fn read_excerpts(supported: &[Supported], value: &Value, max: usize) -> Result<Vec<Vec<String>>, String> {
    let read = |of: &Supported| {
        let key = &of.item.key;
        let list = value.get(key).and_then(Value::as_array).ok_or_else(|| format!("`{key}`: expected a list"))?;
        let mut texts: Vec<String> = Vec::new();
        for text in list {
            let text = text.as_str().ok_or_else(|| format!("`{key}`: expected a list of texts"))?;
            if text.chars().nth(MAX_EXCERPT_CHARS).is_some() {
                return Err(format!("`{key}`: expected at most {MAX_EXCERPT_CHARS} characters for each excerpt"));
            }
            if !text.trim().is_empty() && !texts.iter().any(|other| other == text) {
                texts.push(text.to_owned());
            }
        }
        texts.truncate(max);
        Ok(texts)
    };
    supported.iter().map(read).collect()
}

impl UnitContext {
    /// Keeps excerpts for the result, and returns which subjects have none.
    pub(super) fn keep_excerpts(&mut self, supported: &[Supported], excerpts: Vec<Excerpt>) -> Vec<Subject> {
        let subjects = supported.iter().map(|of| of.subject.clone());
        let without = subjects.filter(|subject| !excerpts.iter().any(|excerpt| excerpt.subject == *subject)).collect();
        self.excerpts.extend(excerpts);
        without
    }
}
