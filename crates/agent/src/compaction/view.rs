//! The conversation as the model reads it, and its size.

use wharf_protocol::{Block, BlockKind, Message, Role, ToolOutput, ToolReturn};

use super::measure::message_tokens;
use super::summary::summary_section;
use super::{CompactedView, Compaction};

/// What replaces the content of an old tool result.
const CLEARED: &str = "[The content of this old result was removed to save space.]";
/// The least and the greatest ratio of reported to estimated tokens that is believed.
const RATIOS: (f64, f64) = (0.5, 4.0);

/// The conversation as the model reads it. It grows with the conversation, and is built again after a compaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The messages, if they differ from those of the run.
    messages: Vec<Message>,
    /// Number of compactions that it contains.
    revision: usize,
    /// Number of messages of the run that it contains.
    included: usize,
    /// Estimated tokens.
    tokens: u64,
    /// The last response whose provider reported the tokens of its request.
    reported: Option<Reported>,
    /// Ratio of reported to estimated tokens, which also holds for the next view.
    ratio: Option<f64>,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug)]
struct Reported {
    tokens: u64,
    /// Estimated tokens of its messages.
    estimate: u64,
}

impl View {
    /// Adds what happened since the last update.
    pub(crate) fn update(&mut self, messages: &[Message], compactions: &[Compaction]) {
        if self.revision != compactions.len() {
            *self = Self { ratio: self.ratio, ..Self::compacted(messages, compactions) };
        }
        for message in &messages[self.included..] {
            if let Some(usage) = message.usage.filter(|usage| usage.input_tokens > 0) {
                self.reported = Some(Reported { tokens: usage.input_tokens, estimate: self.tokens });
            }
            self.tokens += message_tokens(message);
            if self.revision > 0 {
                self.messages.push(message.clone());
            }
        }
        self.included = messages.len();
    }

    fn compacted(all: &[Message], compactions: &[Compaction]) -> Self {
        let Some(last) = compactions.last() else { return Self::default() };
        let included = last.messages.min(all.len());
        let messages = compacted(&all[..included], &last.view);
        let tokens = messages.iter().map(message_tokens).sum();
        Self { messages, revision: compactions.len(), included, tokens, reported: None, ratio: None }
    }

    /// Returns the messages of the next request.
    pub(crate) fn messages<'a>(&'a self, all: &'a [Message]) -> &'a [Message] {
        if self.revision == 0 { all } else { &self.messages }
    }

    /// Returns the tokens of the next request, which has `overhead` estimated tokens besides its messages. What a
    /// provider has reported counts; only the messages since then are estimated.
    pub(crate) fn request_tokens(&mut self, overhead: u64) -> u64 {
        let Some(reported) = self.reported else { return self.calibrated(self.tokens + overhead) };
        let estimate = reported.estimate + overhead;
        let ratio = ratio(reported.tokens, estimate);
        self.ratio = Some(ratio);
        let since = self.tokens - reported.estimate;
        scaled(estimate, ratio) + scaled(since, ratio)
    }

    /// Corrects an estimate by the ratio of reported to estimated tokens.
    pub(crate) fn calibrated(&self, estimate: u64) -> u64 {
        scaled(estimate, self.ratio.unwrap_or(1.0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn ratio(reported: u64, estimate: u64) -> f64 {
    (reported as f64 / estimate.max(1) as f64).clamp(RATIOS.0, RATIOS.1)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "token counts are far below 2^52, and ratios are positive"
)]
fn scaled(tokens: u64, ratio: f64) -> u64 {
    (tokens as f64 * ratio).round() as u64
}

/// Returns the messages that a model reads instead of the conversation.
pub(super) fn compacted(all: &[Message], view: &CompactedView) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut position = view.summarized.min(all.len());
    if let Some(summary) = view.summary.as_ref().filter(|_| position > 0) {
        let (old, recent) = all.split_at(position);
        messages.extend(old.iter().take_while(|message| message.role == Role::System).cloned());
        let mut opening = opening(old, summary);
        // Some models accept no two messages of the user in a row.
        if let Some(first) = recent.first().filter(|message| message.role == Role::User) {
            opening.extend(first.content.iter().cloned());
            position += 1;
        }
        messages.push(Message::new(Role::User, opening));
    }
    let recent = all.iter().enumerate().skip(position);
    messages.extend(recent.map(|(position, message)| {
        if position < view.cleared && message.role == Role::Tool { cleared(message) } else { shortened(message, view) }
    }));
    messages
}

/// Returns the question, the summary, and the last message of the user if it is another one.
fn opening(old: &[Message], summary: &str) -> Vec<Block> {
    let is_user = |message: &&Message| message.role == Role::User;
    let first = old.iter().position(|message| message.role == Role::User);
    let last = old.iter().rposition(|message| message.role == Role::User).filter(|last| Some(*last) != first);
    let blocks = |position: Option<usize>| {
        let message = position.and_then(|position| old.get(position)).filter(is_user);
        message.map(|message| message.content.clone()).unwrap_or_default()
    };
    let mut opening = blocks(first);
    opening.push(Block::text(summary_section(summary)));
    opening.extend(blocks(last));
    opening
}

/// Removes the content of a tool result. The result itself stays, because its call does.
pub(super) fn cleared(message: &Message) -> Message {
    with_results(message, |returned| {
        let is_short = returned.images().next().is_none() && returned.text().len() <= CLEARED.len();
        if is_short { returned.clone() } else { replaced(returned, CLEARED.to_owned()) }
    })
}

/// Shortens tool results. Messages of the model stay as they are, because providers reject reasoning that was changed, and
/// those of the user, because an answer to a part of a question is wrong.
fn shortened(message: &Message, view: &CompactedView) -> Message {
    let Some(limit) = view.max_chars else { return message.clone() };
    with_results(message, |returned| match middle_out(&returned.text(), limit) {
        Some(text) => replaced(returned, text),
        None => returned.clone(),
    })
}

fn with_results(message: &Message, change: impl Fn(&ToolReturn) -> ToolReturn) -> Message {
    let changed = |block: &Block| match &block.kind {
        BlockKind::ToolResult(returned) => Block::from(BlockKind::ToolResult(change(returned))),
        _ => block.clone(),
    };
    Message { content: message.content.iter().map(changed).collect(), ..message.clone() }
}

fn replaced(returned: &ToolReturn, text: String) -> ToolReturn {
    let output = if returned.output.is_error { ToolOutput::error(text) } else { ToolOutput::said(text) };
    ToolReturn { call_id: returned.call_id.clone(), output }
}

/// Removes the middle of a long text. Returns `None` if it is short enough.
pub(super) fn middle_out(text: &str, limit: usize) -> Option<String> {
    let length = text.chars().count();
    if length <= limit {
        return None;
    }
    let half = limit / 2;
    let end = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(index, _)| index);
    let removed = length - 2 * half;
    let (start, rest) = (&text[..end(half)], &text[end(length - half)..]);
    Some(format!("{start}\n[{removed} characters were removed here to save space.]\n{rest}"))
}
