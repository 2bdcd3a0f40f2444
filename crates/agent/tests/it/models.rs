//! The models behind wires, all of them against the same expectations.

mod conformance;
mod emulated;
mod faults;
mod kit;
mod outcomes;
mod quirks;
mod requests;
mod round_trip;
