//! One file a command.

pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod tools;
