//! One file a command.

pub(crate) mod add;
pub(crate) mod approve;
pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod switch;
pub(crate) mod tools;
