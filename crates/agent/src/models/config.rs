//! Models as configurations write them: which model, with which servers, and how it is used.
//!
//! ```yaml
//! - id: agent-claude
//!   model_name: claude-sonnet-4-5-20250929
//!   model_provider: anthropic
//!   interface: langchain
//!   mcp_urls_dict:
//!     biocontext: https://mcp.biocontext.ai/mcp/
//! ```
//!
//! The keys are those that benchmarks have been written with. A model with servers is an agent; one without just answers,
//! and nothing that is for agents holds for it.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::Secret;

use super::{Dialect, Interface, InvalidModel, ModelSpec};
use crate::middleware::Middleware;
use crate::{Limits, ModelOptions, yaml};

/// One model of a configuration.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// What it is called; without it, what its interface and its name are.
    #[serde(default)]
    pub id: Option<String>,
    /// Its name at its provider; the file of those that read one.
    pub model_name: String,
    /// Who provides it, for interfaces that serve many.
    #[serde(default)]
    pub model_provider: Option<String>,
    /// How it is asked.
    pub interface: String,
    /// How much chance there is in its answers; `null` leaves that to the model.
    #[serde(default = "usual_temperature")]
    pub temperature: Option<f64>,
    /// The longest answer, in tokens.
    #[serde(default = "usual_max_tokens")]
    pub max_tokens: u32,
    /// What it is told before anything else.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Its servers: a URL or a command line for each name, or a whole entry.
    #[serde(default)]
    pub mcp_urls_dict: Option<Map<String, Value>>,
    /// Which of their tools it may use; all without it, and none if it is empty.
    #[serde(default)]
    pub mcp_tool_filter: Option<Vec<String>>,
    /// How their tools are described to it.
    #[serde(default)]
    pub mcp_tool_description_overrides: Option<std::collections::BTreeMap<String, String>>,
    /// How long connecting to a server may take, in seconds.
    #[serde(default)]
    pub mcp_http_timeout: Option<f64>,
    /// How long a server may be silent while it answers, in seconds.
    #[serde(default)]
    pub mcp_sse_read_timeout: Option<f64>,
    /// The longest conversation, in tokens. It is read and kept, and nothing is condensed yet.
    #[serde(default)]
    pub max_context_tokens: Option<u64>,
    /// The layers around an agent.
    #[serde(default)]
    pub agent_middleware: Option<Middleware>,
    /// How long an agent may take, in seconds; any time if it is `null`.
    #[serde(default = "usual_agent_timeout")]
    pub agent_timeout: Option<f64>,
    /// How long one attempt to ask may take, in seconds.
    #[serde(default)]
    pub request_timeout: Option<f64>,
    /// Where an endpoint of one's own is.
    #[serde(default)]
    pub endpoint_base_url: Option<String>,
    /// Its key, or `${NAME}` for the one in a variable.
    #[serde(default)]
    pub endpoint_api_key: Option<String>,
    /// Where the Messages API is, if not at its usual place.
    #[serde(default)]
    pub anthropic_base_url: Option<String>,
    /// Its key, or `${NAME}` for the one in a variable.
    #[serde(default)]
    pub anthropic_api_key: Option<String>,
    /// Whether tools are told to it in words, for one that has never heard of them.
    #[serde(default)]
    pub emulate_tools: bool,
    /// Whether it has servers that it does not name.
    #[serde(skip)]
    is_agent: bool,
}

/// A text that holds no models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfig(pub String);

#[expect(clippy::unnecessary_wraps, reason = "what is written may be null")]
fn usual_temperature() -> Option<f64> {
    Some(0.1)
}

fn usual_max_tokens() -> u32 {
    ModelOptions::default().max_tokens
}

#[expect(clippy::unnecessary_wraps, reason = "what is written may be null")]
fn usual_agent_timeout() -> Option<f64> {
    Some(180.0)
}

/// A file is a list of models, says that it is one, or is a model itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    models: Vec<ModelConfig>,
}

impl ModelConfig {
    /// The models of a YAML or JSON text.
    ///
    /// # Errors
    /// If one cannot be understood or used; the words say which and why.
    pub fn parse(text: &str) -> Result<Vec<Self>, InvalidConfig> {
        let invalid = |error: yaml::Error| InvalidConfig(error.to_string());
        // The shape first, so that what is wrong is told of the shape it has.
        let models = match yaml::from_str::<Value>(text).map_err(invalid)? {
            Value::Object(fields) if fields.contains_key("models") => {
                yaml::from_str::<Named>(text).map_err(invalid)?.models
            }
            Value::Object(_) => vec![yaml::from_str(text).map_err(invalid)?],
            _ => yaml::from_str::<Vec<Self>>(text).map_err(invalid)?,
        };
        if models.is_empty() {
            return Err(InvalidConfig("it holds no models".to_owned()));
        }
        for (place, model) in models.iter().enumerate() {
            model.check()?;
            let label = model.label();
            if models[..place].iter().any(|other| other.label() == label) {
                return Err(InvalidConfig(format!("two models are called `{label}`: give them an `id` each")));
            }
        }
        Ok(models)
    }

    /// What it is called.
    pub fn label(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("{}:{}", self.interface, self.model_name))
    }

    /// The model itself.
    ///
    /// # Errors
    /// If nobody here can ask it.
    pub fn spec(&self) -> Result<ModelSpec, InvalidModel> {
        let interface = self.asked()?;
        let base_url = match interface {
            // Whoever stands in for the one is asked where the other would be.
            Interface::Anthropic | Interface::ClaudeCode => self.anthropic_base_url.clone(),
            Interface::Chat(_) => self.endpoint_base_url.clone(),
            Interface::Scripted | Interface::Manual => None,
        };
        if (interface, &base_url) == (Interface::Chat(Dialect::Endpoint), &None) {
            return Err(InvalidModel {
                reason: format!("the model `{}` says nothing about where it is", self.label()),
                hint: "set its `endpoint_base_url`".to_owned(),
            });
        }
        Ok(ModelSpec { interface, name: self.model_name.clone(), base_url })
    }

    /// How it is asked.
    pub fn options(&self) -> ModelOptions {
        ModelOptions { max_tokens: self.max_tokens, temperature: self.temperature, ..ModelOptions::default() }
    }

    /// How far a run of it may go. A model without servers answers at once, and needs no limits.
    pub fn limits(&self) -> Limits {
        if !self.is_agent() {
            return Limits::default();
        }
        let limits = self.middleware().limits;
        let times = [limits.time, self.agent_timeout.and_then(seconds)];
        Limits { time: times.into_iter().flatten().min(), ..limits }
    }

    /// What stands around it: what is set for agents is for agents only.
    pub fn middleware(&self) -> Middleware {
        self.agent_middleware.clone().filter(|_| self.is_agent()).unwrap_or_default()
    }

    /// How long one attempt to ask may take.
    pub fn attempt(&self) -> Option<Duration> {
        self.request_timeout.and_then(seconds)
    }

    /// How long connecting to one of its servers may take.
    pub fn connecting(&self) -> Option<Duration> {
        self.mcp_http_timeout.and_then(seconds)
    }

    /// How long one of its servers may be silent.
    pub fn silence(&self) -> Option<Duration> {
        self.mcp_sse_read_timeout.and_then(seconds)
    }

    /// The same with servers that it does not name itself: it is an agent, and what is for agents is for it.
    #[must_use]
    pub fn with_servers_besides(mut self) -> Self {
        self.is_agent = true;
        self
    }

    /// Its servers, if it names some.
    pub fn servers(&self) -> Option<&Map<String, Value>> {
        self.mcp_urls_dict.as_ref().filter(|servers| !servers.is_empty())
    }

    /// What it says itself about a variable of the environment: its key, and nothing at all where it takes that from a
    /// variable that is not set. No other key is sent in its place.
    pub fn variable(&self, name: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let interface = match self.asked().ok()? {
            Interface::ClaudeCode => Interface::Anthropic,
            interface => interface,
        };
        let written = self.written_key().filter(|_| interface.key_variable() == Some(name))?;
        Some(match from_variable(written) {
            Some(other) => known(other).unwrap_or_default(),
            None => written.to_owned(),
        })
    }

    /// The variable it takes its key from, if that is not set.
    pub fn unset<'a>(&'a self, known: &dyn Fn(&str) -> Option<String>) -> Option<&'a str> {
        self.written_key().and_then(from_variable).filter(|name| known(name).is_none())
    }

    /// The keys it holds or takes from variables, so that they can be kept out of whatever is written down.
    pub fn secrets(&self, known: &dyn Fn(&str) -> Option<String>) -> Vec<Secret> {
        let keys = [&self.endpoint_api_key, &self.anthropic_api_key].into_iter().flatten();
        let keys = keys.filter_map(|key| from_variable(key).map_or_else(|| Some(key.clone()), known));
        keys.map(Secret::from).collect()
    }

    fn is_agent(&self) -> bool {
        self.is_agent || self.servers().is_some()
    }

    fn written_key(&self) -> Option<&str> {
        match self.asked().ok()? {
            Interface::Anthropic | Interface::ClaudeCode => self.anthropic_api_key.as_deref(),
            Interface::Chat(_) => self.endpoint_api_key.as_deref(),
            Interface::Scripted | Interface::Manual => None,
        }
    }

    fn asked(&self) -> Result<Interface, InvalidModel> {
        let provided = self.model_provider.as_deref().unwrap_or_default();
        let invalid = |reason: String, hint: String| InvalidModel { reason, hint };
        // Whoever writes this means whichever way there is to ask the provider.
        if self.interface == "langchain" {
            let known = ["anthropic", "openai", "openrouter", "ollama"];
            return known.contains(&provided).then(|| Interface::named(provided)).flatten().ok_or_else(|| {
                let hint = format!("set `model_provider` to {}", known.join(", "));
                invalid(format!("the model `{}` has the provider `{provided}`, which there is not", self.label()), hint)
            });
        }
        Interface::named(&self.interface).ok_or_else(|| {
            let known = Interface::ALL.map(Interface::as_str).join(", ");
            let reason =
                format!("the model `{}` has the interface `{}`, which there is not", self.label(), self.interface);
            invalid(reason, format!("there are {known}, and langchain with a `model_provider`"))
        })
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        let invalid = |words: String| Err(InvalidConfig(format!("the model `{}` {words}", self.label())));
        if self.model_name.trim().is_empty() {
            return invalid("has no `model_name`".to_owned());
        }
        let spec = self.spec().map_err(|error| InvalidConfig(format!("{error}: {}", error.hint)))?;
        let about_servers = [
            ("mcp_urls_dict", self.mcp_urls_dict.is_some()),
            ("mcp_tool_filter", self.mcp_tool_filter.is_some()),
            ("mcp_tool_description_overrides", self.mcp_tool_description_overrides.is_some()),
        ];
        if let (Interface::Manual, Some((key, _))) = (spec.interface, about_servers.iter().find(|(_, set)| *set)) {
            return invalid(format!("is manual, which has no tools: leave out `{key}`"));
        }
        let times = [
            ("agent_timeout", self.agent_timeout),
            ("request_timeout", self.request_timeout),
            ("mcp_http_timeout", self.mcp_http_timeout),
            ("mcp_sse_read_timeout", self.mcp_sse_read_timeout),
        ];
        match times.iter().find(|(_, time)| time.is_some_and(|time| seconds(time).is_none_or(|time| time.is_zero()))) {
            Some((key, _)) => invalid(format!("has `{key}`, which is no time: it is a number of seconds above 0")),
            None => Ok(()),
        }
    }
}

/// The variable that a text stands for.
fn from_variable(written: &str) -> Option<&str> {
    written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Without its keys.
impl fmt::Debug for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, model_name, model_provider, interface, .. } = self;
        let mut shown = f.debug_struct("ModelConfig");
        shown.field("id", id).field("model_name", model_name).field("model_provider", model_provider);
        shown.field("interface", interface).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitBehavior;

    fn one(text: &str) -> ModelConfig {
        ModelConfig::parse(text).unwrap().remove(0)
    }

    fn refusal(text: &str) -> String {
        ModelConfig::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_example_is_an_agent_with_the_documented_defaults() {
        let config = one(r#"{"id": "agent-claude", "model_name": "claude-sonnet-4-5-20250929",
            "model_provider": "anthropic", "interface": "langchain", "mcp_urls_dict": {
                "biocontext": "https://mcp.biocontext.ai/mcp/", "web_search": "https://search-server.example.com/mcp/"}}"#);
        assert_eq!(config.spec().unwrap().to_string(), "anthropic:claude-sonnet-4-5-20250929");
        let names: Vec<&str> = config.servers().unwrap().keys().map(String::as_str).collect();
        assert_eq!((config.label().as_str(), names), ("agent-claude", vec!["biocontext", "web_search"]));
        let ModelOptions { max_tokens, temperature, .. } = config.options();
        assert_eq!((max_tokens, temperature), (16_384, Some(0.1)));
        let Limits { model_calls, tool_calls, exit_behavior, time, .. } = config.limits();
        assert_eq!((model_calls, tool_calls, exit_behavior), (25, 50, ExitBehavior::End));
        assert_eq!((time, config.attempt()), (Some(Duration::from_secs(180)), None));
        assert_eq!((config.mcp_tool_filter, config.mcp_tool_description_overrides), (None, None));
    }

    #[test]
    fn the_example_of_the_guide_is_understood_and_no_key_is_left_untold() {
        let guide = include_str!("../../../../docs/running.md");
        let example = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let config = one(example);
        assert_eq!((config.servers().unwrap().len(), config.limits().tool_calls), (2, 10));
        let unknown = refusal("{model_name: m, interface: ollama, telepathy: true}");
        let keys = unknown.lines().next().and_then(|line| line.split_once("one of ")).unwrap().1;
        let keys: Vec<&str> = keys.split(", ").collect();
        assert!(keys.len() > 20, "{unknown}");
        let untold: Vec<&&str> = keys.iter().filter(|key| !guide.contains(&format!("`{key}`"))).collect();
        assert!(untold.is_empty(), "docs/running.md says nothing of {untold:?}");
    }

    #[test]
    fn what_is_for_agents_holds_for_agents_only() {
        let text = |servers: &str| {
            format!(
                "model_name: m\ninterface: ollama\nagent_timeout: 7\nrequest_timeout: 2.5\n{servers}\
                 agent_middleware: {{limits: {{model_call_limit: 3}}, model_retry: {{max_retries: 9}}}}\n"
            )
        };
        let agent = one(&text("mcp_urls_dict: {a: uvx mcp-server-time}\n"));
        assert_eq!((agent.limits().model_calls, agent.limits().time), (3, Some(Duration::from_secs(7))));
        assert_eq!(
            (agent.middleware().model_retry.max_retries, agent.attempt()),
            (9, Some(Duration::from_millis(2500)))
        );
        let plain = one(&text(""));
        assert_eq!((plain.limits(), plain.middleware()), (Limits::default(), Middleware::default()));
        assert_eq!((plain.servers(), plain.attempt()), (None, Some(Duration::from_millis(2500))));
        assert_eq!(plain.with_servers_besides().limits(), agent.limits());
    }

    #[test]
    fn a_model_says_where_it_is_and_how_to_get_in() {
        let config = one(
            "model_name: qwen\ninterface: openai_endpoint\nendpoint_base_url: http://h/v1\nendpoint_api_key: ${MINE}",
        );
        assert_eq!(config.spec().unwrap().to_string(), "openai-endpoint:http://h/v1#qwen");
        let known = |name: &str| (name == "MINE").then(|| "made-up".to_owned());
        assert_eq!(config.variable("OPENAI_ENDPOINT_API_KEY", &known).as_deref(), Some("made-up"));
        assert_eq!(config.variable("OPENAI_API_KEY", &known), None);
        // Where the one is not set, no other is sent to this address.
        let nothing = |_: &str| None;
        assert_eq!(config.variable("OPENAI_ENDPOINT_API_KEY", &nothing).as_deref(), Some(""));
        assert_eq!((config.unset(&nothing), config.unset(&known)), (Some("MINE"), None));
        assert_eq!(config.secrets(&known)[0].expose(), "made-up");
        let driven =
            one("{model_name: c, interface: claude_agent_sdk, anthropic_api_key: k, anthropic_base_url: http://h}");
        assert_eq!(driven.spec().unwrap().base_url.as_deref(), Some("http://h"));
        assert_eq!(driven.variable("ANTHROPIC_API_KEY", &known).as_deref(), Some("k"));
        let claude = one("{model_name: c, interface: claude_tool, anthropic_api_key: k, anthropic_base_url: http://h}");
        assert_eq!(claude.variable("ANTHROPIC_API_KEY", &known).as_deref(), Some("k"));
        assert_eq!(claude.spec().unwrap().base_url.as_deref(), Some("http://h"));
        assert!(!format!("{claude:?}").contains("anthropic_api_key"));
    }

    #[test]
    fn a_file_is_a_list_of_models_or_says_so_or_is_one() {
        let model = |id: &str| format!("{{id: {id}, model_name: m, interface: ollama}}");
        let labels = |text: &str| ModelConfig::parse(text).unwrap().iter().map(ModelConfig::label).collect::<Vec<_>>();
        assert_eq!(labels(&format!("[{}, {}]", model("a"), model("b"))), ["a", "b"]);
        assert_eq!(labels(&format!("models: [{}]", model("a"))), ["a"]);
        assert_eq!(labels("{model_name: m, interface: ollama}"), ["ollama:m"]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let refusals = [
            "[]",
            "{model_name: ' ', interface: ollama}",
            "{model_name: m, interface: telepathy}",
            "{model_name: m, interface: langchain, model_provider: acme}",
            "{model_name: m, interface: openai_endpoint}",
            "{id: old, model_name: m.json, interface: manual, mcp_urls_dict: {a: 'https://a'}}",
            "{model_name: m, interface: ollama, agent_timeout: 0}",
            "[{model_name: m, interface: ollama}, {model_name: m, interface: ollama}]",
        ]
        .map(refusal);
        insta::assert_snapshot!(refusals.join("\n"), @"
        it holds no models
        the model `ollama: ` has no `model_name`
        the model `telepathy:m` has the interface `telepathy`, which there is not: there are anthropic, openai, openrouter, openai-endpoint, ollama, scripted, manual, claude-code, and langchain with a `model_provider`
        the model `langchain:m` has the provider `acme`, which there is not: set `model_provider` to anthropic, openai, openrouter, ollama
        the model `openai_endpoint:m` says nothing about where it is: set its `endpoint_base_url`
        the model `old` is manual, which has no tools: leave out `mcp_urls_dict`
        the model `ollama:m` has `agent_timeout`, which is no time: it is a number of seconds above 0
        two models are called `ollama:m`: give them an `id` each
        ");
        let unknown = refusal("- model_name: m\n  interface: ollama\n  mcp_url_dict: {}\n");
        assert!(unknown.contains("mcp_url_dict") && unknown.contains("line 3"), "{unknown}");
        assert!(refusal("{model_name: m}").contains("missing field `interface`"));
    }
}
