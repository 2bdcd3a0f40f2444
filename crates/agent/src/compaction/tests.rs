//! Every view of every conversation is one that providers accept.

use std::sync::Arc;

use proptest::prelude::*;
use wharf_protocol::{Block, BlockKind, Json, Message, Role, ToolCall, ToolOutput};

use super::plan::{ContextBudget, Planner};
use super::view::{View, compacted};
use super::{CompactedView, Compaction, CompactionReason};

/// A part of a conversation.
#[derive(Clone, Debug)]
enum Part {
    /// A message of the user, with the answer of the model.
    Question(usize),
    /// Calls of the model, with results of this length.
    Calls(Vec<usize>),
}

fn part() -> impl Strategy<Value = Part> {
    let length = || prop_oneof![4 => 0_usize..60, 1 => 0_usize..600];
    prop_oneof![1 => length().prop_map(Part::Question), 4 => prop::collection::vec(length(), 1..4).prop_map(Part::Calls)]
}

fn conversation(parts: &[Part]) -> Vec<Message> {
    let mut messages = vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "what?")];
    for (turn, part) in parts.iter().enumerate() {
        match part {
            Part::Question(length) => {
                messages.push(Message::text(Role::Assistant, "that"));
                messages.push(Message::text(Role::User, format!("and? {}", "word ".repeat(*length))));
            }
            Part::Calls(lengths) => {
                let id = |call: usize| -> Arc<str> { format!("c{turn}-{call}").into() };
                let call = |call| ToolCall {
                    id: id(call),
                    name: "look".into(),
                    arguments: Json::from(serde_json::Value::Null),
                };
                let blocks = (0..lengths.len()).map(|number| Block::from(BlockKind::ToolUse(call(number))));
                messages.push(Message::new(Role::Assistant, blocks.collect()));
                for (number, length) in lengths.iter().enumerate() {
                    messages.push(Message::tool_result(id(number), ToolOutput::said("word ".repeat(*length))));
                }
            }
        }
    }
    messages
}

/// Checks what providers require.
fn check(messages: &[Message]) {
    let mut open: Vec<Arc<str>> = Vec::new();
    for message in messages {
        match message.result() {
            Some(returned) => {
                let position = open.iter().position(|id| *id == returned.call_id).expect("a result follows its call");
                open.remove(position);
            }
            None => assert!(open.is_empty(), "calls without results: {open:?}"),
        }
        open.extend(message.calls().map(|call| call.id.clone()));
    }
    assert!(open.is_empty());
    assert_eq!((messages[0].role, messages[1].role), (Role::System, Role::User));
    assert!(messages[1].plain_text().starts_with("what?"));
    assert!(messages.windows(2).all(|pair| (pair[0].role, pair[1].role) != (Role::User, Role::User)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_view_has_the_question_recent_messages_and_pairs(
        parts in prop::collection::vec(part(), 0..40), trigger in 50_u64..3_000, keep in 1_usize..25, step in 1_usize..9,
    ) {
        let all = conversation(&parts);
        let mut view = View::default();
        let mut compactions: Vec<Compaction> = Vec::new();
        // As in a run, a request follows the results of a turn.
        let ends = (2..=all.len()).filter(|end| all.get(*end).is_none_or(|next| next.role == Role::Assistant));
        for end in ends.step_by(step) {
            let messages = &all[..end];
            view.update(messages, &compactions);
            check(view.messages(messages));
            let before = view.request_tokens(10);
            if before < trigger {
                continue;
            }
            let budget = ContextBudget { trigger, limit: trigger, keep_messages: keep };
            let planner = Planner::new(messages, &view, 10, budget);
            let now = compactions.last().map(|last| last.view.clone()).unwrap_or_default();
            let summarized = |mut plan: super::plan::Plan| {
                if let Some(old) = plan.summarize.take() {
                    assert_eq!(old.start, plan.view.summarized);
                    assert!(old.end + keep <= messages.len() || messages.len() < keep);
                    plan.view.summarized = old.end;
                    plan.view.summary = Some("much".to_owned());
                }
                plan.view
            };
            let next = summarized(planner.after_summary(summarized(planner.before_summary(&now))));
            let shown = compacted(messages, &next);
            check(&shown);
            let roles = |messages: &[Message]| messages.iter().map(|message| message.role).collect::<Vec<_>>();
            let recent = keep.min(messages.len() - 2);
            // A message of the user may be joined with the summary.
            let (shown, kept) = (roles(&shown), roles(&messages[messages.len() - recent..]));
            prop_assert!(shown.ends_with(&kept[1.min(kept.len())..]), "{shown:?} {kept:?}");
            prop_assert!(next.summarized >= now.summarized && next.cleared >= now.cleared);
            if next != now {
                compactions.push(Compaction {
                    turn: 1, messages: end, reason: CompactionReason::Threshold, view: next, failure: None,
                    tokens_before: before, tokens_after: 0, usage: wharf_protocol::Usage::default(),
                });
            }
        }
    }
}

#[test]
fn a_compaction_of_a_file_cannot_point_outside_of_the_conversation() {
    let all = conversation(&[Part::Calls(vec![1])]);
    let view = CompactedView { summarized: 99, cleared: 99, max_chars: Some(0), summary: Some("s".to_owned()) };
    assert_eq!(compacted(&all, &view).len(), 2);
}
