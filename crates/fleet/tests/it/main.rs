//! What a fleet does, seen from outside: servers in memory with a paused clock, real children, real sockets, files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod config;
mod fleet;
