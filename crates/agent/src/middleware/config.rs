//! What can be set about the layers, in the words of the model configurations people have.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_io::{Backoff, Jitter};

use crate::{Cache, Limits};

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Middleware {
    /// How far a run may go.
    #[serde(deserialize_with = "limits")]
    pub limits: Limits,
    /// How often a model is asked again.
    pub model_retry: ModelRetrySettings,
    /// How often a tool is called again.
    pub tool_retry: ToolRetrySettings,
    /// When history is condensed.
    pub summarization: Summarization,
    /// What is cached.
    pub prompt_caching: PromptCaching,
    /// How many calls in a row may be the same; any number if absent.
    pub repetition: LoopGuardSettings,
}

/// How often a model is asked again, and what then.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRetrySettings {
    /// How often, after the first time.
    pub max_retries: u32,
    /// How much longer every pause is than the one before.
    pub backoff_factor: f64,
    /// The first pause, in seconds.
    pub initial_delay: f64,
    /// The longest pause, in seconds.
    pub max_delay: f64,
    /// Whether pauses differ by chance, by a quarter at most.
    pub jitter: bool,
    /// What then.
    pub on_failure: OnModelFailure,
}

/// How often a tool is called again, and what then.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRetrySettings {
    /// How often, after the first time.
    pub max_retries: u32,
    /// How much longer every pause is than the one before.
    pub backoff_factor: f64,
    /// The first pause, in seconds.
    pub initial_delay: f64,
    /// The longest pause, in seconds.
    pub max_delay: f64,
    /// Whether pauses differ by chance, by a quarter at most.
    pub jitter: bool,
    /// What then.
    pub on_failure: OnToolFailure,
}

/// What becomes of a run whose model does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnModelFailure {
    /// It ends with what there is, and says why.
    #[default]
    Continue,
    /// It is an error, with what there is.
    Raise,
}

/// What becomes of a call without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnToolFailure {
    /// The model is told.
    #[default]
    ReturnMessage,
    /// The run ends with an error, with what there is.
    Raise,
}

/// When history is condensed. It is read and kept, and nothing is condensed yet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarization {
    /// Whether it is.
    pub enabled: bool,
    /// At which part of what the model takes.
    pub trigger_fraction: f64,
    /// At how many tokens, whatever the model takes.
    pub trigger_tokens: Option<u64>,
    /// How many messages stay as they are.
    pub keep_messages: usize,
    /// By which model.
    pub model: Option<String>,
}

/// What is cached.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptCaching {
    /// Whether anything is.
    pub enabled: bool,
    /// For how long.
    pub ttl: Cache,
    /// Not before there are so many messages.
    pub min_messages_to_cache: usize,
    /// What about models that have no such thing.
    pub unsupported_model_behavior: OnUnsupported,
}

/// What about models that cannot do what is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnsupported {
    /// A warning is given, once.
    #[default]
    Warn,
    /// Nothing.
    Ignore,
    /// The question fails.
    Raise,
}

/// How many calls in a row may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct LoopGuardSettings(pub Option<u32>);

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
        Self { max_retries: 2, backoff_factor: 2.0, initial_delay: 2.0, max_delay: 10.0, jitter: true, on_failure }
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

impl Default for PromptCaching {
    fn default() -> Self {
        let unsupported_model_behavior = OnUnsupported::Warn;
        Self { enabled: true, ttl: Cache::FiveMinutes, min_messages_to_cache: 0, unsupported_model_behavior }
    }
}

impl Default for LoopGuardSettings {
    fn default() -> Self {
        Self(Some(10))
    }
}

/// The limits in the words of model configurations.
fn limits<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Written {
        model_call_limit: u32,
        tool_call_limit: u32,
        exit_behavior: crate::ExitBehavior,
        token_limit: Option<u64>,
        cost_limit_usd: Option<f64>,
        time_limit: Option<f64>,
        per_tool_limit: BTreeMap<String, u32>,
    }
    impl Default for Written {
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
    let written = Written::deserialize(deserializer)?;
    let time = written.time_limit.map(Duration::try_from_secs_f64).transpose().map_err(serde::de::Error::custom)?;
    Ok(Limits {
        model_calls: written.model_call_limit,
        tool_calls: written.tool_call_limit,
        exit_behavior: written.exit_behavior,
        tokens: written.token_limit,
        cost_usd: written.cost_limit_usd,
        time,
        per_tool: written.per_tool_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitBehavior;

    #[test]
    fn what_is_not_set_is_as_documented() {
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
    fn the_guide_tells_what_holds_where_nothing_is_said() {
        let guide = include_str!("../../../../docs/running.md");
        let told = guide.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        assert_eq!(serde_json::from_str::<Middleware>(told).unwrap(), Middleware::default());
    }

    #[test]
    fn what_is_set_is_read_and_what_nobody_knows_is_refused() {
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
