//! Model adapters against fake endpoints.

mod conformance;
mod embeddings;
mod emulation;
mod faults;
pub(crate) mod kit;
mod outcomes;
mod quirks;
mod requests;
mod round_trip;
