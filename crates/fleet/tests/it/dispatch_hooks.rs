//! Hooks that are code.

use std::sync::{Arc, Mutex};

use serde_json::json;
use wharf_client::BoxFuture;
use wharf_fleet::dispatch::{AfterCall, BeforeCall, CallChanges, CallView, Condition, Dispatcher, Hook, Policy};
use wharf_protocol::ToolOutput;

use crate::dispatch_kit::{Fake, Recorder, catalog, condition, notes, read};

/// Returns the same decisions each time.
pub(crate) struct FixedHook {
    name: &'static str,
    condition: Condition,
    before: BeforeCall,
    after: AfterCall,
    saw: Mutex<Vec<String>>,
}

impl FixedHook {
    pub(crate) fn new(name: &'static str, when: &str, before: BeforeCall, after: AfterCall) -> Arc<Self> {
        Arc::new(Self { name, condition: condition(when), before, after, saw: Mutex::default() })
    }

    pub(crate) fn saw(&self) -> Vec<String> {
        self.saw.lock().unwrap().clone()
    }
}

impl Hook for FixedHook {
    fn name(&self) -> &str {
        self.name
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn before<'a>(&'a self, call: &'a CallView<'a>) -> BoxFuture<'a, BeforeCall> {
        self.saw.lock().unwrap().push(format!("before {} {}", call.name(), call.arguments));
        Box::pin(async { self.before.clone() })
    }

    fn after<'a>(&'a self, call: &'a CallView<'a>, output: &'a ToolOutput) -> BoxFuture<'a, AfterCall> {
        self.saw.lock().unwrap().push(format!("after {} {}", call.name(), output.text()));
        Box::pin(async { self.after.clone() })
    }
}

/// The output for the model with these hooks, and the steps of the trace.
async fn with(hooks: Vec<Arc<FixedHook>>, policy: serde_json::Value) -> (String, Vec<String>) {
    let fake = Fake::echo();
    let recorder = Arc::new(Recorder::default());
    let catalog = catalog(vec![notes("wipe", json!({"destructiveHint": true}), fake.clone())]);
    let policy: Policy = serde_json::from_value(policy).unwrap();
    let dispatcher = Dispatcher::new(policy).with_trace(recorder.clone());
    let dispatcher = hooks.into_iter().fold(dispatcher, |dispatcher, hook| dispatcher.with_hook(hook));
    let outputs = read(&dispatcher, &catalog, "mcp__notes__wipe", json!({"what": "x"})).await;
    (format!("{outputs}\n{}", recorder.steps()), fake.calls())
}

fn permissive() -> serde_json::Value {
    json!({"mode": "permissive"})
}

#[tokio::test]
async fn a_hook_sees_the_full_name_the_arguments_and_the_output() {
    let hook = FixedHook::new("watch", "mcp__notes__*", BeforeCall::proceed(), AfterCall::Keep);
    let other = FixedHook::new("other", "server:mail", BeforeCall::block("never"), AfterCall::Keep);
    with(vec![hook.clone(), other], permissive()).await;
    let saw = hook.saw.lock().unwrap().join("\n");
    insta::assert_snapshot!(saw, @r#"
    before mcp__notes__wipe {"what":"x"}
    after mcp__notes__wipe {"what":"x"}
    "#);
}

#[tokio::test]
async fn a_hook_can_change_arguments_and_the_next_one_sees_what_it_wrote() {
    let change =
        FixedHook::new("change", "", BeforeCall::rewrite(json!({"what": "y", "tags": "[1]"})), AfterCall::Keep);
    let watch = FixedHook::new("watch", "arg.what=y", BeforeCall::proceed(), AfterCall::Keep);
    let (outputs, calls) = with(vec![change, watch.clone()], permissive()).await;
    assert_eq!(calls, [r#"wipe {"what":"y","tags":[1]}"#]);
    assert_eq!(watch.saw.lock().unwrap()[0], r#"before mcp__notes__wipe {"what":"y","tags":[1]}"#);
    insta::assert_snapshot!(outputs, @r#"
    {"what":"y","tags":[1]}
    {"step":"rewritten","by":"change"}
    {"step":"repaired"}
    {"step":"allowed","by":"permissive mode"}
    "#);
}

#[tokio::test]
async fn arguments_that_a_hook_wrote_are_checked_too() {
    let (outputs, calls) =
        with(vec![FixedHook::new("change", "", BeforeCall::rewrite(json!({})), AfterCall::Keep)], permissive()).await;
    assert!(calls.is_empty());
    insta::assert_snapshot!(outputs, @r#"
    error: `mcp__notes__wipe` was not called: the hook `change` wrote arguments that do not match its schema: "what" is a required property.
    {"step":"rewritten","by":"change"}
    {"step":"misfit","fault":"\"what\" is a required property"}
    "#);
}

#[tokio::test]
async fn a_hook_can_block_a_call() {
    let (outputs, calls) = with(
        vec![FixedHook::new("guard", "wipe", BeforeCall::block("not on a Friday"), AfterCall::Keep)],
        permissive(),
    )
    .await;
    assert!(calls.is_empty());
    insta::assert_snapshot!(outputs, @r#"
    error: `mcp__notes__wipe` was not called: not on a Friday
    {"step":"blocked","by":"guard","reason":"not on a Friday"}
    "#);
}

#[tokio::test]
async fn a_hook_can_annotate_replace_or_withhold_an_output() {
    let note = BeforeCall::Proceed(CallChanges { arguments: None, context: Some("from before".into()) });
    let add = FixedHook::new("add", "", note, AfterCall::Annotate("from after".into()));
    let replace = FixedHook::new("replace", "", BeforeCall::proceed(), AfterCall::Replace(ToolOutput::said("other")));
    let block = FixedHook::new("block", "", BeforeCall::proceed(), AfterCall::Block("it holds a secret".into()));
    let fails = FixedHook::new("fails", "", BeforeCall::Failed("no disk".into()), AfterCall::Failed("no disk".into()));
    insta::assert_snapshot!(with(vec![add.clone()], permissive()).await.0, @r#"
    {"what":"x"}
    from after
    from before
    {"step":"allowed","by":"permissive mode"}
    {"step":"annotated","by":"add","words":"from after"}
    {"step":"annotated","by":"add","words":"from before"}
    "#);
    insta::assert_snapshot!(with(vec![replace, add], permissive()).await.0, @r#"
    other
    from after
    from before
    {"step":"allowed","by":"permissive mode"}
    {"step":"replaced","by":"replace"}
    {"step":"annotated","by":"add","words":"from after"}
    {"step":"annotated","by":"add","words":"from before"}
    "#);
    insta::assert_snapshot!(with(vec![block, fails], permissive()).await.0, @r#"
    error: `mcp__notes__wipe` was called, but its output is withheld: it holds a secret
    {"step":"hook_failed","by":"fails","reason":"no disk"}
    {"step":"allowed","by":"permissive mode"}
    {"step":"blocked","by":"block","reason":"it holds a secret"}
    {"step":"hook_failed","by":"fails","reason":"no disk"}
    "#);
}

#[tokio::test]
async fn a_hook_can_force_or_skip_the_approval_but_not_undo_a_denial() {
    let allow = || FixedHook::new("allow", "", BeforeCall::Allow(CallChanges::default()), AfterCall::Keep);
    let ask =
        || FixedHook::new("ask", "", BeforeCall::Ask("it looks odd".into(), CallChanges::default()), AfterCall::Keep);
    let outputs = [
        with(vec![allow()], json!({})).await.0,
        with(vec![ask()], permissive()).await.0,
        with(vec![ask(), allow()], permissive()).await.0,
        with(vec![allow()], json!({"deny": ["wipe"]})).await.0,
        with(vec![ask()], json!({"deny": ["wipe"]})).await.0,
    ];
    insta::assert_snapshot!(outputs.join("\n"), @r#"
    {"what":"x"}
    {"step":"allowed","by":"allow"}
    error: `mcp__notes__wipe` was not called: it requires approval, and no user can be asked
    {"step":"asked","by":"it looks odd","approved":false,"words":"it requires approval, and no user can be asked"}
    error: `mcp__notes__wipe` was not called: it requires approval, and no user can be asked
    {"step":"asked","by":"it looks odd","approved":false,"words":"it requires approval, and no user can be asked"}
    error: `mcp__notes__wipe` was not called: denied by the policy (wipe). Do not try again.
    {"step":"denied","by":"wipe"}
    error: `mcp__notes__wipe` was not called: denied by the policy (wipe). Do not try again.
    {"step":"denied","by":"wipe"}
    "#);
}
