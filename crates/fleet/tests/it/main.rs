//! What a fleet does, seen from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod config;
