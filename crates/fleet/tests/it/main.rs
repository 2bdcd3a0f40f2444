//! The behavior of a fleet from outside: servers in memory with a paused clock, real children, real sockets, files.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod catalog;
mod dispatch;
mod dispatch_commands;
mod dispatch_hooks;
mod dispatch_kit;
mod dispatch_output;
mod dispatch_policy;
mod fleet;
