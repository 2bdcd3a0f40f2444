//! One file a command.

pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod run;
pub(crate) mod tools;
