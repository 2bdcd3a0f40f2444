//! What a registry knows about a server: a `server.json`, and its state in the registry.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The key of the registry's own metadata.
const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";
const MAX_NAME_BYTES: usize = 200;
const MAX_VERSION_BYTES: usize = 255;
/// Longer texts are cut.
const MAX_TEXT_CHARS: usize = 500;
/// How many packages, remotes, arguments and variables of one server are read.
const MAX_ITEMS: usize = 64;

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
    #[serde(default, deserialize_with = "some_items")]
    pub(super) runtime_arguments: Vec<RawInput>,
    #[serde(default, deserialize_with = "some_items")]
    pub(super) package_arguments: Vec<RawInput>,
    #[serde(default, deserialize_with = "some_items")]
    pub(super) environment_variables: Vec<RawInput>,
}

/// A transport. That of a package is usually `stdio` and has no URL.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RawRemote {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) url: String,
    #[serde(default, deserialize_with = "some_items")]
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
    #[serde(default, deserialize_with = "some_items")]
    pub(super) choices: Vec<String>,
    #[serde(default)]
    pub(super) variables: Map<String, Value>,
}

/// Reads a list whose length is limited. `null` is an empty one.
fn some_items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut items = Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default();
    items.truncate(MAX_ITEMS);
    Ok(items)
}

impl RegistryServer {
    /// Reads one element of a list, or the answer about one server; fails with the reason.
    pub(super) fn from_response(response: &Value) -> Result<Self, String> {
        let server = response.get("server").filter(|server| server.is_object()).ok_or("it has no `server`")?;
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let cut = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
        let name = text("name").filter(|name| is_server_name(name)).ok_or("the server has no valid name")?;
        let version = text("version").filter(|version| (1..=MAX_VERSION_BYTES).contains(&version.len()));
        let meta = &response["_meta"][OFFICIAL_META];
        let repository = server["repository"]["url"].as_str().or_else(|| text("websiteUrl"));
        Ok(Self {
            name: name.to_owned(),
            version: version.ok_or("the server has no version")?.to_owned(),
            title: text("title").map(cut),
            description: cut(text("description").unwrap_or_default()),
            repository: repository.map(cut),
            status: match meta["status"].as_str().or_else(|| text("status")) {
                Some("deprecated") => LifecycleStatus::Deprecated,
                Some("deleted") => LifecycleStatus::Deleted,
                _ => LifecycleStatus::Active,
            },
            status_message: meta["statusMessage"].as_str().filter(|message| !message.is_empty()).map(cut),
            packages: items(&server["packages"]),
            remotes: items(&server["remotes"]),
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
        let mut seen = std::collections::HashSet::new();
        kinds.retain(|kind| seen.insert(*kind));
        kinds
    }
}

/// Reads the items of a list that can be read.
fn items<T: for<'de> Deserialize<'de>>(list: &Value) -> Vec<T> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().take(MAX_ITEMS).filter_map(|item| T::deserialize(item).ok()).collect()
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
    }
}
