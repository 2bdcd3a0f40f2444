//! What a run prints at its end: the limits that it reached, hints, and what it used.

use std::path::Path;

use std::time::Duration;

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

/// Returns a duration in seconds, to a tenth.
pub(super) fn seconds(duration: Duration) -> String {
    let number = format!("{:.1}", duration.as_secs_f64());
    format!("{} s", number.strip_suffix(".0").unwrap_or(&number))
}

/// Returns a hint for a failed request to a model, `INTERFACE:NAME`.
pub(super) fn model_hint(model: &str, error: &ModelError) -> Option<&'static str> {
    match error.kind {
        ModelErrorKind::Auth => Some("check the API key, and whether it covers this model"),
        ModelErrorKind::Quota => {
            Some("the key is valid, but its account has no credit or quota left; check the plan and the billing")
        }
        // The Messages API adds its version to the URL itself.
        ModelErrorKind::WrongUrl if !model.starts_with("anthropic:") && !has_version(error.url.as_deref()) => {
            Some("does the URL need /v1? For example http://127.0.0.1:8000/v1")
        }
        ModelErrorKind::WrongUrl => Some("check the URL: it must be the base URL of the API"),
        ModelErrorKind::Invalid if error.status == Some(404) => Some("check the name of the model"),
        ModelErrorKind::Timeout => {
            Some("give the model more time with --first-byte-timeout SECONDS and --idle-timeout SECONDS")
        }
        ModelErrorKind::RateLimit | ModelErrorKind::Overloaded => Some("try again later, or use another model with -m"),
        ModelErrorKind::ContextTooLong => {
            Some("offer fewer tools (see their cost with `wharf context`), or shorten the prompt")
        }
        ModelErrorKind::Network => Some("check the URL and the network"),
        _ => None,
    }
}

/// Whether a part of a URL's path is a version, such as `v1` or `v1beta`.
fn has_version(url: Option<&str>) -> bool {
    let is_version = |part: &str| {
        let digit = part.strip_prefix('v').and_then(|rest| rest.chars().next());
        digit.is_some_and(|digit| digit.is_ascii_digit())
    };
    url.is_some_and(|url| url.split('/').skip(3).any(is_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_about_v1_is_for_urls_without_a_version() {
        let hint = |model: &str, url: &str| {
            let error = ModelError {
                url: Some(url.to_owned()),
                ..ModelError::new(ModelErrorKind::WrongUrl, "the response is a web page")
            };
            model_hint(model, &error).unwrap().contains("/v1")
        };
        assert!(hint("openai-endpoint:m", "http://127.0.0.1:8000"));
        assert!(hint("openai:m", "https://proxy.test/openai"));
        assert!(!hint("openai:m", "https://proxy.test/v1beta/openai"));
        assert!(!hint("anthropic:m", "https://proxy.test"));
    }

    #[test]
    fn durations_are_shown_to_a_tenth_of_a_second() {
        let shown = [4000, 2640, 120_000, 40].map(|millis| seconds(Duration::from_millis(millis)));
        assert_eq!(shown, ["4 s", "2.6 s", "120 s", "0 s"]);
    }
}
