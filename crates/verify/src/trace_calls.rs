//! The tool calls of a trace with their results.

use std::collections::{HashMap, VecDeque};

use wharf_agent::{TraceCall, TraceMessage};

/// A tool call of a trace.
pub(crate) struct TracedCall<'a> {
    pub(crate) call: &'a TraceCall,
    /// Index of the message with its result. `None` if the trace has none.
    pub(crate) result: Option<usize>,
}

/// Returns the calls of a trace in order. A model may use an id several times: a result belongs to the first call with its
/// id that has none yet.
pub(crate) fn traced_calls(messages: &[TraceMessage]) -> Vec<TracedCall<'_>> {
    let mut calls: Vec<TracedCall<'_>> = Vec::new();
    let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        for call in &message.tool_calls {
            open.entry(&call.id).or_default().push_back(calls.len());
            calls.push(TracedCall { call, result: None });
        }
        if let Some(result) = &message.tool_result
            && let Some(called) = open.get_mut(&*result.tool_use_id).and_then(VecDeque::pop_front)
        {
            calls[called].result = Some(index);
        }
    }
    calls
}
