//! The models of a run: those that answer, and those that judge.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_agent::middleware::{ConcurrencyLimit, Middleware};
use wharf_agent::models::ModelConfig;
use wharf_agent::{Limits, Model, ModelOptions};

/// The key of a model's own servers among its MCP keys.
pub(crate) const OWN_SERVERS: &str = "mcp_urls_dict";

/// A model whose answers are evaluated.
#[derive(Clone)]
pub struct ModelUnderTest {
    /// Name of the model in the run and its results.
    pub label: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Its settings.
    pub settings: ModelSettings,
    /// The limit of concurrent requests. Share it between the models of a provider.
    pub concurrency: Option<ConcurrencyLimit>,
}

/// A model that judges answers.
#[derive(Clone)]
pub struct Judge {
    /// Name of the judge in the run and its results.
    pub label: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Its settings. Limits and servers have no effect: a judge gets one request at a time, without tools.
    pub settings: ModelSettings,
    /// The limit of concurrent requests. Share it between the models of a provider.
    pub concurrency: Option<ConcurrencyLimit>,
}

/// The settings of a model that can change its answers. They contain no secrets and are a part of the ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// Name of the interface, for example `anthropic`.
    pub interface: String,
    /// The model's name at its provider, or a file.
    pub name: String,
    /// Base URL, if it is not the provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Digest of the file of a scripted or manual model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_digest: Option<String>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The parameters of requests.
    pub options: ModelOptions,
    /// The limits of a run.
    pub limits: Limits,
    /// Retries, prompt caching and the guard against loops.
    pub middleware: Middleware,
    /// Timeout of one attempt of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Duration>,
    /// Whether tools are described in the prompt.
    pub emulate_tools: bool,
    /// The MCP keys of the model file, as written: `mcp_urls_dict`, `mcp_tool_filter` and others.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub mcp_keys: Map<String, Value>,
}

impl ModelSettings {
    /// Creates the settings of a model without a model file.
    pub fn new(interface: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            name: name.into(),
            base_url: None,
            file_digest: None,
            system_prompt: None,
            options: ModelOptions::default(),
            limits: Limits::default(),
            middleware: Middleware::default(),
            attempt_timeout: None,
            emulate_tools: false,
            mcp_keys: Map::new(),
        }
    }

    /// Reads the settings of a model file. Call [`ModelConfig::into_agent`] before if the model has tools.
    pub fn from_config(config: &ModelConfig) -> Self {
        let spec = config.spec().ok();
        let interface = spec.as_ref().map_or(config.interface.as_str(), |spec| spec.interface.as_str());
        Self {
            base_url: spec.as_ref().and_then(|spec| spec.base_url.clone()),
            system_prompt: config.system_prompt.clone(),
            options: config.options(),
            limits: config.limits(),
            middleware: config.middleware(),
            attempt_timeout: config.attempt_timeout(),
            emulate_tools: config.emulate_tools,
            mcp_keys: config.other_keys.clone(),
            ..Self::new(interface, config.model_name.clone())
        }
    }

    /// Whether both are the same model at the same provider, whatever their other settings.
    pub fn is_same_model(&self, other: &Self) -> bool {
        let provider = |of: &Self| (of.interface.clone(), of.base_url.clone(), of.file_digest.clone());
        self.name == other.name && provider(self) == provider(other)
    }

    /// Whether the model replays prepared traces. It calls no tools, so it has no servers.
    pub fn is_manual(&self) -> bool {
        self.interface == "manual"
    }

    /// Returns the model's own servers, as written.
    pub fn own_servers(&self) -> Option<&Map<String, Value>> {
        self.mcp_keys.get(OWN_SERVERS).and_then(Value::as_object).filter(|servers| !servers.is_empty())
    }
}
