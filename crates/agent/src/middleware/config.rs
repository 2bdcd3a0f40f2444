//! Settings of the middleware, with the keys of model files.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_io::{Backoff, Jitter};

use super::range::{at_least_one, at_least_one_or_null, fraction, not_negative, not_negative_or_null};
use super::retry_policy::RetryPolicy;
use crate::{Cache, Limits};

/// Settings of all middleware layers and of the limits, as in `agent_middleware` of a model file.
///
/// Missing keys have their defaults. Unknown keys are an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Middleware {
    /// Limits of a run. Pass them to [`Run::new`](crate::Run::new).
    #[serde(deserialize_with = "limits")]
    pub limits: Limits,
    /// Retries of model requests.
    pub model_retry: ModelRetrySettings,
    /// Retries of tool calls.
    pub tool_retry: ToolRetrySettings,
    /// Summarization of long conversations.
    pub summarization: Summarization,
    /// Search of tools, instead of offering many at once.
    #[serde(skip_serializing_if = "ToolSearch::is_default")]
    pub tool_search: ToolSearch,
    /// Prompt caching.
    #[serde(deserialize_with = "explicit_caching")]
    pub prompt_caching: PromptCaching,
    /// Maximum number of identical calls in a row. `null` means no limit.
    pub repetition: LoopGuardSettings,
}

/// Retries of model requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRetrySettings {
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
    /// Factor between two delays.
    #[serde(deserialize_with = "not_negative")]
    pub backoff_factor: f64,
    /// Delay before the first retry, in seconds.
    #[serde(deserialize_with = "not_negative")]
    pub initial_delay: f64,
    /// Maximum delay, in seconds.
    #[serde(deserialize_with = "not_negative")]
    pub max_delay: f64,
    /// Whether delays vary randomly by up to 25%.
    pub jitter: bool,
    /// Action when retries are exhausted.
    pub on_failure: OnModelFailure,
    /// Separate retries for each kind of error, instead of the settings above: `retry_policy` of a model file.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RetryPolicy>,
}

/// Retries of tool calls. Only calls that cannot have run, or are safe to repeat, are retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRetrySettings {
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
    /// Factor between two delays.
    #[serde(deserialize_with = "not_negative")]
    pub backoff_factor: f64,
    /// Delay before the first retry, in seconds.
    #[serde(deserialize_with = "not_negative")]
    pub initial_delay: f64,
    /// Maximum delay, in seconds.
    #[serde(deserialize_with = "not_negative")]
    pub max_delay: f64,
    /// Whether delays vary randomly by up to 25%.
    pub jitter: bool,
    /// Action when retries are exhausted.
    pub on_failure: OnToolFailure,
}

/// What happens to a run whose model request failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnModelFailure {
    /// The run ends with a partial result that contains the error.
    #[default]
    Continue,
    /// [`Agent::run`](crate::Agent::run) returns an error with the partial result.
    Raise,
}

/// What happens after a tool call failed without a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnToolFailure {
    /// The model reads the error.
    #[default]
    ReturnMessage,
    /// The run ends with an error and the partial result.
    Raise,
}

/// Settings for the summarization of long conversations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarization {
    /// Whether history is summarized.
    pub enabled: bool,
    /// Fraction of the model's context window that triggers summarization. A window that is unknown counts as 100,000
    /// tokens.
    #[serde(deserialize_with = "fraction")]
    pub trigger_fraction: f64,
    /// Number of tokens that triggers summarization, instead of a fraction of the context window.
    #[serde(deserialize_with = "at_least_one_or_null")]
    pub trigger_tokens: Option<u64>,
    /// Least number of recent messages that are not summarized.
    #[serde(deserialize_with = "at_least_one")]
    pub keep_messages: u64,
    /// Only `null`: the model of the run summarizes.
    #[serde(deserialize_with = "own_model")]
    pub model: Option<String>,
}

/// Settings for many tools: above a number of tokens, the model has to search for most of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSearch {
    /// Whether tools may be deferred.
    pub enabled: bool,
    /// Fraction of the model's context window above which tools are deferred. A window that is unknown counts as 100,000
    /// tokens.
    #[serde(deserialize_with = "fraction")]
    pub trigger_fraction: f64,
    /// Number of tokens above which tools are deferred, instead of a fraction of the context window.
    #[serde(deserialize_with = "at_least_one_or_null")]
    pub trigger_tokens: Option<u64>,
}

impl ToolSearch {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings of prompt caching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptCaching {
    /// Whether caching is requested.
    pub enabled: bool,
    /// Lifetime of cached prefixes.
    pub ttl: Cache,
    /// Minimum number of messages for caching.
    pub min_messages_to_cache: usize,
    /// Action for models without prompt caching.
    pub unsupported_model_behavior: OnUnsupported,
    /// Whether these settings were written down. If not, nothing is said about providers that cache without a request.
    #[serde(skip)]
    pub is_explicit: bool,
}

/// Action for models that do not support a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnsupported {
    /// Warns once.
    #[default]
    Warn,
    /// Continues without the feature.
    Ignore,
    /// Fails the request.
    Raise,
}

/// Maximum number of identical calls in a row. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LoopGuardSettings(#[serde(deserialize_with = "at_least_one_or_null")] pub Option<u32>);

impl ModelRetrySettings {
    pub(super) fn backoff(&self) -> Backoff {
        backoff(self.initial_delay, self.backoff_factor, self.max_delay, self.jitter)
    }
}

impl ToolRetrySettings {
    pub(super) fn backoff(&self) -> Backoff {
        backoff(self.initial_delay, self.backoff_factor, self.max_delay, self.jitter)
    }
}

fn backoff(initial: f64, factor: f64, max: f64, jitter: bool) -> Backoff {
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let jitter = if jitter { Jitter::AROUND } else { Jitter::NONE };
    Backoff { initial: seconds(initial), factor, max: seconds(max), jitter }
}

impl Default for ModelRetrySettings {
    fn default() -> Self {
        let on_failure = OnModelFailure::Continue;
        Self {
            max_retries: 2,
            backoff_factor: 2.0,
            initial_delay: 2.0,
            max_delay: 10.0,
            jitter: true,
            on_failure,
            policy: None,
        }
    }
}

impl Default for ToolRetrySettings {
    fn default() -> Self {
        let on_failure = OnToolFailure::ReturnMessage;
        Self { max_retries: 3, backoff_factor: 2.0, initial_delay: 1.0, max_delay: 10.0, jitter: true, on_failure }
    }
}

impl Default for Summarization {
    fn default() -> Self {
        Self { enabled: true, trigger_fraction: 0.8, trigger_tokens: None, keep_messages: 20, model: None }
    }
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self { enabled: true, trigger_fraction: 0.1, trigger_tokens: None }
    }
}

impl Default for PromptCaching {
    fn default() -> Self {
        let unsupported_model_behavior = OnUnsupported::Warn;
        let (ttl, is_explicit) = (Cache::FiveMinutes, false);
        Self { enabled: true, ttl, min_messages_to_cache: 0, unsupported_model_behavior, is_explicit }
    }
}

impl Default for LoopGuardSettings {
    fn default() -> Self {
        Self(Some(10))
    }
}

/// Reads settings of prompt caching, and remembers that they were written down.
fn explicit_caching<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PromptCaching, D::Error> {
    Ok(PromptCaching { is_explicit: true, ..PromptCaching::deserialize(deserializer)? })
}

/// Rejects the name of another model for summaries.
fn own_model<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(_) => Err(serde::de::Error::custom("expected null: the model of the run writes its own summaries")),
    }
}

/// Reads limits with the keys of model files.
fn limits<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct LimitSettings {
        #[serde(deserialize_with = "at_least_one")]
        model_call_limit: u32,
        tool_call_limit: u32,
        exit_behavior: crate::ExitBehavior,
        #[serde(deserialize_with = "at_least_one_or_null")]
        token_limit: Option<u64>,
        #[serde(deserialize_with = "not_negative_or_null")]
        cost_limit_usd: Option<f64>,
        #[serde(deserialize_with = "not_negative_or_null")]
        time_limit: Option<f64>,
        per_tool_limit: BTreeMap<String, u32>,
    }
    impl Default for LimitSettings {
        fn default() -> Self {
            let Limits { model_calls, tool_calls, exit_behavior, .. } = Limits::default();
            Self {
                model_call_limit: model_calls,
                tool_call_limit: tool_calls,
                exit_behavior,
                token_limit: None,
                cost_limit_usd: None,
                time_limit: None,
                per_tool_limit: BTreeMap::new(),
            }
        }
    }
    let settings = LimitSettings::deserialize(deserializer)?;
    let time = settings.time_limit.map(Duration::try_from_secs_f64).transpose().map_err(serde::de::Error::custom)?;
    Ok(Limits {
        model_calls: settings.model_call_limit,
        tool_calls: settings.tool_call_limit,
        exit_behavior: settings.exit_behavior,
        tokens: settings.token_limit,
        cost_usd: settings.cost_limit_usd,
        time,
        per_tool: settings.per_tool_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitBehavior;

    #[test]
    fn defaults_are_as_documented() {
        let Middleware { limits, model_retry, tool_retry, summarization, prompt_caching, .. } =
            serde_json::from_str("{}").unwrap();
        assert_eq!((limits.model_calls, limits.tool_calls, limits.exit_behavior), (25, 50, ExitBehavior::End));
        assert_eq!((model_retry.max_retries, tool_retry.max_retries), (2, 3));
        assert_eq!(
            (model_retry.on_failure, tool_retry.on_failure),
            (OnModelFailure::Continue, OnToolFailure::ReturnMessage)
        );
        assert_eq!((summarization.enabled, summarization.keep_messages), (true, 20));
        assert!((summarization.trigger_fraction - 0.8).abs() < f64::EPSILON);
        assert_eq!((prompt_caching.enabled, prompt_caching.ttl), (true, Cache::FiveMinutes));
        assert_eq!(prompt_caching.unsupported_model_behavior, OnUnsupported::Warn);
    }

    #[test]
    fn the_guide_shows_the_defaults() {
        let guide = include_str!("../../../../docs/running.md");
        let defaults = guide.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let mut documented: Middleware = serde_json::from_str(defaults).unwrap();
        // Only that they are written down distinguishes them.
        assert!(std::mem::take(&mut documented.prompt_caching.is_explicit));
        assert_eq!(documented, Middleware::default());
    }

    #[test]
    fn settings_are_read_and_unknown_keys_are_rejected() {
        let set: Middleware = serde_json::from_str(
            r#"{"limits": {"tool_call_limit": 3, "exit_behavior": "continue", "token_limit": 9, "cost_limit_usd": 0.5,
                "time_limit": 1.5, "per_tool_limit": {"mcp__a__b": 1}}, "prompt_caching": {"ttl": "1h"},
                "model_retry": {"on_failure": "raise"}, "repetition": null}"#,
        )
        .unwrap();
        assert_eq!((set.limits.model_calls, set.limits.tool_calls), (25, 3));
        assert_eq!((set.limits.tokens, set.limits.cost_usd), (Some(9), Some(0.5)));
        assert_eq!((set.limits.time, set.limits.per_tool["mcp__a__b"]), (Some(Duration::from_millis(1500)), 1));
        assert_eq!((set.limits.exit_behavior, set.prompt_caching.ttl), (ExitBehavior::Continue, Cache::Hour));
        assert_eq!((set.model_retry.on_failure, set.repetition.0), (OnModelFailure::Raise, None));
        assert!(serde_json::from_str::<Middleware>(r#"{"limits": {"tool_limit": 3}}"#).is_err());
    }

    #[test]
    fn values_out_of_range_are_errors() {
        let error = |text: &str| {
            let error = serde_json::from_str::<Middleware>(text).unwrap_err().to_string();
            error.split(" at line").next().unwrap_or_default().to_owned()
        };
        let errors = [
            r#"{"summarization": {"keep_messages": 0}}"#,
            r#"{"summarization": {"trigger_fraction": 7.5}}"#,
            r#"{"summarization": {"trigger_fraction": -0.1}}"#,
            r#"{"summarization": {"trigger_tokens": 0}}"#,
            r#"{"model_retry": {"initial_delay": -1}}"#,
            r#"{"tool_retry": {"backoff_factor": -0.5}}"#,
            r#"{"limits": {"model_call_limit": 0}}"#,
            r#"{"limits": {"cost_limit_usd": -1}}"#,
            r#"{"limits": {"time_limit": -1}}"#,
            r#"{"repetition": 0}"#,
        ]
        .map(error);
        insta::assert_snapshot!(errors.join("\n"), @"
        invalid value 0: expected a whole number of at least 1
        invalid value 7.5: expected a number from 0 to 1
        invalid value -0.1: expected a number from 0 to 1
        invalid value 0: expected a whole number of at least 1, or null
        invalid value -1: expected a number of at least 0
        invalid value -0.5: expected a number of at least 0
        invalid value 0: expected a whole number of at least 1
        invalid value -1: expected a number of at least 0, or null
        invalid value -1: expected a number of at least 0, or null
        invalid value 0: expected a whole number of at least 1, or null
        ");
        let edges = r#"{"summarization": {"keep_messages": 1, "trigger_fraction": 1, "trigger_tokens": 1},
            "limits": {"model_call_limit": 1, "tool_call_limit": 0, "cost_limit_usd": 0}, "repetition": 1}"#;
        assert!(serde_json::from_str::<Middleware>(edges).is_ok());
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ_by_a_quarter() {
        let backoff = ModelRetrySettings::default().backoff();
        let pauses: Vec<u128> = (1..=5).map(|failures| backoff.delay_at(failures, 0.5).as_millis()).collect();
        assert_eq!(pauses, [2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!([0.0, 1.0].map(|fraction| backoff.delay_at(1, fraction).as_millis()), [1500, 2500]);
        let steady = ModelRetrySettings { jitter: false, ..ModelRetrySettings::default() };
        assert_eq!(steady.backoff().delay_at(1, 0.0).as_millis(), 2000);
        // However often it failed, and whatever was written.
        assert_eq!(backoff.delay_at(u32::MAX, 0.5).as_millis(), 10_000);
    }
}
