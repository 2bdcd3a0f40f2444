//! Hooks: code that sees calls before they are made and outputs before the model does.

use std::pin::Pin;
use std::task::{Context, Poll};

use wharf_client::BoxFuture;
use wharf_protocol::{Json, ServerName, ToolOutput};

use super::condition::Condition;
use crate::catalog::Entry;

/// Code that runs before or after calls. Both methods do nothing by default.
pub trait Hook: Send + Sync {
    /// Its name in traces.
    fn name(&self) -> &str;

    /// The calls that it runs for.
    fn condition(&self) -> &Condition;

    /// Runs before the call is made.
    fn before<'a>(&'a self, _call: &'a CallView<'a>) -> BoxFuture<'a, BeforeCall> {
        Box::pin(NothingBefore)
    }

    /// Runs after the tool has answered, before the model sees the output.
    fn after<'a>(&'a self, _call: &'a CallView<'a>, _output: &'a ToolOutput) -> BoxFuture<'a, AfterCall> {
        Box::pin(NothingAfter)
    }
}

/// The default of [`Hook::before`]. Boxing a type without size allocates nothing, and every call passes here.
struct NothingBefore;

impl Future for NothingBefore {
    type Output = BeforeCall;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<BeforeCall> {
        Poll::Ready(BeforeCall::proceed())
    }
}

/// The default of [`Hook::after`].
struct NothingAfter;

impl Future for NothingAfter {
    type Output = AfterCall;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<AfterCall> {
        Poll::Ready(AfterCall::Keep)
    }
}

/// A call as hooks see it.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'a> {
    /// The model's id for the call.
    pub id: &'a str,
    /// The tool's catalog entry.
    pub entry: &'a Entry,
    /// The arguments, without bound ones.
    pub arguments: &'a Json,
}

impl<'a> CallView<'a> {
    /// The name that the model called.
    pub fn name(&self) -> &'a str {
        &self.entry.name
    }

    /// The tool's server, if it has one.
    pub fn server(&self) -> Option<&'a ServerName> {
        self.entry.server.as_ref()
    }
}

/// The decision of a hook before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeCall {
    /// Proceed.
    Proceed(CallChanges),
    /// Proceed without asking the user. A rule that denies the call still applies.
    Allow(CallChanges),
    /// Proceed only if the user approves. Contains the reason.
    Ask(String, CallChanges),
    /// Do not make the call. Contains the reason.
    Block(String),
    /// The hook failed, and the call proceeds without it. Contains the reason.
    Failed(String),
}

/// Changes by a hook to a call that proceeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallChanges {
    /// New arguments.
    pub arguments: Option<Json>,
    /// Text for the model, appended to the output.
    pub context: Option<String>,
}

/// The decision of a hook after a call.
#[derive(Clone, Debug)]
pub enum AfterCall {
    /// Keep the output.
    Keep,
    /// Append this text to the output.
    Annotate(String),
    /// Replace the output by this one.
    Replace(ToolOutput),
    /// Replace the output by an error with this reason.
    Block(String),
    /// The hook failed, and the output stays unchanged. Contains the reason.
    Failed(String),
}

impl BeforeCall {
    /// Proceeds with the call unchanged.
    pub fn proceed() -> Self {
        Self::Proceed(CallChanges::default())
    }

    /// Proceeds with new arguments, which are checked against the tool's schema again.
    pub fn rewrite(arguments: impl Into<Json>) -> Self {
        Self::Proceed(CallChanges { arguments: Some(arguments.into()), context: None })
    }

    /// Blocks the call.
    pub fn block(reason: impl Into<String>) -> Self {
        Self::Block(reason.into())
    }
}
