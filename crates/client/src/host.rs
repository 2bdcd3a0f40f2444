//! What a server may ask of, and tell, the host that uses it.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::Json;

/// The host's side of a session. Every method has an answer for hosts that have nothing to say.
///
/// While a question is being answered the clocks of this server's calls stand still: a deadline measures the server,
/// not the person.
pub trait Host: Send + Sync + 'static {
    /// What the host can do; servers are told, and only this may be asked of it.
    fn abilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// The server wants something from a person.
    fn elicit(&self, _request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(std::future::ready(ElicitationAnswer::Decline))
    }

    /// The server wants a model's answer; request and result have the protocol's own shape.
    fn sample(&self, _request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        Box::pin(std::future::ready(Err(Refusal("this host has no model to offer".to_owned()))))
    }

    /// The folders the server may work in.
    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// The server tells something. Notices come one after the other, in the order they were sent.
    fn notice(&self, _notice: Notification) {}
}

/// A host that answers nothing and listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// What a host can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// It can put a form before a person.
    pub elicitation: bool,
    /// It can ask a model.
    pub sampling: bool,
    /// It can name folders.
    pub roots: bool,
}

/// A question to a person.
#[derive(Clone, Debug)]
pub struct Elicitation {
    /// What the server says.
    pub message: String,
    /// The form, as a schema, if it is a form.
    pub schema: Option<Json>,
    /// The page to visit, if it is a page.
    pub url: Option<String>,
    /// The request as it was sent.
    pub raw: Json,
}

impl Elicitation {
    /// What the form says if nobody changes anything in it: the defaults of its fields.
    pub fn defaults(&self) -> Json {
        let schema = self.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let given = fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
        Value::Object(given.collect()).into()
    }
}

/// What the person answered.
#[derive(Clone, Debug)]
pub enum ElicitationAnswer {
    /// Yes, with the form's content; a page has none.
    Accept(Option<Json>),
    /// No.
    Decline,
    /// They went away.
    Cancel,
}

/// Why the host does not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// A folder a server may work in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Its address, `file://` and a path.
    pub uri: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Something a server tells without being asked.
#[derive(Clone, Debug)]
pub enum Notification {
    /// A line for the log.
    Log {
        /// How serious.
        level: Option<LogLevel>,
        /// Who says it.
        logger: Option<String>,
        /// What is said: any JSON.
        data: Json,
    },
    /// The list of tools is another one now.
    ToolsChanged,
    /// The list of prompts is another one now.
    PromptsChanged,
    /// The list of resources is another one now.
    ResourcesChanged,
    /// One resource has another content now.
    ResourceUpdated {
        /// Its address.
        uri: String,
    },
    /// Anything else.
    Other {
        /// The method.
        method: String,
        /// Its parameters.
        params: Option<Json>,
    },
    /// The host did not keep up: so many notices before the next one were dropped.
    Lagged(u64),
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// The severities of RFC 5424.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For finding faults.
    Debug,
    /// For information.
    Info,
    /// Normal but worth a look.
    Notice,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// A critical condition.
    Critical,
    /// Action must be taken.
    Alert,
    /// The system is unusable.
    Emergency,
}
