//! The host's side of a session: it answers requests of the server and receives its notifications.

use std::ffi::OsStr;
use std::path::Path;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_io::percent;
use wharf_protocol::Json;

/// Answers a server's requests and receives its notifications.
///
/// Every method has a default, so that a host implements only what it supports.
///
/// While a method runs, the deadlines of this server's calls are paused: they measure the server, not the user.
pub trait Host: Send + Sync + 'static {
    /// Returns the requests that this host supports. The session announces them to the server and refuses all others.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// Asks the user for input. The default declines.
    fn elicit(&self, _request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(std::future::ready(ElicitationAnswer::Decline))
    }

    /// Samples a model. The request and the result are those of `sampling/createMessage`. The default refuses.
    fn sample(&self, _request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        Box::pin(std::future::ready(Err(Refusal("this host has no model".to_owned()))))
    }

    /// Returns the directories that the server may use. The default returns none.
    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Learns that the list of tools changed, before anything is processed that the server sent later. It must not block:
    /// the notification follows, but it may be delayed.
    fn tools_changed(&self) {}

    /// Receives a notification. Notifications arrive one after the other, in the order in which they were sent.
    fn notify(&self, _notification: Notification) {}
}

/// A host that supports nothing and ignores notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// The kinds of requests that a [`Host`] supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// The host can ask the user for input; see [`Host::elicit`].
    pub elicitation: bool,
    /// The host can sample a model; see [`Host::sample`].
    pub sampling: bool,
    /// The host can list directories; see [`Host::roots`].
    pub roots: bool,
}

/// A server's request for user input.
#[derive(Clone, Debug)]
pub struct Elicitation {
    /// The server's message to the user.
    pub message: String,
    /// The JSON Schema of the form, if the server requests one.
    pub schema: Option<Json>,
    /// The URL to open, if the server requests that.
    pub url: Option<String>,
    /// The parameters of the request as sent.
    pub raw: Json,
}

impl Elicitation {
    /// Returns the form's content with the default of every field that has one.
    pub fn defaults(&self) -> Json {
        let schema = self.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let given = fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
        Value::Object(given.collect()).into()
    }
}

/// The user's answer to an [`Elicitation`].
#[derive(Clone, Debug)]
pub enum ElicitationAnswer {
    /// The user accepted, with the content of the form. A URL has no content.
    Accept(Option<Json>),
    /// The user declined.
    Decline,
    /// The user dismissed the request without an answer.
    Cancel,
}

/// The reason why a host refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// A directory that a server may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The `file://` URI of the directory.
    pub uri: String,
    /// A name to display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Root {
    /// Returns the root for a directory; `None` if its path is relative or not UTF-8.
    pub fn of_directory(path: &Path) -> Option<Self> {
        let text = path.to_str().filter(|_| path.is_absolute())?;
        let encoded: Vec<String> = text.split('/').map(percent::encode).collect();
        let name = path.file_name().and_then(OsStr::to_str).map(str::to_owned);
        Some(Self { uri: format!("file://{}", encoded.join("/")), name })
    }
}

/// A notification of a server.
#[derive(Clone, Debug)]
pub enum Notification {
    /// A log message.
    Log {
        /// The severity, if it is a known one.
        level: Option<LogLevel>,
        /// The component that logged it.
        logger: Option<String>,
        /// The message: any JSON.
        data: Json,
    },
    /// The list of tools changed.
    ToolsChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The list of resources changed.
    ResourcesChanged,
    /// The content of a subscribed resource changed.
    ResourceUpdated {
        /// The URI of the resource.
        uri: String,
    },
    /// Any other notification.
    Other {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Json>,
    },
    /// The host was too slow: this many notifications before the next one were dropped.
    Lagged(u64),
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The work done so far, in the server's unit.
    pub progress: f64,
    /// The total work, if known.
    pub total: Option<f64>,
    /// A message to display.
    pub message: Option<String>,
}

/// A log severity of RFC 5424.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Debugging information.
    Debug,
    /// Informational messages.
    Info,
    /// Normal but significant events.
    Notice,
    /// Warnings.
    Warning,
    /// Errors.
    Error,
    /// Critical conditions.
    Critical,
    /// Conditions that need immediate action.
    Alert,
    /// An unusable system.
    Emergency,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_directory_is_a_file_uri() {
        let root = Root::of_directory(Path::new("/home/me/my project#1")).expect("an absolute path");
        assert_eq!(root, Root { uri: "file:///home/me/my%20project%231".into(), name: Some("my project#1".into()) });
        assert_eq!(Root::of_directory(Path::new("project")), None);
    }
}
