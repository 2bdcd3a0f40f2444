//! Models by name: `anthropic:claude-sonnet-4-5`, `openai-endpoint:http://127.0.0.1:8000/v1#name`, `scripted:turns.yaml`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use wharf_io::HttpClient;
use wharf_protocol::Secret;

use super::{Anthropic, Dialect, Endpoint, OpenAi, Priced};
use crate::Model;

/// Who can be asked, and by which names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The Messages API.
    Anthropic,
    /// Chat Completions, in one of its dialects.
    Chat(Dialect),
    /// Canned turns over live tools.
    Scripted,
    /// Everything replayed.
    Manual,
    /// Another program that runs its own loop; there is none here yet.
    ClaudeCode,
}

/// A model somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// Who is asked.
    pub interface: Interface,
    /// The model there; a file for those that read one.
    pub name: String,
    /// Where, for those that may be anywhere.
    pub base_url: Option<String>,
}

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidModel {
    /// Why not.
    pub reason: String,
    /// What to write instead.
    pub hint: String,
}

/// A model that cannot be asked here and now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{interface} cannot be used: {reason}")]
pub struct Unavailable {
    /// Who.
    pub interface: &'static str,
    /// Why not.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
    /// Who could be asked instead.
    pub fallback: Option<&'static str>,
}

/// A model, and whom it stands in for.
pub struct ResolvedModel {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Why it is not the one that was asked for, if it is not.
    pub instead_of: Option<Unavailable>,
}

/// What a host knows that models need.
pub struct Providers<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// How an address is reached.
    pub http: &'a dyn Fn(&str) -> Result<HttpClient, String>,
    /// Whether tools are told to the model in words, for one that has never heard of them.
    pub emulate_tools: bool,
}

impl Interface {
    /// All that can be named.
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

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat(dialect) => dialect.interface(),
            Self::Scripted => "scripted",
            Self::Manual => "manual",
            Self::ClaudeCode => "claude-code",
        }
    }

    /// By its name, or by one that model configurations have for it.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "claude_tool" => "anthropic",
            "openai_endpoint" => "openai-endpoint",
            "claude_agent_sdk" => "claude-code",
            name => name,
        };
        Self::ALL.into_iter().find(|interface| interface.as_str() == name)
    }

    /// The variable that holds its key.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Chat(Dialect::OpenAi) => Some("OPENAI_API_KEY"),
            Self::Chat(Dialect::OpenRouter) => Some("OPENROUTER_API_KEY"),
            // Of an endpoint of one's own nobody knows what it is called; this is what most of them want.
            Self::Chat(Dialect::Endpoint) => Some("OPENAI_ENDPOINT_API_KEY"),
            Self::Chat(Dialect::Ollama) | Self::Scripted | Self::Manual | Self::ClaudeCode => None,
        }
    }

    /// The variable that says where it is instead of where it usually is.
    fn address_variable(self) -> Option<&'static str> {
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
        let known = Interface::ALL.map(Interface::as_str).join(", ");
        let invalid = |reason: String, hint: &str| Err(InvalidModel { reason, hint: hint.to_owned() });
        let Some((interface, name)) = text.split_once(':') else {
            let hint = "write INTERFACE:MODEL, for example anthropic:claude-sonnet-4-5";
            return invalid(format!("`{text}` does not say who is asked; there are {known}"), hint);
        };
        let Some(interface) = Interface::named(interface) else {
            let hint = "write INTERFACE:MODEL, for example anthropic:claude-sonnet-4-5";
            return invalid(format!("there is no interface `{interface}`; there are {known}"), hint);
        };
        let (base_url, name) = match interface {
            Interface::Chat(Dialect::Endpoint) => {
                let Some((url, name)) = name.rsplit_once('#') else {
                    let hint = "write for example openai-endpoint:http://127.0.0.1:8000/v1#name";
                    return invalid(format!("`{text}` does not name a model: it follows a #"), hint);
                };
                (Some(url.to_owned()), name)
            }
            _ => (None, name),
        };
        if name.trim().is_empty() {
            return invalid(format!("`{text}` names no model"), "write INTERFACE:MODEL");
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
    /// The model that is asked over a network. Those that read a file are made by whoever has read it.
    ///
    /// # Errors
    /// If it cannot be asked: a key is missing, or there is no such thing here.
    pub fn make(&self, spec: &ModelSpec) -> Result<Arc<dyn Model>, Unavailable> {
        let interface = spec.interface;
        let unavailable = |reason: String, hint: &str| Unavailable {
            interface: interface.as_str(),
            reason,
            hint: hint.to_owned(),
            fallback: (interface == Interface::ClaudeCode).then_some("anthropic"),
        };
        let (usual, needs_key) = match interface {
            Interface::Anthropic => (Some(Anthropic::BASE_URL), true),
            Interface::Chat(dialect) => (dialect.base_url(), dialect.needs_key()),
            Interface::Scripted | Interface::Manual => {
                return Err(unavailable("it reads a file and is asked over no network".to_owned(), "read its file"));
            }
            Interface::ClaudeCode => {
                let reason = "this program cannot drive it yet".to_owned();
                return Err(unavailable(reason, "use anthropic:MODEL, which has the same models"));
            }
        };
        let elsewhere = interface.address_variable().and_then(|name| (self.variable)(name)).map(|address| {
            // What Ollama calls its host has no scheme, and its API has a path.
            if interface != Interface::Chat(Dialect::Ollama) {
                return address;
            }
            let address = if address.contains("://") { address } else { format!("http://{address}") };
            format!("{}/v1", address.trim_end_matches('/').trim_end_matches("/v1"))
        });
        let base = spec.base_url.clone().or(elsewhere).or(usual.map(str::to_owned)).unwrap_or_default();
        let key = interface.key_variable().and_then(|name| (self.variable)(name));
        let key = key.filter(|key| !key.trim().is_empty()).map(Secret::from);
        if let (true, None, Some(name)) = (needs_key, &key, interface.key_variable()) {
            let hint = format!("set {name}, or choose another model with -m");
            return Err(unavailable(format!("{name} is not set"), &hint));
        }
        let http = (self.http)(&base).map_err(|reason| unavailable(reason, "mend the settings of the network"))?;
        let invalid = |error: super::InvalidEndpoint| unavailable(error.to_string(), "mend the address or the key");
        let endpoint = Endpoint::new(&base, key, http).map_err(invalid)?;
        let model: Arc<dyn Model> = match interface {
            Interface::Chat(dialect) => {
                let model = OpenAi::new(dialect, endpoint, &spec.name).map_err(invalid)?;
                if self.emulate_tools { Arc::new(model.emulating_tools()) } else { Arc::new(model) }
            }
            _ => Arc::new(Anthropic::new(endpoint, &spec.name).map_err(invalid)?),
        };
        Ok(Arc::new(Priced::new(model)))
    }

    /// The same, or the one that is named in its place, by the same name.
    ///
    /// # Errors
    /// If neither can be asked.
    pub fn make_or_fall_back(&self, spec: &ModelSpec) -> Result<ResolvedModel, Unavailable> {
        let unavailable = match self.make(spec) {
            Ok(model) => return Ok(ResolvedModel { model, instead_of: None }),
            Err(unavailable) => unavailable,
        };
        let Some(interface) = unavailable.fallback.and_then(Interface::named) else { return Err(unavailable) };
        match self.make(&ModelSpec { interface, ..spec.clone() }) {
            Ok(model) => Ok(ResolvedModel { model, instead_of: Some(unavailable) }),
            Err(other) => {
                let reason = format!("{}, and neither can {}: {}", unavailable.reason, other.interface, other.reason);
                Err(Unavailable { reason, hint: other.hint, ..unavailable })
            }
        }
    }

    /// The first model there is a key for.
    pub fn pick(&self) -> Option<ModelSpec> {
        const USUAL: [(Interface, &str); 3] = [
            (Interface::Anthropic, "claude-sonnet-4-5"),
            (Interface::Chat(Dialect::OpenAi), "gpt-5"),
            (Interface::Chat(Dialect::OpenRouter), "anthropic/claude-sonnet-4.5"),
        ];
        let has_key = |interface: Interface| {
            let key = interface.key_variable().and_then(|name| (self.variable)(name));
            key.is_some_and(|key| !key.trim().is_empty())
        };
        let (interface, name) = USUAL.into_iter().find(|(interface, _)| has_key(*interface))?;
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
    fn a_model_is_named_by_who_is_asked_and_by_its_name_there() {
        assert_eq!(spec("anthropic:claude-sonnet-4-5").name, "claude-sonnet-4-5");
        assert_eq!(spec("ollama:qwen3:8b").name, "qwen3:8b");
        assert_eq!(spec("claude_tool:x").interface, Interface::Anthropic);
        let endpoint = spec("openai-endpoint:http://127.0.0.1:8000/v1#qwen");
        assert_eq!((endpoint.base_url.as_deref(), endpoint.name.as_str()), (Some("http://127.0.0.1:8000/v1"), "qwen"));
        for text in ["anthropic:a", "openai-endpoint:http://h/v1#m", "scripted:./a:b.yaml"] {
            assert_eq!(spec(text).to_string(), text);
        }
        let refusal = |text: &str| text.parse::<ModelSpec>().unwrap_err().to_string();
        insta::assert_snapshot!(["gpt-5", "gpt:5", "openai-endpoint:http://h/v1", "openai:"].map(refusal).join("\n"), @"
        `gpt-5` does not say who is asked; there are anthropic, openai, openrouter, openai-endpoint, ollama, scripted, manual, claude-code
        there is no interface `gpt`; there are anthropic, openai, openrouter, openai-endpoint, ollama, scripted, manual, claude-code
        `openai-endpoint:http://h/v1` does not name a model: it follows a #
        `openai:` names no model
        ");
    }

    fn with<T>(variables: &[(&str, &str)], ask: impl Fn(&Providers<'_>) -> T) -> T {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let http = |_: &str| HttpClient::new(wharf_io::HttpSettings::default()).map_err(|error| error.to_string());
        ask(&Providers { variable: &variable, http: &http, emulate_tools: false })
    }

    fn made(text: &str, variables: &[(&str, &str)]) -> Result<Arc<dyn Model>, Unavailable> {
        with(variables, |providers| providers.make(&spec(text)))
    }

    #[test]
    fn who_cannot_be_asked_is_stood_in_for_by_the_one_it_names() {
        let instead = |text: &str, variables: &[(&str, &str)]| {
            with(variables, |providers| providers.make_or_fall_back(&spec(text)))
        };
        let key = [("ANTHROPIC_API_KEY", "k")];
        let ResolvedModel { model, instead_of } = instead("claude-code:claude-sonnet-4-5", &key).ok().unwrap();
        assert_eq!((model.interface(), model.name()), ("anthropic", "claude-sonnet-4-5"));
        assert_eq!(instead_of.unwrap().interface, "claude-code");
        assert!(instead("anthropic:x", &key).ok().unwrap().instead_of.is_none());
        let neither = instead("claude-code:x", &[]).err().unwrap().to_string();
        assert!(neither.contains("neither can anthropic: ANTHROPIC_API_KEY is not set"), "{neither}");
        assert!(instead("openai:x", &key).is_err());
    }

    #[test]
    fn who_cannot_be_asked_says_why_and_what_to_do() {
        assert!(made("anthropic:x", &[("ANTHROPIC_API_KEY", "k")]).is_ok() && made("ollama:x", &[]).is_ok());
        let refused = |text: &str| made(text, &[]).err().unwrap();
        let missing = refused("openai:gpt-5");
        assert_eq!(missing.to_string(), "openai cannot be used: OPENAI_API_KEY is not set");
        assert_eq!(missing.hint, "set OPENAI_API_KEY, or choose another model with -m");
        assert_eq!(refused("claude-code:x").fallback, Some("anthropic"));
        assert!(refused("openai-endpoint:nowhere#x").to_string().contains("no http or https address"));
    }

    #[test]
    fn the_first_model_with_a_key_is_picked() {
        let picked = |variables: &[(&str, &str)]| {
            with(variables, |providers| providers.pick().map(|spec| spec.interface.as_str()))
        };
        assert_eq!(picked(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", " ")]), Some("openai"));
        assert_eq!(picked(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]), Some("anthropic"));
        assert_eq!(picked(&[]), None);
    }
}
