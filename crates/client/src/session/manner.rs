//! How requests are made on a connection: bare, as in a session, or each with all that the server needs to know of us.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use wharf_protocol::{Fields, Json};

use super::rounds::Round;
use super::{SessionOptions, headers};
use crate::wire::{Asked, Limits, Line, OnProgress};
use crate::{CallErrorKind, Host, LogLevel, TraceContext};

/// The extension by which servers answer calls with a task that is to be followed.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What was agreed when the connection began.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// In a session, which knows who we are.
    Legacy,
    /// Every request by itself.
    Modern(Arc<Introduction>),
}

/// What every request says of us where there is no session.
#[derive(Debug)]
pub(super) struct Introduction {
    pub(super) revision: &'static str,
    client: Json,
    capabilities: Json,
}

impl Introduction {
    pub(super) fn new(revision: &'static str, host: &dyn Host, options: &SessionOptions) -> Self {
        let mut capabilities = capabilities(host, options);
        let extensions = capabilities.entry("extensions").or_insert_with(|| json!({}));
        if let Value::Object(extensions) = extensions {
            extensions.entry(TASKS).or_insert_with(|| json!({}));
        }
        Self { revision, client: client(options).into(), capabilities: Value::Object(capabilities).into() }
    }
}

/// What we can do.
pub(super) fn capabilities(host: &dyn Host, options: &SessionOptions) -> Map<String, Value> {
    let (abilities, mut capabilities) = (host.abilities(), Map::new());
    if abilities.elicitation {
        capabilities.insert("elicitation".into(), json!({ "form": {}, "url": {} }));
    }
    if abilities.sampling {
        capabilities.insert("sampling".into(), json!({}));
    }
    if abilities.roots {
        capabilities.insert("roots".into(), json!({}));
    }
    if !options.extensions.is_empty() {
        capabilities.insert("extensions".into(), Value::Object(options.extensions.clone()));
    }
    capabilities
}

/// Who we are.
pub(super) fn client(options: &SessionOptions) -> Value {
    json!({ "name": options.client_name, "version": options.client_version })
}

/// Makes requests on one connection, without keeping it alive.
#[derive(Clone)]
pub(super) struct Speaker {
    pub(super) line: Line,
    pub(super) manner: Manner,
    pub(super) wishes: Arc<Wishes>,
}

/// What the host wants of the server, whichever connection there is.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    log_level: Mutex<Option<LogLevel>>,
    /// The resources it wants to hear of.
    resources: watch::Sender<BTreeSet<String>>,
}

impl Wishes {
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    pub(super) fn resources(&self) -> watch::Receiver<BTreeSet<String>> {
        self.resources.subscribe()
    }

    /// Adds a resource; `false` if it was there.
    pub(super) fn add_resource(&self, uri: &str) -> bool {
        self.resources.send_if_modified(|resources| resources.insert(uri.to_owned()))
    }

    /// Takes it away; `false` if it was not there.
    pub(super) fn remove_resource(&self, uri: &str) -> bool {
        self.resources.send_if_modified(|resources| resources.remove(uri))
    }
}

/// One request, whatever the era.
pub(super) struct Request<'a, P> {
    pub(super) method: &'static str,
    /// An object.
    pub(super) params: &'a P,
    /// What it is about, for requests that have to say so in a header.
    pub(super) about: Option<&'a str>,
    pub(super) limits: Limits,
    /// Headers for this request alone, if there are any.
    pub(super) headers: Option<Arc<HeaderMap>>,
    /// Whether progress is welcome, and who hears of it.
    pub(super) progress: Welcome<'a>,
    pub(super) trace: Option<&'a TraceContext>,
    /// What else its `_meta` says.
    pub(super) meta: Option<&'a Object>,
    /// Under which id it was last sent, for who wants to know.
    pub(super) id: Option<&'a AtomicU64>,
    /// Whether the server has begun to work on it: it has answered, and wants more or promises more.
    pub(super) begun: bool,
}

/// What is done about progress.
pub(super) enum Welcome<'a> {
    Unwelcome,
    /// It shows that the server is alive.
    Noted,
    Heard(OnProgress<'a>),
}

impl<'a, P> Request<'a, P> {
    pub(super) fn new(method: &'static str, params: &'a P, limits: Limits) -> Self {
        Self {
            method,
            params,
            about: None,
            limits,
            headers: None,
            progress: Welcome::Unwelcome,
            trace: None,
            meta: None,
            id: None,
            begun: false,
        }
    }

    pub(super) fn about(mut self, name: &'a str) -> Self {
        self.about = Some(name);
        self
    }
}

#[derive(Serialize)]
struct Params<'a, P> {
    #[serde(flatten)]
    own: &'a P,
    #[serde(flatten)]
    round: Option<&'a Round>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    meta: Meta<'a>,
}

#[derive(Default, Serialize)]
struct Meta<'a> {
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress_token: Option<u64>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", skip_serializing_if = "Option::is_none")]
    client: Option<&'a Json>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'a Json>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", skip_serializing_if = "Option::is_none")]
    log_level: Option<LogLevel>,
    #[serde(flatten)]
    trace: Option<&'a TraceContext>,
    #[serde(flatten)]
    own: Option<&'a Object>,
}

impl Meta<'_> {
    fn is_empty(&self) -> bool {
        self.progress_token.is_none() && self.revision.is_none() && self.trace.is_none() && self.own.is_none()
    }
}

impl Speaker {
    pub(super) fn is_modern(&self) -> bool {
        matches!(self.manner, Manner::Modern(_))
    }

    /// Sends a request and waits for its answer. It can be sent again, in another round or on another connection.
    ///
    /// What is put together for it is no part of what is returned, so that waiting for many takes little.
    pub(super) fn send<'a, P: Serialize>(
        &'a self,
        request: &'a mut Request<'_, P>,
        round: Option<&'a Round>,
    ) -> impl Future<Output = Result<Json, CallErrorKind>> {
        let tracked = !matches!(request.progress, Welcome::Unwelcome);
        let on_progress = match &mut request.progress {
            Welcome::Heard(listener) => Some(&mut **listener as OnProgress<'_>),
            Welcome::Unwelcome | Welcome::Noted => None,
        };
        let mut headers = request.headers.clone();
        if self.is_modern()
            && self.line.takes_headers()
            && let Some(about) = request.about
        {
            Arc::make_mut(headers.get_or_insert_default()).insert(headers::NAME, headers::encoded(about));
        }
        let asked = Asked { method: request.method, limits: request.limits, headers, on_progress };
        let (params, trace, own, noted) = (request.params, request.trace, request.meta, request.id);
        let made = move |id| {
            if let Some(noted) = noted {
                noted.store(id, Ordering::Release);
            }
            Params { own: params, round, meta: self.meta(tracked.then_some(id), trace, own) }
        };
        self.line.request(asked, made)
    }

    fn meta<'a>(
        &'a self,
        progress_token: Option<u64>,
        trace: Option<&'a TraceContext>,
        own: Option<&'a Object>,
    ) -> Meta<'a> {
        match &self.manner {
            Manner::Legacy => Meta { progress_token, trace, own, ..Meta::default() },
            Manner::Modern(introduction) => Meta {
                progress_token,
                revision: Some(introduction.revision),
                client: Some(&introduction.client),
                capabilities: Some(&introduction.capabilities),
                log_level: self.wishes.log_level(),
                trace,
                own,
            },
        }
    }
}

/// Headers in the form of a request's, where none at all is the usual case.
pub(super) fn shared(headers: HeaderMap) -> Option<Arc<HeaderMap>> {
    (!headers.is_empty()).then(|| Arc::new(headers))
}

/// An object whose fields are written as they were read.
#[derive(Debug, Default)]
pub(super) struct Object(pub(super) Vec<(String, Json)>);

impl Object {
    pub(super) fn read(json: &Json) -> Result<Self, String> {
        Ok(Self(Fields::of(json)?.entries().collect()))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Takes a field out, however often it is there.
    pub(super) fn take(&mut self, key: &str) -> Option<Json> {
        let value = self.get(key).cloned();
        self.0.retain(|(name, _)| name != key);
        value
    }

    /// Takes `_meta` out, and what only we may say out of that.
    pub(super) fn split_meta(&mut self) -> Option<Self> {
        let mut meta = Self::read(&self.take("_meta")?).ok()?;
        meta.0.retain(|(name, _)| !name.starts_with("io.modelcontextprotocol/"));
        Some(meta)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
