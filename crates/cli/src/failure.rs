//! Something that was asked of a server and did not come: in words for a person, and in JSON for a program.

use serde::Serialize;
use wharf::{CallError, CallErrorKind, ConnectErrorKind, Json};

use crate::args::Globals;
use crate::exit::Exit;
use crate::render;

/// What was asked for. It is what `--json` shows first.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Subject<'a> {
    version: u32,
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// An error, and what it takes to tell it.
pub(crate) struct Failure<'a> {
    pub(crate) remote: bool,
    pub(crate) error: &'a CallError,
    /// What can be done, where the error itself does not say it.
    pub(crate) hint: Option<String>,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(server: &'a str) -> Self {
        Self { version: 1, server, tool: None, prompt: None, uri: None }
    }

    pub(crate) fn tool(server: &'a str, tool: &'a str) -> Self {
        Self { tool: Some(tool), ..Self::of(server) }
    }

    pub(crate) fn prompt(server: &'a str, prompt: &'a str) -> Self {
        Self { prompt: Some(prompt), ..Self::of(server) }
    }

    pub(crate) fn uri(server: &'a str, uri: &'a str) -> Self {
        Self { uri: Some(uri), ..Self::of(server) }
    }

    /// Something that is not the server's doing: `what` is said of the tool.
    pub(crate) async fn refused(self, globals: &Globals, what: &str, outcome: &'static str) -> Exit {
        let name = self.tool.or(self.prompt).or(self.uri).unwrap_or_default();
        let message = format!("the tool `{name}` {what}");
        render::error(&format!("{}: {message}", self.server), &[], None);
        if globals.json {
            let error = ShownError { message, outcome, ..ShownError::default() };
            render::json(&Shown { subject: self, error }).await;
        }
        Exit::Failed
    }
}

impl Failure<'_> {
    /// Tells it, and says how the program ends.
    pub(crate) async fn told(self, globals: &Globals, subject: Subject<'_>) -> Exit {
        let Self { remote, error, hint } = self;
        render::call_error(error, hint, remote);
        if globals.json {
            render::json(&Shown { subject, error: ShownError::from(error) }).await;
        }
        Exit::from(&error.kind)
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    error: ShownError<'a>,
}

/// An error as `--json` shows it.
#[derive(Default, Serialize)]
pub(crate) struct ShownError<'a> {
    message: String,
    /// Whether the call may have run.
    outcome: &'static str,
    /// The HTTP status, where that is the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    /// A result that does not fit its schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    stderr: &'a [String],
}

impl<'a> From<&'a CallError> for ShownError<'a> {
    fn from(error: &'a CallError) -> Self {
        let (data, result) = match &error.kind {
            CallErrorKind::Server { data, .. } => (data.as_ref(), None),
            CallErrorKind::Output { output, .. } => (None, Some(&output.raw)),
            _ => (None, None),
        };
        let status = match &error.kind {
            CallErrorKind::Http(status) | CallErrorKind::Connect(ConnectErrorKind::Http(status)) => Some(status.status),
            CallErrorKind::Connect(ConnectErrorKind::Auth(auth)) => Some(auth.status),
            _ => None,
        };
        let (message, outcome) = (error.kind.to_string(), error.outcome().as_str());
        Self { message, outcome, status, code: error.code(), data, result, stderr: &error.evidence.stderr }
    }
}
