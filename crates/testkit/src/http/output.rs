//! What a scripted server sends and receives, independent of the transport.

use bytes::Bytes;
use serde_json::Value;

use crate::script::Step;

/// One thing that a server sends, or a way to stop sending.
#[derive(Debug)]
pub(super) enum Output {
    /// A JSON-RPC message.
    Message(Value),
    /// A line that may be invalid.
    Line(String),
    /// Bytes to send unchanged.
    Raw(Bytes),
    /// A whole HTTP response.
    Response { status: u16, headers: Vec<(String, String)>, body: String },
    /// The head of a response whose body never arrives.
    Stall,
    /// The clean end of the stream.
    End,
    /// The end of the connection.
    HangUp,
    /// A reset of the connection.
    Reset,
}

/// A message of the client, with the steps of the rule that matches it.
pub(super) struct Incoming {
    pub(super) message: Value,
    pub(super) steps: Option<Vec<Step>>,
}
