//! One MCP server, however it misbehaves, as one reliable [`Session`].
//!
//! A session starts by itself when it is first used, checks what goes out and what comes back against the server's own
//! schemas, ends every wait at a deadline, tells apart what failed and what may have run, and starts again after a
//! crash. How a server is reached is a [`Transport`]; how the host answers what servers ask is a [`Host`].

mod era;
mod error;
mod health;
mod host;
mod restarts;
mod schema;
mod session;
mod trace;
mod transport;
mod wire;

pub use era::{EraCache, InvalidProtocolMode, ProtocolMode};
pub use error::{
    CallError, CallErrorKind, ConnectError, ConnectErrorKind, Deadline, Evidence, HttpStatus, RefusalCause,
    SessionRefusal,
};
pub use futures_util::future::BoxFuture;
pub use health::Health;
pub use host::{
    ClientCapabilities, Elicitation, ElicitationAnswer, Host, LogLevel, NoHost, Notification, Progress, Refusal, Root,
};
pub use schema::{Schema, SchemaViolation};
pub use session::{
    CallOptions, Deadlines, OnLoss, Phase, ResultCache, SavedSession, ServerInfo, Session, SessionOptions,
    SessionStatus,
};
pub use trace::{InvalidTraceParent, TraceContext};
pub use transport::{
    ExitInfo, Frame, HeaderCommand, Http, HttpSse, InProcess, Incoming, InvalidRemote, Link, MAX_MESSAGE_BYTES,
    OpenError, Outgoing, PeerHandle, RemoteOptions, Stdio, Transport, WebSocket, is_reserved_header, session_loss,
};
pub use wharf_auth::AuthRequired;
pub use wharf_protocol::Outcome;
