//! One module per command: its arguments and its `run` function.

pub(crate) mod add;
pub(crate) mod approve;
pub(crate) mod call;
pub(crate) mod common;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;
mod listing;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod resources;
pub(crate) mod run;
mod server_row;
pub(crate) mod switch;
pub(crate) mod tools;
pub(crate) mod verify;
