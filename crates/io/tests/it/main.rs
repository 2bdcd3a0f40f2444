//! Child processes with real signals, checked through `/proc`, and HTTP over real sockets.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod child;
mod http;
mod managed;
