//! What a scripted server offers and how it answers, as data, so that it can be handed to a child process.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A server. Without rules it answers everything as a good server would; its tools `echo` and `add` work.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    /// The eras of the protocol it speaks.
    pub eras: Eras,
    /// The revision it answers with; the one it was asked for if absent.
    pub revision: Option<String>,
    /// Its tools, as they are listed.
    pub tools: Vec<Value>,
    /// Its prompts.
    pub prompts: Vec<Value>,
    /// Its resources.
    pub resources: Vec<Value>,
    /// Its resource templates.
    pub templates: Vec<Value>,
    /// How many items a page has; all if absent.
    pub page_size: Option<usize>,
    /// What it does before it reads anything.
    pub at_start: Vec<Step>,
    /// How it answers, in place of what a good server would do. The first rule that fits counts.
    pub rules: Vec<Rule>,
}

/// Which eras of the protocol a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Eras {
    /// With a handshake; it has not heard of anything else.
    #[default]
    Legacy,
    /// Without, since 2026-07-28: it refuses a handshake.
    Modern,
    /// Either, as it is spoken to.
    Both,
}

/// What to do about one kind of message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// The method; `GET` and `DELETE` stand for HTTP requests of that kind, `POST` for one where only a GET is expected.
    pub method: String,
    /// The name in its parameters, if it has to be a certain one.
    pub name: Option<String>,
    /// How often the rule applies; always if absent.
    pub times: Option<u32>,
    /// What is done.
    pub steps: Vec<Step>,
}

/// One thing a server does. `{id}` in a text stands for the id of the request that is being answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Answers with a result.
    Result(Value),
    /// Answers with a text block.
    Text(String),
    /// Answers with an error of the protocol.
    Error(i64, String),
    /// Does what a good server would do.
    Normally,
    /// Writes a line as it stands.
    Line(String),
    /// Writes bytes as they stand, without a line feed.
    Bytes(Vec<u8>),
    /// Writes a line of so many `x`, between two texts.
    Flood(String, usize, String),
    /// Sends a notification.
    Notify(String, Value),
    /// Reports progress of the request that is being answered.
    Progress(f64, f64, String),
    /// Asks the client something and waits; the answer can be used by [`Step::EchoAnswer`].
    Ask(String, Value),
    /// Answers with the client's answer as text.
    EchoAnswer,
    /// Does nothing for so many milliseconds.
    Wait(u64),
    /// Never goes on.
    Hang,
    /// Stops reading its input, for ever.
    StopReading,
    /// Ends the connection without a word.
    HangUp,
    /// Makes an empty file, as a sign that it has come so far.
    Touch(String),
    /// Writes a line to stderr (only as a child process).
    Stderr(String),
    /// Writes so many bytes of lines to stderr (only as a child process).
    StderrFlood(usize),
    /// Ends the process with this status (only as a child process).
    Exit(i32),
    /// Ends the process with this status the first time this file is not there, and makes it.
    ExitOnce(i32, String),
    /// Ends the process with this status while another process that has done this with the same file lives.
    ExitIfRunning(i32, String),
    /// Starts a process that ignores SIGTERM and goes on for long, and writes its id to a file.
    Grandchild(String),
    /// From now on, ignores the end of its input and SIGTERM (only as a child process).
    IgnoreShutdown,
    /// Answers the HTTP request with exactly this (only over HTTP, as everything below).
    Http {
        /// The status.
        status: u16,
        /// The headers; nothing is added but the length.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// Ends the event stream of the response, whether or not the answer has been sent.
    EndStream,
    /// Drops the whole connection at once; a client over TCP sees a reset.
    Reset,
    /// Sends the head of a JSON response with a length of 1000, and then nothing.
    Stall,
    /// Writes text into the event stream as it stands.
    RawEvent(String),
}

impl Script {
    /// A server with the tools `echo` and `add`.
    pub fn good() -> Self {
        Self::default()
            .tool(json!({"name": "echo", "description": "Says it again",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}))
            .tool(json!({"name": "add", "inputSchema": {"type": "object", "required": ["a", "b"],
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}))
    }

    /// The same in the modern era: no handshake, no session, and every request has to say who asks.
    pub fn modern() -> Self {
        Self { eras: Eras::Modern, ..Self::good() }
    }

    /// The same in both eras.
    pub fn dual_era() -> Self {
        Self { eras: Eras::Both, ..Self::good() }
    }

    /// With one more tool.
    #[must_use]
    pub fn tool(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// With one more tool of this name that takes anything.
    #[must_use]
    pub fn any_tool(self, name: &str) -> Self {
        self.tool(json!({"name": name, "inputSchema": {"type": "object"}}))
    }

    /// Does `steps` for every call of this tool.
    #[must_use]
    pub fn on_call(self, tool: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule("tools/call", Some(tool), None, steps)
    }

    /// Does `steps` for every message with this method.
    #[must_use]
    pub fn on(self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule(method, None, None, steps)
    }

    /// Does `steps` for the next message with this method, once.
    #[must_use]
    pub fn once(self, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule(method, None, Some(1), steps)
    }

    /// Does `steps` before it reads anything.
    #[must_use]
    pub fn at_start(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.at_start = steps.into();
        self
    }

    /// Does `steps` for so many messages with this method.
    #[must_use]
    pub fn times(self, times: u32, method: &str, steps: impl Into<Vec<Step>>) -> Self {
        self.rule(method, None, Some(times), steps)
    }

    fn rule(mut self, method: &str, name: Option<&str>, times: Option<u32>, steps: impl Into<Vec<Step>>) -> Self {
        let (method, name, steps) = (method.to_owned(), name.map(str::to_owned), steps.into());
        self.rules.push(Rule { method, name, times, steps });
        self
    }
}
