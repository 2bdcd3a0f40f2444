//! Reports the events of a run that its model has prepared.

use wharf_protocol::{BlockKind, Message, Role};

use crate::{AgentEvent, Delta, EventSink, PreparedRun, StopReason};

/// Reports what happened in a prepared run, except for its end.
pub(super) fn report(prepared: &PreparedRun, sink: &dyn EventSink) {
    let mut turn = 0;
    let mut calls: Vec<(std::sync::Arc<str>, std::sync::Arc<str>)> = Vec::new();
    for message in &prepared.messages {
        match message.role {
            Role::Assistant => {
                turn += 1;
                sink.event(AgentEvent::TurnStarted { turn, tools: 0 });
                report_response(message, prepared, sink);
                calls = message.calls().map(|call| (call.id.clone(), call.name.clone())).collect();
            }
            Role::Tool => {
                let Some(returned) = message.result() else { continue };
                let named = calls.iter().find(|(id, _)| *id == returned.call_id);
                sink.event(AgentEvent::ToolFinished {
                    id: returned.call_id.clone(),
                    name: named.map_or_else(|| "".into(), |(_, name)| name.clone()),
                    is_error: returned.output.is_error,
                    output: returned.output.raw.clone(),
                    millis: 0,
                });
            }
            Role::System | Role::User => {}
        }
    }
    for limit in &prepared.limits {
        sink.event(AgentEvent::LimitReached { limit: limit.clone() });
    }
}

fn report_response(message: &Message, prepared: &PreparedRun, sink: &dyn EventSink) {
    for block in &message.content {
        match &block.kind {
            BlockKind::Text(text) => sink.event(AgentEvent::ModelDelta(Delta::Text(text.clone()))),
            BlockKind::Thinking { text, .. } => sink.event(AgentEvent::ModelDelta(Delta::Thinking(text.clone()))),
            _ => {}
        }
    }
    let stop = match message.calls().next() {
        Some(_) => StopReason::ToolUse,
        None => prepared.stop_reason.clone().unwrap_or(StopReason::EndTurn),
    };
    let usage = message.usage.unwrap_or_default();
    sink.event(AgentEvent::ModelMessage { message: message.clone(), stop, usage });
    for call in message.calls() {
        let wharf_protocol::ToolCall { id, name, arguments } = call.clone();
        sink.event(AgentEvent::ToolStarted { id, name, arguments });
    }
}
