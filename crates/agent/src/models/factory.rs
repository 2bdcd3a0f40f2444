//! Models by name: `anthropic:claude-sonnet-4-5`, `openai-endpoint:http://127.0.0.1:8000/v1#name`,
//! `scripted:turns.yaml`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use wharf_io::HttpClient;
use wharf_protocol::Secret;

use super::{Anthropic, Dialect, Endpoint, OpenAi, OpenAiEmbeddings, Priced, ProviderTimeouts, is_unencrypted};
use crate::{Embedder, Model};

/// A kind of model, by the API or file that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The Messages API.
    Anthropic,
    /// Chat Completions of one provider.
    Chat(Dialect),
    /// Canned turns with live tools ([`Scripted`](crate::Scripted)).
    Scripted,
    /// Prepared answers ([`Manual`](crate::Manual)).
    Manual,
    /// The Claude Code CLI, which runs its own loop. Not implemented yet.
    ClaudeCode,
}

/// A model by interface and name. Parsed from `INTERFACE:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// The interface of the model.
    pub interface: Interface,
    /// The model's name at its provider, or a file path for scripted and manual models.
    pub name: String,
    /// Base URL, for endpoints without a default one.
    pub base_url: Option<String>,
}

/// An invalid name of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidModel {
    /// Why the name is invalid.
    pub reason: String,
    /// How to fix it.
    pub hint: String,
}

/// A model that cannot be used with the current settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{interface} is unavailable: {reason}")]
pub struct Unavailable {
    /// Name of the interface.
    pub interface: &'static str,
    /// Why it is unavailable.
    pub reason: String,
    /// How to fix it.
    pub hint: String,
    /// The interface to use instead, if there is one.
    pub fallback: Option<&'static str>,
}

/// A model, possibly a fallback for the requested one.
pub struct ResolvedModel {
    /// The model to use.
    pub model: Arc<dyn Model>,
    /// Why the requested model is unavailable, if `model` is its fallback.
    pub fallback_for: Option<Unavailable>,
}

/// The environment in which models are created.
pub struct Providers<'a> {
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Creates an HTTP client for a base URL.
    pub http: &'a dyn Fn(&str) -> Result<HttpClient, String>,
    /// Whether tools are described in the prompt, for models without tool support.
    pub emulate_tools: bool,
    /// Timeouts of requests.
    pub timeouts: ProviderTimeouts,
}

/// The endpoint of a model.
struct Reached {
    endpoint: Endpoint,
    base: String,
    has_key: bool,
}

fn unavailable(interface: Interface, reason: String, hint: &str) -> Unavailable {
    Unavailable {
        interface: interface.as_str(),
        reason,
        hint: hint.to_owned(),
        fallback: (interface == Interface::ClaudeCode).then_some("anthropic"),
    }
}

fn invalid_endpoint(interface: Interface, error: super::InvalidEndpoint) -> Unavailable {
    unavailable(interface, error.to_string(), "check the base URL and the API key")
}

impl Interface {
    /// All interfaces.
    pub const ALL: [Self; 8] = [
        Self::Anthropic,
        Self::Chat(Dialect::OpenAi),
        Self::Chat(Dialect::OpenRouter),
        Self::Chat(Dialect::Endpoint),
        Self::Chat(Dialect::Ollama),
        Self::Scripted,
        Self::Manual,
        Self::ClaudeCode,
    ];

    /// Returns the name of the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat(dialect) => dialect.interface(),
            Self::Scripted => "scripted",
            Self::Manual => "manual",
            Self::ClaudeCode => "claude-code",
        }
    }

    /// Finds an interface by its name, or by its name in model files.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "claude_tool" => "anthropic",
            "openai_endpoint" => "openai-endpoint",
            "claude_agent_sdk" => "claude-code",
            name => name,
        };
        Self::ALL.into_iter().find(|interface| interface.as_str() == name)
    }

    /// Returns the environment variable of the API key.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Chat(Dialect::OpenAi) => Some("OPENAI_API_KEY"),
            Self::Chat(Dialect::OpenRouter) => Some("OPENROUTER_API_KEY"),
            // Custom endpoints have no common variable; this name is our own.
            Self::Chat(Dialect::Endpoint) => Some("OPENAI_ENDPOINT_API_KEY"),
            Self::Chat(Dialect::Ollama) | Self::Scripted | Self::Manual | Self::ClaudeCode => None,
        }
    }

    /// Returns the provider's own URL; `None` for interfaces without one.
    pub fn default_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some(Anthropic::BASE_URL),
            Self::Chat(dialect) => dialect.base_url(),
            Self::Scripted | Self::Manual | Self::ClaudeCode => None,
        }
    }

    /// Returns the environment variable of the base URL.
    fn base_url_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_BASE_URL"),
            Self::Chat(Dialect::OpenAi) => Some("OPENAI_BASE_URL"),
            Self::Chat(Dialect::OpenRouter) => Some("OPENROUTER_BASE_URL"),
            Self::Chat(Dialect::Ollama) => Some("OLLAMA_HOST"),
            Self::Chat(Dialect::Endpoint) | Self::Scripted | Self::Manual | Self::ClaudeCode => None,
        }
    }
}

impl FromStr for ModelSpec {
    type Err = InvalidModel;

    fn from_str(text: &str) -> Result<Self, InvalidModel> {
        let expected = Interface::ALL.map(Interface::as_str).join(", ");
        let invalid = |reason: String, hint: &str| Err(InvalidModel { reason, hint: hint.to_owned() });
        let Some((interface, name)) = text.split_once(':') else {
            let hint = "write INTERFACE:MODEL, for example anthropic:claude-sonnet-4-5";
            return invalid(
                format!("invalid model `{text}`: expected INTERFACE:MODEL, where INTERFACE is one of {expected}"),
                hint,
            );
        };
        let Some(interface) = Interface::named(interface) else {
            let hint = "write INTERFACE:MODEL, for example anthropic:claude-sonnet-4-5";
            return invalid(format!("unknown interface `{interface}`: expected one of {expected}"), hint);
        };
        let (base_url, name) = match interface {
            Interface::Chat(Dialect::Endpoint) => {
                let Some((url, name)) = name.rsplit_once('#') else {
                    let hint = "write for example openai-endpoint:http://127.0.0.1:8000/v1#name";
                    return invalid(format!("invalid model `{text}`: expected URL#MODEL"), hint);
                };
                (Some(url.to_owned()), name)
            }
            _ => (None, name),
        };
        if name.trim().is_empty() {
            return invalid(format!("invalid model `{text}`: the name is empty"), "write INTERFACE:MODEL");
        }
        Ok(Self { interface, name: name.to_owned(), base_url })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base_url {
            Some(url) => write!(f, "{}:{url}#{}", self.interface.as_str(), self.name),
            None => write!(f, "{}:{}", self.interface.as_str(), self.name),
        }
    }
}

impl Providers<'_> {
    /// Creates a model that is reached over the network. Scripted and manual models are created from their file
    /// instead.
    ///
    /// # Errors
    /// Returns an error if the API key is missing, the URL or key is invalid, or the interface is not implemented.
    pub fn make(&self, spec: &ModelSpec) -> Result<Arc<dyn Model>, Unavailable> {
        let interface = spec.interface;
        match interface {
            Interface::Anthropic | Interface::Chat(_) => {}
            Interface::Scripted | Interface::Manual => {
                return Err(unavailable(interface, "it is created from a file".to_owned(), "read its file"));
            }
            Interface::ClaudeCode => {
                let reason = "it is not implemented yet".to_owned();
                return Err(unavailable(interface, reason, "use anthropic:MODEL, which has the same models"));
            }
        }
        let Reached { endpoint, .. } = self.endpoint(spec)?;
        let invalid = |error| invalid_endpoint(interface, error);
        let model: Arc<dyn Model> = match interface {
            Interface::Chat(dialect) => {
                let model = OpenAi::new(dialect, endpoint, &spec.name).map_err(invalid)?;
                if self.emulate_tools { Arc::new(model.with_emulated_tools()) } else { Arc::new(model) }
            }
            _ => Arc::new(Anthropic::new(endpoint, &spec.name).map_err(invalid)?),
        };
        Ok(Arc::new(Priced::new(model)))
    }

    /// Creates an embedding model of an `OpenAI`-compatible provider.
    ///
    /// # Errors
    /// Returns an error if the interface has no embeddings, the API key is missing, the URL or key is invalid, or the key
    /// would be sent over an unencrypted connection to another machine.
    pub fn make_embedder(&self, spec: &ModelSpec) -> Result<Arc<dyn Embedder>, Unavailable> {
        let interface = spec.interface;
        let Interface::Chat(dialect) = interface else {
            let hint = "use openai:MODEL, ollama:MODEL or openai-endpoint:URL#MODEL";
            return Err(unavailable(interface, "it has no embeddings".to_owned(), hint));
        };
        let Reached { endpoint, base, has_key } = self.endpoint(spec)?;
        if has_key && is_unencrypted(&base) {
            let reason = "its API key would be sent over unencrypted http".to_owned();
            return Err(unavailable(interface, reason, "use an https URL, or remove the key"));
        }
        let model = OpenAiEmbeddings::new(dialect, endpoint, &spec.name);
        Ok(Arc::new(model.map_err(|error| invalid_endpoint(interface, error))?))
    }

    /// Returns the endpoint of a model, with its key.
    fn endpoint(&self, spec: &ModelSpec) -> Result<Reached, Unavailable> {
        let interface = spec.interface;
        let needs_key = match interface {
            Interface::Chat(dialect) => dialect.needs_key(),
            _ => true,
        };
        let from_variable = interface.base_url_variable().and_then(|name| (self.variable)(name)).map(|url| {
            // `OLLAMA_HOST` has no scheme, and not the path of the API.
            if interface != Interface::Chat(Dialect::Ollama) {
                return url;
            }
            let url = if url.contains("://") { url } else { format!("http://{url}") };
            format!("{}/v1", url.trim_end_matches('/').trim_end_matches("/v1"))
        });
        let base =
            spec.base_url.clone().or(from_variable).or(interface.default_url().map(str::to_owned)).unwrap_or_default();
        let key = interface.key_variable().and_then(|name| (self.variable)(name));
        let key = key.filter(|key| !key.trim().is_empty()).map(Secret::from);
        if let (true, None, Some(name)) = (needs_key, &key, interface.key_variable()) {
            let hint = format!("set {name}, or choose another model");
            return Err(unavailable(interface, format!("{name} is not set"), &hint));
        }
        let http = (self.http)(&base).map_err(|reason| unavailable(interface, reason, "check the network settings"))?;
        let has_key = key.is_some();
        let endpoint = Endpoint::new(&base, key, http).map_err(|error| invalid_endpoint(interface, error))?;
        let endpoint = endpoint.with_timeouts(self.timeouts);
        Ok(Reached { endpoint, base, has_key })
    }

    /// Creates a model, or its fallback with the same name if the model is unavailable.
    ///
    /// # Errors
    /// Returns an error if neither is available.
    pub fn make_or_fall_back(&self, spec: &ModelSpec) -> Result<ResolvedModel, Unavailable> {
        let unavailable = match self.make(spec) {
            Ok(model) => return Ok(ResolvedModel { model, fallback_for: None }),
            Err(unavailable) => unavailable,
        };
        let Some(interface) = unavailable.fallback.and_then(Interface::named) else { return Err(unavailable) };
        match self.make(&ModelSpec { interface, ..spec.clone() }) {
            Ok(model) => Ok(ResolvedModel { model, fallback_for: Some(unavailable) }),
            Err(other) => {
                let reason = format!(
                    "{}; its fallback {} is unavailable too: {}",
                    unavailable.reason, other.interface, other.reason
                );
                Err(Unavailable { reason, hint: other.hint, ..unavailable })
            }
        }
    }

    /// Returns the default model of the first provider that has an API key.
    pub fn pick(&self) -> Option<ModelSpec> {
        const DEFAULT_MODELS: [(Interface, &str); 3] = [
            (Interface::Anthropic, "claude-sonnet-4-5"),
            (Interface::Chat(Dialect::OpenAi), "gpt-5"),
            (Interface::Chat(Dialect::OpenRouter), "anthropic/claude-sonnet-4.5"),
        ];
        let has_key = |interface: Interface| {
            let key = interface.key_variable().and_then(|name| (self.variable)(name));
            key.is_some_and(|key| !key.trim().is_empty())
        };
        let (interface, name) = DEFAULT_MODELS.into_iter().find(|(interface, _)| has_key(*interface))?;
        Some(ModelSpec { interface, name: name.to_owned(), base_url: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ModelSpec {
        text.parse().unwrap()
    }

    #[test]
    fn a_model_is_parsed_from_its_interface_and_name() {
        assert_eq!(spec("anthropic:claude-sonnet-4-5").name, "claude-sonnet-4-5");
        assert_eq!(spec("ollama:qwen3:8b").name, "qwen3:8b");
        assert_eq!(spec("claude_tool:x").interface, Interface::Anthropic);
        let endpoint = spec("openai-endpoint:http://127.0.0.1:8000/v1#qwen");
        assert_eq!((endpoint.base_url.as_deref(), endpoint.name.as_str()), (Some("http://127.0.0.1:8000/v1"), "qwen"));
        for text in ["anthropic:a", "openai-endpoint:http://h/v1#m", "scripted:./a:b.yaml"] {
            assert_eq!(spec(text).to_string(), text);
        }
        let error = |text: &str| text.parse::<ModelSpec>().unwrap_err().to_string();
        insta::assert_snapshot!(["gpt-5", "gpt:5", "openai-endpoint:http://h/v1", "openai:"].map(error).join("\n"), @"
        invalid model `gpt-5`: expected INTERFACE:MODEL, where INTERFACE is one of anthropic, openai, openrouter, openai-endpoint, ollama, scripted, manual, claude-code
        unknown interface `gpt`: expected one of anthropic, openai, openrouter, openai-endpoint, ollama, scripted, manual, claude-code
        invalid model `openai-endpoint:http://h/v1`: expected URL#MODEL
        invalid model `openai:`: the name is empty
        ");
    }

    fn with_variables<T>(variables: &[(&str, &str)], test: impl Fn(&Providers<'_>) -> T) -> T {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let http = |_: &str| HttpClient::new(wharf_io::HttpSettings::default()).map_err(|error| error.to_string());
        let timeouts = ProviderTimeouts::default();
        test(&Providers { variable: &variable, http: &http, emulate_tools: false, timeouts })
    }

    fn make(text: &str, variables: &[(&str, &str)]) -> Result<Arc<dyn Model>, Unavailable> {
        with_variables(variables, |providers| providers.make(&spec(text)))
    }

    #[test]
    fn an_unavailable_model_is_replaced_by_its_fallback() {
        let resolve = |text: &str, variables: &[(&str, &str)]| {
            with_variables(variables, |providers| providers.make_or_fall_back(&spec(text)))
        };
        let key = [("ANTHROPIC_API_KEY", "k")];
        let ResolvedModel { model, fallback_for } = resolve("claude-code:claude-sonnet-4-5", &key).ok().unwrap();
        assert_eq!((model.interface(), model.name()), ("anthropic", "claude-sonnet-4-5"));
        assert_eq!(fallback_for.unwrap().interface, "claude-code");
        assert!(resolve("anthropic:x", &key).ok().unwrap().fallback_for.is_none());
        let neither = resolve("claude-code:x", &[]).err().unwrap().to_string();
        assert!(
            neither.contains("its fallback anthropic is unavailable too: ANTHROPIC_API_KEY is not set"),
            "{neither}"
        );
        assert!(resolve("openai:x", &key).is_err());
    }

    #[test]
    fn an_unavailable_model_reports_the_reason_and_the_fix() {
        assert!(make("anthropic:x", &[("ANTHROPIC_API_KEY", "k")]).is_ok() && make("ollama:x", &[]).is_ok());
        let error = |text: &str| make(text, &[]).err().unwrap();
        let missing = error("openai:gpt-5");
        assert_eq!(missing.to_string(), "openai is unavailable: OPENAI_API_KEY is not set");
        assert_eq!(missing.hint, "set OPENAI_API_KEY, or choose another model");
        assert_eq!(error("claude-code:x").fallback, Some("anthropic"));
        assert!(error("openai-endpoint:nowhere#x").to_string().contains("expected an http or https URL"));
    }

    #[test]
    fn embeddings_need_a_compatible_provider_and_a_safe_way_for_the_key() {
        let make = |text: &str, variables: &[(&str, &str)]| {
            let made = with_variables(variables, |providers| providers.make_embedder(&spec(text)));
            made.map(|model| format!("{}:{}", model.interface(), model.name())).map_err(|error| error.to_string())
        };
        let key = [("OPENAI_ENDPOINT_API_KEY", "k")];
        let remote = "openai-endpoint:http://embed.test/v1#e";
        assert_eq!(make("openai:e", &[("OPENAI_API_KEY", "k")]).unwrap(), "openai:e");
        assert_eq!(make("ollama:e", &[]).unwrap(), "ollama:e");
        assert_eq!(make("openai-endpoint:http://127.0.0.1:8080/v1#e", &key).unwrap(), "openai-endpoint:e");
        assert_eq!(make("openai-endpoint:https://embed.test/v1#e", &key).unwrap(), "openai-endpoint:e");
        assert_eq!(make(remote, &[]).unwrap(), "openai-endpoint:e");
        let errors = [
            make(remote, &key),
            make("openai:e", &[]),
            make("anthropic:e", &[("ANTHROPIC_API_KEY", "k")]),
            make("scripted:e", &[]),
        ];
        insta::assert_snapshot!(errors.map(Result::unwrap_err).join("\n"), @"
        openai-endpoint is unavailable: its API key would be sent over unencrypted http
        openai is unavailable: OPENAI_API_KEY is not set
        anthropic is unavailable: it has no embeddings
        scripted is unavailable: it has no embeddings
        ");
    }

    #[test]
    fn the_first_provider_with_a_key_is_picked() {
        let picked = |variables: &[(&str, &str)]| {
            with_variables(variables, |providers| providers.pick().map(|spec| spec.interface.as_str()))
        };
        assert_eq!(picked(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", " ")]), Some("openai"));
        assert_eq!(picked(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]), Some("anthropic"));
        assert_eq!(picked(&[]), None);
    }
}
