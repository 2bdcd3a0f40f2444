//! What a scripted server offers and how it responds, as data that a child process can load.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A server. Without rules it responds to everything correctly; its tools `echo` and `add` work.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    /// The supported eras of the protocol.
    pub eras: Eras,
    /// The revision in the handshake; the requested one if absent.
    pub revision: Option<String>,
    /// The entries of `tools/list`.
    pub tools: Vec<Value>,
    /// The entries of `prompts/list`.
    pub prompts: Vec<Value>,
    /// The entries of `resources/list`.
    pub resources: Vec<Value>,
    /// The entries of `resources/templates/list`.
    pub templates: Vec<Value>,
    /// Items per page; all if absent.
    pub page_size: Option<usize>,
    /// Steps to play before reading anything.
    pub at_start: Vec<Step>,
    /// Replacements for the correct responses. The first matching rule applies.
    pub rules: Vec<Rule>,
}

/// The eras of the protocol that a server supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Eras {
    /// Only with a handshake.
    #[default]
    Legacy,
    /// Only without, since 2026-07-28: refuses a handshake.
    Modern,
    /// Both, as the client chooses.
    Both,
}

/// The steps for one kind of message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// The method; `GET` and `DELETE` match HTTP requests with that method, `POST` one where only a GET is expected.
    pub method: String,
    /// The required name in the parameters, if any.
    pub name: Option<String>,
    /// How often the rule applies; unlimited if absent.
    pub times: Option<u32>,
    /// The steps to play.
    pub steps: Vec<Step>,
}

/// One action of a server. `{id}` in a text is replaced by the id of the current request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Responds with a result.
    Result(Value),
    /// Responds with a text block.
    Text(String),
    /// Responds with a JSON-RPC error.
    Error(i64, String),
    /// Responds correctly.
    Normally,
    /// Writes a line unchanged.
    Line(String),
    /// Writes bytes unchanged, without a line feed.
    Bytes(Vec<u8>),
    /// Writes a line of this many `x` between two texts.
    Flood(String, usize, String),
    /// Sends a notification.
    Notify(String, Value),
    /// Reports progress of the current request.
    Progress(f64, f64, String),
    /// Sends a request to the client and waits for the response, which [`Step::EchoAnswer`] can use.
    Ask(String, Value),
    /// Responds with the client's response as text.
    EchoAnswer,
    /// Waits for this many milliseconds.
    Wait(u64),
    /// Waits forever.
    Hang,
    /// Stops reading its input forever.
    StopReading,
    /// Closes the connection without a response.
    HangUp,
    /// Creates an empty file, as a signal to the test.
    Touch(String),
    /// Waits until a file exists.
    AwaitFile(String),
    /// Writes a line to stderr (only as a child process).
    Stderr(String),
    /// Writes lines with this many bytes to stderr (only as a child process).
    StderrFlood(usize),
    /// Exits with this status (only as a child process).
    Exit(i32),
    /// Exits with this status if this file does not exist, and creates it.
    ExitOnce(i32, String),
    /// Exits with this status if another process that played this step with the same file is still running.
    ExitIfRunning(i32, String),
    /// Starts a long-running process that ignores SIGTERM, and writes its id to a file.
    Grandchild(String),
    /// From now on, ignores the end of its input and SIGTERM (only as a child process).
    IgnoreShutdown,
    /// Responds to the HTTP request with exactly this (only over HTTP, like everything below).
    Http {
        /// The status.
        status: u16,
        /// The headers; only the length is added.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// Ends the event stream of the response, even before the JSON-RPC response.
    EndStream,
    /// Drops the whole connection; a client over TCP sees a reset.
    Reset,
    /// Sends the head of a JSON response with a length of 1000, then nothing.
    Stall,
    /// Writes text into the event stream unchanged.
    RawEvent(String),
}

impl Script {
    /// Creates a correct server with the tools `echo` and `add`.
    pub fn good() -> Self {
        Self::default()
            .tool(json!({"name": "echo", "description": "Says it again",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}))
            .tool(json!({"name": "add", "inputSchema": {"type": "object", "required": ["a", "b"],
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}))
    }

    /// Like [`Script::good`], in the modern era: no handshake, no session, and client metadata in every request.
    pub fn modern() -> Self {
        Self { eras: Eras::Modern, ..Self::good() }
    }

    /// Like [`Script::good`], in both eras.
    pub fn dual_era() -> Self {
        Self { eras: Eras::Both, ..Self::good() }
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a tool of this name that accepts any arguments.
    #[must_use]
    pub fn any_tool(self, name: &str) -> Self {
        self.tool(json!({"name": name, "inputSchema": {"type": "object"}}))
    }

    /// Plays `steps` for every call of this tool.
    #[must_use]
    pub fn on_call(self, tool: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule("tools/call", Some(tool), None, steps)
    }

    /// Plays `steps` for every message with this method.
    #[must_use]
    pub fn on(self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule(method, None, None, steps)
    }

    /// Plays `steps` for the next message with this method only.
    #[must_use]
    pub fn once(self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule(method, None, Some(1), steps)
    }

    /// Plays `steps` before reading anything.
    #[must_use]
    pub fn at_start(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.at_start = steps.into();
        self
    }

    /// Plays `steps` for this many messages with this method.
    #[must_use]
    pub fn times(self, times: u32, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule(method, None, Some(times), steps)
    }

    fn rule(mut self, method: &str, name: Option<&str>, times: Option<u32>, steps: impl Into<Vec<Step>>) -> Self {
        let method = method.to_owned();
        let name = name.map(str::to_owned);
        let steps = steps.into();
        self.rules.push(Rule { method, name, times, steps });
        self
    }
}
