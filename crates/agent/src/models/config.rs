//! Model files: models with their settings, in YAML or JSON.
//!
//! ```yaml
//! - id: agent-claude
//!   model_name: claude-sonnet-4-5-20250929
//!   model_provider: anthropic
//!   interface: langchain
//!   agent_middleware:
//!     limits: {tool_call_limit: 10}
//! ```
//!
//! The keys are those of existing benchmarks. A model file also names the model's tool servers, under keys that this
//! crate does not know: [`ModelConfig::other_keys`] holds them for the caller. A model with tools is an agent. A model
//! without tools answers directly, and the settings for agents do not apply to it.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::Secret;

use super::{Dialect, Interface, InvalidModel, ModelSpec};
use crate::middleware::{Middleware, RetryPolicy};
use crate::{Limits, ModelOptions, yaml};

/// The providers that `interface: langchain` supports.
const LANGCHAIN_PROVIDERS: [&str; 4] = ["anthropic", "openai", "openrouter", "ollama"];

/// One model of a model file. [`ModelConfig::parse`] reads it and rejects unknown keys.
#[derive(Clone, PartialEq, Deserialize)]
pub struct ModelConfig {
    /// Name of the model in the file. Defaults to `INTERFACE:MODEL_NAME`; see [`ModelConfig::label`].
    #[serde(default)]
    pub id: Option<String>,
    /// The model's name at its provider, or a file path for scripted and manual models.
    pub model_name: String,
    /// The provider, for `interface: langchain`.
    #[serde(default)]
    pub model_provider: Option<String>,
    /// Name of an [`Interface`], or `langchain`.
    pub interface: String,
    /// Sampling temperature. `null` omits the parameter from requests.
    #[serde(default = "default_temperature")]
    pub temperature: Option<f64>,
    /// Maximum length of a response, in tokens.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u32,
    /// System prompt of every run.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Number of tokens at which the conversation is summarized. Replaces the fraction of the context window.
    #[serde(default)]
    pub max_context_tokens: Option<u64>,
    /// Middleware settings. They apply to agents only.
    #[serde(default)]
    pub agent_middleware: Option<Middleware>,
    /// Time limit of an agent run, in seconds. `null` means no limit.
    #[serde(default = "default_agent_timeout")]
    pub agent_timeout: Option<f64>,
    /// Timeout of one model request, in seconds.
    #[serde(default)]
    pub request_timeout: Option<f64>,
    /// Retries of model requests for each kind of error. Replaces the numbers of `model_retry`.
    #[serde(default)]
    pub retry_policy: Option<RetryPolicy>,
    /// Base URL of a Chat Completions endpoint.
    #[serde(default)]
    pub endpoint_base_url: Option<String>,
    /// API key for the Chat Completions endpoint, or `${NAME}` to read it from an environment variable.
    #[serde(default)]
    pub endpoint_api_key: Option<String>,
    /// Base URL of the Messages API, if it is not Anthropic's.
    #[serde(default)]
    pub anthropic_base_url: Option<String>,
    /// API key for the Messages API, or `${NAME}` to read it from an environment variable.
    #[serde(default)]
    pub anthropic_api_key: Option<String>,
    /// Whether tools are described in the prompt, for models without tool support.
    #[serde(default)]
    pub emulate_tools: bool,
    /// The keys that the caller of [`ModelConfig::parse`] knows and this crate does not, with their values.
    #[serde(skip)]
    pub other_keys: Map<String, Value>,
    /// Whether the model has tools; see [`ModelConfig::into_agent`].
    #[serde(skip)]
    is_agent: bool,
}

/// An invalid model file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfig(pub String);

#[expect(clippy::unnecessary_wraps, reason = "`null` in the file means `None`")]
fn default_temperature() -> Option<f64> {
    Some(0.1)
}

fn default_max_tokens() -> u32 {
    ModelOptions::default().max_tokens
}

#[expect(clippy::unnecessary_wraps, reason = "`null` in the file means `None`")]
fn default_agent_timeout() -> Option<f64> {
    Some(180.0)
}

/// A file with the single key `models`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelList {
    models: Vec<ModelConfig>,
}

impl ModelConfig {
    /// The keys of a model file that this crate reads.
    pub const KEYS: [&'static str; 17] = [
        "id",
        "model_name",
        "model_provider",
        "interface",
        "temperature",
        "max_tokens",
        "system_prompt",
        "max_context_tokens",
        "agent_middleware",
        "agent_timeout",
        "request_timeout",
        "retry_policy",
        "endpoint_base_url",
        "endpoint_api_key",
        "anthropic_base_url",
        "anthropic_api_key",
        "emulate_tools",
    ];

    /// Reads the models of a YAML or JSON text: a list of models, an object with the list under `models`, or one model.
    ///
    /// `known_elsewhere` lists the keys that the caller reads. Their values are returned in [`ModelConfig::other_keys`].
    ///
    /// # Errors
    /// Returns an error if the text is not a model file, if a key is neither in [`ModelConfig::KEYS`] nor in
    /// `known_elsewhere`, if a model is invalid, or if two models have the same label. The message names the model and
    /// the reason.
    pub fn parse(text: &str, known_elsewhere: &[&str]) -> Result<Vec<Self>, InvalidConfig> {
        let invalid = |error: yaml::Error| InvalidConfig(error.to_string());
        // The shape comes first. It decides the type to deserialize, so that errors are about the shape in the file.
        let (mut models, values) = match yaml::from_str::<Value>(text).map_err(invalid)? {
            Value::Object(mut fields) if fields.contains_key("models") => {
                let models = yaml::from_str::<ModelList>(text).map_err(invalid)?.models;
                (models, fields.remove("models").unwrap_or_default())
            }
            value @ Value::Object(_) => {
                let model = yaml::from_str(text).map_err(invalid)?;
                (vec![model], Value::Array(vec![value]))
            }
            value => (yaml::from_str::<Vec<Self>>(text).map_err(invalid)?, value),
        };
        if models.is_empty() {
            return Err(InvalidConfig("the file contains no models".to_owned()));
        }
        if let Value::Array(values) = values {
            for (model, value) in models.iter_mut().zip(values) {
                model.other_keys = other_keys(value);
            }
        }
        for (place, model) in models.iter().enumerate() {
            model.check_keys(text, known_elsewhere)?;
            model.check()?;
            let label = model.label();
            if models[..place].iter().any(|other| other.label() == label) {
                return Err(InvalidConfig(format!("duplicate model `{label}`: give each model its own `id`")));
            }
        }
        Ok(models)
    }

    /// Returns the `id`, or `INTERFACE:MODEL_NAME` without one.
    pub fn label(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("{}:{}", self.interface, self.model_name))
    }

    /// Returns the interface, name and base URL of the model.
    ///
    /// # Errors
    /// Returns an error if the interface or the provider is unknown, or if an endpoint has no base URL.
    pub fn spec(&self) -> Result<ModelSpec, InvalidModel> {
        let interface = self.known_interface()?;
        let base_url = match interface {
            // `anthropic` replaces an unavailable `claude-code`, at the same URL.
            Interface::Anthropic | Interface::ClaudeCode => self.anthropic_base_url.clone(),
            Interface::Chat(_) => self.endpoint_base_url.clone(),
            Interface::Scripted | Interface::Manual => None,
        };
        if (interface, &base_url) == (Interface::Chat(Dialect::Endpoint), &None) {
            return Err(InvalidModel {
                reason: format!("model `{}` has no base URL", self.label()),
                hint: "set its `endpoint_base_url`".to_owned(),
            });
        }
        Ok(ModelSpec { interface, name: self.model_name.clone(), base_url })
    }

    /// Returns the request options.
    pub fn options(&self) -> ModelOptions {
        ModelOptions { max_tokens: self.max_tokens, temperature: self.temperature, ..ModelOptions::default() }
    }

    /// Returns the limits of a run. A model that is not an agent has the default limits.
    pub fn limits(&self) -> Limits {
        if !self.is_agent {
            return Limits::default();
        }
        let limits = self.middleware().limits;
        let times = [limits.time, self.agent_timeout.and_then(seconds)];
        Limits { time: times.into_iter().flatten().min(), ..limits }
    }

    /// Returns the middleware settings. A model that is not an agent has the default settings, except for its
    /// `retry_policy`.
    pub fn middleware(&self) -> Middleware {
        let mut middleware = match &self.agent_middleware {
            Some(middleware) if self.is_agent => middleware.clone(),
            _ => Middleware::default(),
        };
        middleware.model_retry.policy.clone_from(&self.retry_policy);
        let trigger = &mut middleware.summarization.trigger_tokens;
        *trigger = [*trigger, self.max_context_tokens].into_iter().flatten().min();
        middleware
    }

    /// Returns the timeout of one model request.
    pub fn attempt_timeout(&self) -> Option<Duration> {
        self.request_timeout.and_then(seconds)
    }

    /// Marks the model as an agent, so that the settings for agents apply. Call it if the model has tools.
    #[must_use]
    pub fn into_agent(mut self) -> Self {
        self.is_agent = true;
        self
    }

    /// Returns the environment variable that the file refers to for the API key, if it is not set.
    pub fn unset_key_variable<'a>(&'a self, lookup: &dyn Fn(&str) -> Option<String>) -> Option<&'a str> {
        self.key_variable().filter(|name| lookup(name).is_none())
    }

    /// Returns the API keys of the file, and of the variables that it refers to, for redaction.
    pub fn secrets(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Vec<Secret> {
        let keys = [&self.endpoint_api_key, &self.anthropic_api_key].into_iter().flatten();
        let keys = keys.filter_map(|key| referenced_variable(key).map_or_else(|| Some(key.clone()), lookup));
        keys.map(Secret::from).collect()
    }

    /// Returns the environment variable that the file reads for the API key.
    pub(super) fn key_variable(&self) -> Option<&str> {
        self.api_key().and_then(referenced_variable)
    }

    /// Returns the key of the file for this interface, as written.
    pub(super) fn api_key(&self) -> Option<&str> {
        match self.known_interface().ok()? {
            Interface::Anthropic | Interface::ClaudeCode => self.anthropic_api_key.as_deref(),
            Interface::Chat(_) => self.endpoint_api_key.as_deref(),
            Interface::Scripted | Interface::Manual => None,
        }
    }

    pub(super) fn known_interface(&self) -> Result<Interface, InvalidModel> {
        // `langchain` selects the interface by provider.
        if self.interface == "langchain" {
            let provider = self.model_provider.as_deref().unwrap_or_default();
            let known = LANGCHAIN_PROVIDERS.contains(&provider).then(|| Interface::named(provider)).flatten();
            return known.ok_or_else(|| InvalidModel {
                reason: format!("unknown provider `{provider}` of model `{}`", self.label()),
                hint: format!("set `model_provider` to one of {}", LANGCHAIN_PROVIDERS.join(", ")),
            });
        }
        Interface::named(&self.interface).ok_or_else(|| {
            let known = Interface::ALL.map(Interface::as_str).join(", ");
            InvalidModel {
                reason: format!("unknown interface `{}` of model `{}`", self.interface, self.label()),
                hint: format!("expected {known}, or langchain with a `model_provider`"),
            }
        })
    }

    fn check_keys(&self, text: &str, known_elsewhere: &[&str]) -> Result<(), InvalidConfig> {
        let is_known = |key: &&String| known_elsewhere.contains(&key.as_str());
        let Some(key) = self.other_keys.keys().find(|key| !is_known(key)) else { return Ok(()) };
        let line = yaml::line_of_key(text, "models", key).map(|line| format!(" at line {line}")).unwrap_or_default();
        let known: Vec<&str> = Self::KEYS.iter().chain(known_elsewhere).copied().collect();
        let label = self.label();
        let known = known.join(", ");
        Err(InvalidConfig(format!("unknown key `{key}` of model `{label}`{line}: expected one of {known}")))
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        if self.model_name.trim().is_empty() {
            return Err(InvalidConfig(format!("model `{}` has an empty `model_name`", self.label())));
        }
        self.spec().map_err(|error| InvalidConfig(format!("{error}: {}", error.hint)))?;
        if let Some(reason) = self.retry_policy.as_ref().and_then(RetryPolicy::contradiction) {
            let label = self.label();
            return Err(InvalidConfig(format!("invalid `timeout_escalation` of model `{label}`: {reason}")));
        }
        if self.max_context_tokens == Some(0) {
            let label = self.label();
            return Err(InvalidConfig(format!("invalid `max_context_tokens` of model `{label}`: expected at least 1")));
        }
        for (key, time) in [("agent_timeout", self.agent_timeout), ("request_timeout", self.request_timeout)] {
            if time.is_some_and(|time| seconds(time).is_none_or(|time| time.is_zero())) {
                let label = self.label();
                return Err(InvalidConfig(format!(
                    "invalid `{key}` of model `{label}`: expected a number of seconds greater than 0"
                )));
            }
        }
        Ok(())
    }
}

/// Removes the keys of [`ModelConfig`] from a model's fields.
fn other_keys(model: Value) -> Map<String, Value> {
    match model {
        Value::Object(fields) => {
            fields.into_iter().filter(|(key, _)| !ModelConfig::KEYS.contains(&key.as_str())).collect()
        }
        _ => Map::new(),
    }
}

/// Returns `NAME` of `${NAME}`.
fn referenced_variable(text: &str) -> Option<&str> {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Omits the API keys.
impl fmt::Debug for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, model_name, model_provider, interface, .. } = self;
        let mut debug = f.debug_struct("ModelConfig");
        debug.field("id", id).field("model_name", model_name).field("model_provider", model_provider);
        debug.field("interface", interface).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::Error as FieldError;
    use serde::forward_to_deserialize_any;

    use serde::de::{Deserializer, Visitor};

    use super::*;
    use crate::ExitBehavior;
    use crate::middleware::OnModelFailure;

    fn one(text: &str) -> ModelConfig {
        ModelConfig::parse(text, &["servers"]).unwrap().remove(0)
    }

    fn error(text: &str) -> String {
        ModelConfig::parse(text, &["servers"]).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_example_is_an_agent_with_the_documented_defaults() {
        let config = one(r#"{"id": "agent-claude", "model_name": "claude-sonnet-4-5-20250929",
            "model_provider": "anthropic", "interface": "langchain", "servers": {
                "biocontext": "https://mcp.biocontext.ai/mcp/", "web_search": "https://search-server.example.com/mcp/"}}"#);
        assert_eq!(config.spec().unwrap().to_string(), "anthropic:claude-sonnet-4-5-20250929");
        let names: Vec<&str> = config.other_keys["servers"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((config.label().as_str(), names), ("agent-claude", vec!["biocontext", "web_search"]));
        let config = config.into_agent();
        let ModelOptions { max_tokens, temperature, .. } = config.options();
        assert_eq!((max_tokens, temperature), (16_384, Some(0.1)));
        let Limits { model_calls, tool_calls, exit_behavior, time, .. } = config.limits();
        assert_eq!((model_calls, tool_calls, exit_behavior), (25, 50, ExitBehavior::End));
        assert_eq!((time, config.attempt_timeout()), (Some(Duration::from_secs(180)), None));
    }

    #[test]
    fn the_guide_documents_every_key() {
        let guide = include_str!("../../../../docs/running.md");
        let missing: Vec<&str> =
            ModelConfig::KEYS.into_iter().filter(|key| !guide.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/running.md does not document {missing:?}");
    }

    /// Fails with the field names of the struct that is deserialized.
    struct FieldNames;

    impl<'de> Deserializer<'de> for FieldNames {
        type Error = FieldError;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldError> {
            Err(serde::de::Error::custom("not a struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, FieldError> {
            Err(serde::de::Error::custom(fields.join(" ")))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    #[test]
    fn the_listed_keys_are_the_keys_that_are_read() {
        let fields = ModelConfig::deserialize(FieldNames).unwrap_err().to_string();
        assert_eq!(fields, ModelConfig::KEYS.join(" "));
    }

    #[test]
    fn agent_settings_apply_to_agents_only() {
        let plain = one("model_name: m\ninterface: ollama\nagent_timeout: 7\nrequest_timeout: 2.5\n\
             agent_middleware: {limits: {model_call_limit: 3}, model_retry: {max_retries: 9}}\n");
        assert_eq!((plain.limits(), plain.middleware()), (Limits::default(), Middleware::default()));
        assert_eq!(plain.attempt_timeout(), Some(Duration::from_millis(2500)));
        let agent = plain.into_agent();
        assert_eq!((agent.limits().model_calls, agent.limits().time), (3, Some(Duration::from_secs(7))));
        assert_eq!(
            (agent.middleware().model_retry.max_retries, agent.attempt_timeout()),
            (9, Some(Duration::from_millis(2500)))
        );
    }

    #[test]
    fn a_retry_policy_applies_to_every_model_and_is_checked() {
        let config = one("model_name: m\ninterface: ollama\nretry_policy:\n  timeout: {max_attempts: 1}\n  \
             timeout_escalation: {strategy: additive, increment: 5}\n");
        let policy = config.middleware().model_retry.policy.unwrap();
        assert_eq!((policy.timeout.max_attempts, policy.rate_limit.max_attempts), (1, 5));
        let agent = one("{model_name: m, interface: ollama, retry_policy: {}, agent_middleware: \
             {model_retry: {on_failure: raise}}}");
        let retry = agent.into_agent().middleware().model_retry;
        assert_eq!((retry.policy, retry.on_failure), (Some(RetryPolicy::default()), OnModelFailure::Raise));
        let with = |policy: &str| error(&format!("{{model_name: m, interface: ollama, retry_policy: {policy}}}"));
        let unknown = with("{timeout: {max_retries: 3}}");
        assert!(unknown.contains("unknown field `max_retries`, expected one of `max_attempts`"), "{unknown}");
        assert!(
            with("{ratelimit: {}}").contains("unknown field `ratelimit`, expected one of"),
            "{}",
            with("{ratelimit: {}}")
        );
        assert!(
            with("{timeout: {backoff_multiplier: 0.5}}").contains("invalid value 0.5: expected a number of at least 1")
        );
        assert!(with("{timeout: {backoff_min: -1}}").contains("invalid value -1"));
        let linear = with("{timeout_escalation: {strategy: linear}}");
        assert_eq!(linear, "invalid `timeout_escalation` of model `ollama:m`: `linear` needs a `max_timeout`");
    }

    #[test]
    fn values_out_of_range_are_reported_with_their_line() {
        let error =
            error("model_name: m\ninterface: ollama\nagent_middleware:\n  summarization:\n    keep_messages: 0\n");
        assert!(error.contains("expected a whole number of at least 1") && error.contains("line 5"), "{error}");
    }

    #[test]
    fn the_smaller_number_of_tokens_triggers_a_summary() {
        let trigger = |keys: &str| {
            let config = one(&format!("model_name: m\ninterface: ollama\n{keys}")).into_agent();
            config.middleware().summarization.trigger_tokens
        };
        assert_eq!(trigger(""), None);
        assert_eq!(trigger("max_context_tokens: 9000"), Some(9_000));
        let both = "max_context_tokens: 9000\nagent_middleware: {summarization: {trigger_tokens: 5000}}";
        assert_eq!(trigger(both), Some(5_000));
        let error = |keys: &str| error(&format!("model_name: m\ninterface: ollama\n{keys}"));
        let zero = error("max_context_tokens: 0");
        assert_eq!(zero, "invalid `max_context_tokens` of model `ollama:m`: expected at least 1");
        let other = error("agent_middleware: {summarization: {model: gpt-5}}");
        assert!(other.contains("expected null: the model of the run writes its own summaries"), "{other}");
    }

    #[test]
    fn a_model_can_set_its_url_and_key() {
        let config = one(
            "model_name: qwen\ninterface: openai_endpoint\nendpoint_base_url: http://h/v1\nendpoint_api_key: ${MINE}",
        );
        assert_eq!(config.spec().unwrap().to_string(), "openai-endpoint:http://h/v1#qwen");
        let set = |name: &str| (name == "MINE").then(|| "made-up".to_owned());
        assert_eq!(config.variable("OPENAI_ENDPOINT_API_KEY", &set).as_deref(), Some("made-up"));
        assert_eq!(config.variable("OPENAI_API_KEY", &set), None);
        // The key of another variable is not sent to this URL.
        let unset = |_: &str| None;
        assert_eq!(config.variable("OPENAI_ENDPOINT_API_KEY", &unset).as_deref(), Some(""));
        assert_eq!((config.unset_key_variable(&unset), config.unset_key_variable(&set)), (Some("MINE"), None));
        assert_eq!(config.secrets(&set)[0].expose(), "made-up");
        let driven =
            one("{model_name: c, interface: claude_agent_sdk, anthropic_api_key: k, anthropic_base_url: http://h}");
        assert_eq!(driven.spec().unwrap().base_url.as_deref(), Some("http://h"));
        assert_eq!(driven.variable("ANTHROPIC_API_KEY", &set).as_deref(), Some("k"));
        let claude = one("{model_name: c, interface: claude_tool, anthropic_api_key: k, anthropic_base_url: http://h}");
        assert_eq!(claude.variable("ANTHROPIC_API_KEY", &set).as_deref(), Some("k"));
        assert_eq!(claude.spec().unwrap().base_url.as_deref(), Some("http://h"));
        assert!(!format!("{claude:?}").contains("anthropic_api_key"));
    }

    #[test]
    fn a_file_is_a_list_an_object_with_models_or_one_model() {
        let model = |id: &str| format!("{{id: {id}, model_name: m, interface: ollama}}");
        let labels =
            |text: &str| ModelConfig::parse(text, &[]).unwrap().iter().map(ModelConfig::label).collect::<Vec<_>>();
        assert_eq!(labels(&format!("[{}, {}]", model("a"), model("b"))), ["a", "b"]);
        assert_eq!(labels(&format!("models: [{}]", model("a"))), ["a"]);
        assert_eq!(labels("{model_name: m, interface: ollama}"), ["ollama:m"]);
        assert_eq!(labels("- &a {id: a, model_name: m, interface: ollama}\n- {<<: *a, id: b}\n"), ["a", "b"]);
    }

    #[test]
    fn errors_name_the_model_and_the_key() {
        let errors = [
            "[]",
            "{model_name: ' ', interface: ollama}",
            "{model_name: m, interface: telepathy}",
            "{model_name: m, interface: langchain, model_provider: acme}",
            "{model_name: m, interface: openai_endpoint}",
            "{model_name: m, interface: ollama, agent_timeout: 0}",
            "[{model_name: m, interface: ollama}, {model_name: m, interface: ollama}]",
        ]
        .map(error);
        insta::assert_snapshot!(errors.join("\n"), @"
        the file contains no models
        model `ollama: ` has an empty `model_name`
        unknown interface `telepathy` of model `telepathy:m`: expected anthropic, openai, openrouter, openai-endpoint, ollama, scripted, manual, claude-code, or langchain with a `model_provider`
        unknown provider `acme` of model `langchain:m`: set `model_provider` to one of anthropic, openai, openrouter, ollama
        model `openai_endpoint:m` has no base URL: set its `endpoint_base_url`
        invalid `agent_timeout` of model `ollama:m`: expected a number of seconds greater than 0
        duplicate model `ollama:m`: give each model its own `id`
        ");
        let unknown = error("- model_name: m\n  interface: ollama\n  server: {}\n");
        assert!(
            unknown.starts_with("unknown key `server` of model `ollama:m` at line 3: expected one of id, "),
            "{unknown}"
        );
        assert!(unknown.ends_with(", emulate_tools, servers"), "{unknown}");
        for text in [
            "models:\n- model_name: m\n  interface: ollama\n  server: {}\n",
            "model_name: m\ninterface: ollama\n\nserver: {}\n",
        ] {
            assert!(error(text).contains("at line 4: "), "{}", error(text));
        }
        assert!(error("{model_name: m}").contains("missing field `interface`"));
    }
}
