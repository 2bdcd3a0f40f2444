//! Traits: ratings of a checkpoint, read into Wharf's notation, and written from a trait.

mod read;
mod write;

pub(super) use read::{Scope, legacy_traits, read};
pub(super) use write::write;
