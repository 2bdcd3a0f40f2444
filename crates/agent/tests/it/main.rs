//! What models and runs do, against providers that say what they are told to say.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod models;
