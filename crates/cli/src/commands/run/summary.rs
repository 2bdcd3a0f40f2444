//! What a run prints at its end: the limits that it reached, hints, and what it used.

use std::path::Path;

use wharf::Usage;
use wharf::agent::{AgentResult, Limit, ModelError, ModelErrorKind};

use crate::term;

/// Prints the limits that blocked something, and how to raise the last.
pub(super) fn report_limits(result: &AgentResult, checkpoint: Option<&Path>) {
    let Some((last, before)) = result.limits.split_last() else { return };
    for limit in before {
        term::error(&format!("{limit} reached"), &[], None);
    }
    let raise = match last {
        Limit::PerTool { .. } => "raise it with `per_tool_limit` in the model's settings",
        _ => "raise it with --max-turns, --max-tool-calls, --max-tokens, --max-cost or --max-time",
    };
    let hint = match checkpoint {
        Some(file) if result.final_response.is_none() => format!("{raise}, and --resume {}", file.display()),
        _ => raise.to_owned(),
    };
    term::error(&format!("{last} reached"), &[], Some(&hint));
}

/// Summarizes turns, calls, limits, tokens and cost.
pub(super) fn summary(result: &AgentResult) -> String {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cost_usd, .. } = result.usage;
    let mut parts = vec![term::counted(usize::try_from(result.turns).unwrap_or_default(), "turn")];
    if result.metrics.tool_calls > 0 {
        parts.push(term::counted(result.metrics.tool_calls, "tool call"));
    }
    if result.metrics.blocked_tool_calls > 0 {
        parts.push(format!("{} blocked", result.metrics.blocked_tool_calls));
    }
    if result.limit_reached {
        parts.push("limit reached".to_owned());
    }
    if result.usage.total_tokens() > 0 {
        let cached = if cache_read_tokens > 0 { format!(" ({cache_read_tokens} cached)") } else { String::new() };
        parts.push(format!("{input_tokens} tokens in{cached}, {output_tokens} out"));
    }
    parts.extend(cost_usd.map(|cost| format!("${cost:.4}")));
    parts.join(" · ")
}

/// Returns a hint for a failed model request.
pub(super) fn model_hint(error: &ModelError) -> Option<&'static str> {
    match error.kind {
        ModelErrorKind::Auth => Some("check the API key, and whether it covers this model"),
        ModelErrorKind::RateLimit | ModelErrorKind::Overloaded => Some("try again later, or use another model with -m"),
        ModelErrorKind::ContextTooLong => {
            Some("offer fewer tools (see their cost with `wharf context`), or shorten the prompt")
        }
        ModelErrorKind::Network => Some("check the URL and the network"),
        _ => None,
    }
}
