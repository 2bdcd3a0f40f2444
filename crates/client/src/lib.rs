//! A client for MCP servers: one [`Session`] per server, over any transport and in either protocol era.
//!
//! A session connects on first use and reconnects after a crash. It checks arguments and results against the server's
//! schemas, ends every wait at a deadline, and reports for every failed call whether it may have run. A [`Transport`]
//! reaches the server; a [`Host`] answers the server's own requests and receives its notifications.

mod era;
mod error;
mod health;
mod host;
mod jsonrpc;
mod observer;
mod remote;
mod restarts;
mod schema;
mod session;
mod trace;
mod transport;
mod wire;

pub use era::{EraCache, InvalidProtocolMode, ProtocolMode};
pub use error::{
    CallError, CallErrorKind, ConnectError, ConnectErrorKind, Deadline, Evidence, HttpStatus, InputFailure,
    RefusalCause, SessionRefusal,
};
pub use futures_util::future::BoxFuture;
pub use health::Health;
pub use host::{
    ClientCapabilities, Elicitation, ElicitationAnswer, Host, LogLevel, NoHost, Notification, Progress, Refusal, Root,
};
pub use observer::{WireContent, WireEvent, WireObserver};
pub use remote::{InvalidRemote, is_reserved_header};
pub use schema::{Admission, Schema, SchemaError, SchemaViolation};
pub use session::{
    CallOptions, Deadlines, OnLoss, Phase, ResultCache, SavedSession, ServerInfo, Session, SessionOptions,
    SessionStatus,
};
pub use trace::{InvalidTraceParent, TraceContext};
#[cfg(feature = "websocket")]
pub use transport::WebSocket;
pub use transport::{
    ExitInfo, Frame, HeaderCommand, Http, HttpSse, InProcess, Incoming, Link, MAX_MESSAGE_BYTES, OpenError, Outgoing,
    PeerHandle, RemoteOptions, Stdio, Transport, session_loss,
};
pub use wharf_auth::AuthRequired;
pub use wharf_protocol::{Outcome, RetrySafety};
pub use wire::{PausableClock, Paused};
