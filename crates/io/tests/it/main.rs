//! Children as the system sees them: real processes, real signals, `/proc` as the judge. And HTTP over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod child;
mod http;
mod managed;
