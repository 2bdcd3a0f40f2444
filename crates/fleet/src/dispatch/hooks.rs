//! Hooks: code that sees every call before it is made and every output before the model does.

use std::pin::Pin;
use std::task::{Context, Poll};

use wharf_client::BoxFuture;
use wharf_protocol::{Json, ServerName, ToolOutput};

use super::condition::Condition;
use crate::catalog::Entry;

/// Sees calls. Both methods do nothing by themselves, so a hook writes only the one it needs.
pub trait Hook: Send + Sync {
    /// What it is called in traces.
    fn name(&self) -> &str;

    /// Which calls it sees.
    fn condition(&self) -> &Condition;

    /// Before the call is made.
    fn before<'a>(&'a self, _call: &'a CallView<'a>) -> BoxFuture<'a, BeforeCall> {
        Box::pin(NothingBefore)
    }

    /// After the tool has answered, and before the model sees the answer.
    fn after<'a>(&'a self, _call: &'a CallView<'a>, _output: &'a ToolOutput) -> BoxFuture<'a, AfterCall> {
        Box::pin(NothingAfter)
    }
}

/// What a hook does that has nothing to do. A box of it takes no memory, and so no time: every call comes by here.
struct NothingBefore;

impl Future for NothingBefore {
    type Output = BeforeCall;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<BeforeCall> {
        Poll::Ready(BeforeCall::proceed())
    }
}

/// The same, after a call.
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
    /// The tool.
    pub entry: &'a Entry,
    /// The arguments, without those that the configuration sets.
    pub arguments: &'a Json,
}

impl<'a> CallView<'a> {
    /// The name the model called.
    pub fn name(&self) -> &'a str {
        &self.entry.name
    }

    /// The server, for a tool that lives on one.
    pub fn server(&self) -> Option<&'a ServerName> {
        self.entry.server.as_ref()
    }
}

/// What a hook says before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeCall {
    /// Go on.
    Proceed(CallChanges),
    /// Go on, and ask nobody. A rule that denies still counts.
    Allow(CallChanges),
    /// Go on only if a person says yes, and why.
    Ask(String, CallChanges),
    /// Do not make the call, and why.
    Block(String),
    /// The hook could not do its work, and why; the call goes on without it.
    Failed(String),
}

/// What a hook changes of a call that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallChanges {
    /// Other arguments.
    pub arguments: Option<Json>,
    /// Words for the model, to be read with the output.
    pub words: Option<String>,
}

/// What a hook says after a call.
#[derive(Clone, Debug)]
pub enum AfterCall {
    /// The output is fine.
    Keep,
    /// These words are added to it.
    Annotate(String),
    /// The model sees this instead.
    Replace(ToolOutput),
    /// The model sees an error with this reason instead.
    Block(String),
    /// The hook could not do its work, and why; the output stays as it is.
    Failed(String),
}

impl BeforeCall {
    /// Go on with the call as it is.
    pub fn proceed() -> Self {
        Self::Proceed(CallChanges::default())
    }

    /// Go on with other arguments; they are checked against the tool's schema again.
    pub fn rewrite(arguments: impl Into<Json>) -> Self {
        Self::Proceed(CallChanges { arguments: Some(arguments.into()), words: None })
    }

    /// Do not make the call.
    pub fn block(reason: impl Into<String>) -> Self {
        Self::Block(reason.into())
    }
}
