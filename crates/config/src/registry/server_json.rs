//! What a registry knows about a server: a `server.json`, and its state in the registry.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The key of the registry's own metadata.
const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";
const MAX_NAME_BYTES: usize = 200;
const MAX_VERSION_BYTES: usize = 255;
/// Longer texts are cut.
const MAX_TEXT_CHARS: usize = 500;
/// How many packages, remotes, arguments, variables, headers and choices a server may have. To leave some out could change
/// what the others mean.
const MAX_ITEMS: usize = 64;
const MAX_LABEL_CHARS: usize = 200;
const MAX_IDENTIFIER_CHARS: usize = 500;
const MAX_VALUE_CHARS: usize = 4_000;
/// How much of the type of a package is shown.
const MAX_KIND_CHARS: usize = 40;

/// Why what a registry says about a server cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServer {
    /// The response is about something else.
    #[error("it has no `server`")]
    NoServer,
    /// The name is missing or is not a name.
    #[error("the server has no valid name")]
    Name,
    /// The version is missing or longer than any real one.
    #[error("the server has no version")]
    Version,
    /// A text is longer than any real one.
    #[error("`{field}` is longer than {limit} characters")]
    TooLong {
        /// The field of the text.
        field: &'static str,
        /// The longest text that is accepted.
        limit: usize,
    },
    /// A list is longer than any real one.
    #[error("`{field}` has more than {limit} items")]
    TooMany {
        /// The field of the list.
        field: &'static str,
        /// The longest list that is accepted.
        limit: usize,
    },
}

/// A version of a server in a registry.
#[derive(Clone, Debug)]
pub struct RegistryServer {
    /// The name in the registry: `NAMESPACE/NAME`.
    pub name: String,
    /// The version.
    pub version: String,
    /// The title, if it has one.
    pub title: Option<String>,
    /// What the server does.
    pub description: String,
    /// Where its source code is.
    pub repository: Option<String>,
    /// Its state in the registry.
    pub status: LifecycleStatus,
    /// What the registry says about the state.
    pub status_message: Option<String>,
    pub(super) packages: Vec<RawPackage>,
    pub(super) remotes: Vec<RawRemote>,
}

/// The state of a version in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleStatus {
    /// It can be used.
    Active,
    /// Its authors recommend another version or server.
    Deprecated,
    /// It was removed from the registry.
    Deleted,
}

impl LifecycleStatus {
    /// The name of the status in the registry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Deleted => "deleted",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawPackage {
    pub(super) registry_type: String,
    #[serde(default)]
    pub(super) registry_base_url: Option<String>,
    pub(super) identifier: String,
    #[serde(default)]
    pub(super) version: Option<String>,
    #[serde(default)]
    pub(super) runtime_hint: Option<String>,
    #[serde(default)]
    pub(super) transport: Option<RawRemote>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) runtime_arguments: Vec<RawInput>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) package_arguments: Vec<RawInput>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) environment_variables: Vec<RawInput>,
}

/// A transport. That of a package is usually `stdio` and has no URL.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RawRemote {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) url: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) headers: Vec<RawInput>,
    #[serde(default)]
    pub(super) variables: Map<String, Value>,
}

/// An argument, a variable or a header.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawInput {
    /// `positional` or `named`, of an argument.
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    /// Of a variable, a header or a named argument.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The label of a positional argument.
    #[serde(default)]
    pub(super) value_hint: Option<String>,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) is_required: bool,
    #[serde(default)]
    pub(super) is_secret: bool,
    #[serde(default)]
    pub(super) value: Option<String>,
    #[serde(default)]
    pub(super) default: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) choices: Vec<String>,
    #[serde(default)]
    pub(super) variables: Map<String, Value>,
}

/// Reads a list. `null` is an empty one.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

fn check_text(field: &'static str, text: Option<&str>, limit: usize) -> Result<(), InvalidServer> {
    let is_long = text.is_some_and(|text| text.chars().nth(limit).is_some());
    if is_long { Err(InvalidServer::TooLong { field, limit }) } else { Ok(()) }
}

fn check_count(field: &'static str, count: usize) -> Result<(), InvalidServer> {
    if count > MAX_ITEMS { Err(InvalidServer::TooMany { field, limit: MAX_ITEMS }) } else { Ok(()) }
}

fn check_inputs(field: &'static str, inputs: &[RawInput]) -> Result<(), InvalidServer> {
    check_count(field, inputs.len())?;
    inputs.iter().try_for_each(RawInput::check)
}

fn check_variables(variables: &Map<String, Value>) -> Result<(), InvalidServer> {
    check_count("variables", variables.len())?;
    for (name, variable) in variables {
        check_text("variables", Some(name), MAX_LABEL_CHARS)?;
        // Variables of variables are not used.
        RawInput::deserialize(variable).unwrap_or_default().check_texts()?;
    }
    Ok(())
}

impl RawPackage {
    /// Checks that all parts have a size that can be reviewed.
    pub(super) fn check(&self) -> Result<(), InvalidServer> {
        check_text("identifier", Some(&self.identifier), MAX_IDENTIFIER_CHARS)?;
        check_inputs("runtimeArguments", &self.runtime_arguments)?;
        check_inputs("packageArguments", &self.package_arguments)?;
        check_inputs("environmentVariables", &self.environment_variables)
    }
}

impl RawRemote {
    /// Checks that all parts have a size that can be reviewed.
    pub(super) fn check(&self) -> Result<(), InvalidServer> {
        check_text("url", Some(&self.url), MAX_VALUE_CHARS)?;
        check_variables(&self.variables)?;
        check_inputs("headers", &self.headers)
    }
}

impl RawInput {
    fn check(&self) -> Result<(), InvalidServer> {
        self.check_texts()?;
        check_variables(&self.variables)
    }

    fn check_texts(&self) -> Result<(), InvalidServer> {
        check_text("name", self.name.as_deref(), MAX_LABEL_CHARS)?;
        check_text("valueHint", self.value_hint.as_deref(), MAX_LABEL_CHARS)?;
        check_text("value", self.value.as_deref(), MAX_VALUE_CHARS)?;
        check_text("default", self.default.as_deref(), MAX_VALUE_CHARS)?;
        check_count("choices", self.choices.len())?;
        self.choices.iter().try_for_each(|choice| check_text("choices", Some(choice), MAX_LABEL_CHARS))
    }
}

/// Cuts a text that is only shown.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

impl RegistryServer {
    /// Reads one element of a list, or the answer about one server; fails with the reason.
    pub(super) fn from_response(response: &Value) -> Result<Self, InvalidServer> {
        let server = response.get("server").filter(|server| server.is_object()).ok_or(InvalidServer::NoServer)?;
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let name = text("name").filter(|name| is_server_name(name)).ok_or(InvalidServer::Name)?;
        let version = text("version").filter(|version| (1..=MAX_VERSION_BYTES).contains(&version.len()));
        let meta = &response["_meta"][OFFICIAL_META];
        let repository = server["repository"]["url"].as_str().or_else(|| text("websiteUrl"));
        Ok(Self {
            name: name.to_owned(),
            version: version.ok_or(InvalidServer::Version)?.to_owned(),
            title: text("title").map(cut),
            description: cut(text("description").unwrap_or_default()),
            repository: repository.map(cut),
            status: match meta["status"].as_str().or_else(|| text("status")) {
                Some("deprecated") => LifecycleStatus::Deprecated,
                Some("deleted") => LifecycleStatus::Deleted,
                _ => LifecycleStatus::Active,
            },
            status_message: meta["statusMessage"].as_str().filter(|message| !message.is_empty()).map(cut),
            packages: items("packages", &server["packages"])?,
            remotes: items("remotes", &server["remotes"])?,
        })
    }

    /// Whether the name, the title and the description together contain all words.
    pub(super) fn matches(&self, words: &[String]) -> bool {
        let title = self.title.as_deref().unwrap_or_default();
        let text = format!("{} {title} {}", self.name, self.description).to_lowercase();
        words.iter().all(|word| text.contains(&word.to_lowercase()))
    }

    /// Returns how the server is distributed: the types of its packages and remotes, each once.
    pub fn distribution(&self) -> Vec<&str> {
        let packages = self.packages.iter().map(|package| package.registry_type.as_str());
        let mut kinds: Vec<&str> = packages.chain(self.remotes.iter().map(|remote| remote.kind.as_str())).collect();
        for kind in &mut kinds {
            *kind = kind.char_indices().nth(MAX_KIND_CHARS).map_or(*kind, |(end, _)| &kind[..end]);
        }
        let mut seen = std::collections::HashSet::new();
        kinds.retain(|kind| seen.insert(*kind));
        kinds
    }
}

/// Reads the items of a list that can be read.
fn items<T: for<'de> Deserialize<'de>>(field: &'static str, list: &Value) -> Result<Vec<T>, InvalidServer> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    check_count(field, list.len())?;
    Ok(list.iter().filter_map(|item| T::deserialize(item).ok()).collect())
}

/// Whether a text is the name of a server in a registry: `NAMESPACE/NAME` of letters, digits, `.`, `-` and `_`.
pub fn is_server_name(text: &str) -> bool {
    let Some((namespace, name)) = text.split_once('/') else { return false };
    let is_part = |part: &str, extra: &[u8]| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
    };
    let has_letter = |part: &str| part.bytes().any(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_NAME_BYTES
        && is_part(namespace, b".-")
        && is_part(name, b"._-")
        && has_letter(namespace)
        && has_letter(name)
        && !text.starts_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_registry_are_told_from_paths_and_options() {
        for name in ["io.github.user/weather", "com.example/my_server", "a/b"] {
            assert!(is_server_name(name), "{name}");
        }
        for other in
            ["weather", "./x", "../x", "/usr/bin", "a/b/c", "@scope/pkg", "-a/b", "a/", "/b", "a b/c", "a/ü", "~/x"]
        {
            assert!(!is_server_name(other), "{other}");
        }
    }

    #[test]
    fn a_hostile_response_is_refused_or_cut() {
        let server = |server: Value| RegistryServer::from_response(&serde_json::json!({ "server": server }));
        assert!(server(serde_json::json!({"name": "evil\u{1b}[2J/x", "version": "1"})).is_err());
        assert!(server(serde_json::json!({"name": "a/b"})).is_err());
        assert!(RegistryServer::from_response(&serde_json::json!([])).is_err());
        let long = serde_json::json!({"name": "a/b", "version": "1", "description": "x".repeat(9000), "packages": [
            {"registryType": "npm"}, {"registryType": "npm", "identifier": "p", "choices": 3}, 7]});
        let read = server(long).unwrap();
        assert_eq!((read.description.len(), read.packages.len()), (MAX_TEXT_CHARS, 1));
        let many = serde_json::json!({"name": "a/b", "version": "1", "remotes": vec![0; MAX_ITEMS + 1]});
        assert_eq!(server(many).unwrap_err(), InvalidServer::TooMany { field: "remotes", limit: MAX_ITEMS });
    }
}
