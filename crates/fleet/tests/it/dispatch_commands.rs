//! Hooks that are commands.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_fleet::dispatch::{Dispatcher, HookEnvironment, Policy, command_hooks};
use wharf_io::Environment;
use wharf_testkit::{soon, until};

use crate::dispatch_kit::{Fake, Heard, call, catalog, notes, read};

fn surroundings() -> HookEnvironment {
    let environment = Environment::default().with("PATH", "/usr/bin:/bin");
    HookEnvironment { environment, ..HookEnvironment::default() }
}

fn dispatcher(hooks: &Value) -> (Dispatcher, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let hooks = command_hooks(hooks, &surroundings()).unwrap().hooks;
    let dispatcher = Dispatcher::new(Policy::permissive()).with_trace(heard.clone());
    (hooks.into_iter().fold(dispatcher, Dispatcher::with_hook), heard)
}

/// What the model reads if a shell runs this script at `event`, and the steps on the way but for the policy's.
async fn told(event: &str, script: &str, more: Value) -> String {
    let mut hook = json!({"type": "command", "command": format!("sh -c {}", shlex::try_quote(script).unwrap())});
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (dispatcher, heard) = dispatcher(&json!({event: [{"matcher": "mcp__notes__.*", "hooks": [hook]}]}));
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let said = read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await;
    let name = hook["command"].as_str().unwrap();
    let steps = heard.steps();
    let steps = steps.lines().filter(|step| !step.contains("\"allowed\"")).map(|step| {
        let mut step: Value = serde_json::from_str(step).unwrap();
        step["by"] = "HOOK".into();
        step.to_string()
    });
    let said = said.replace(name, "HOOK");
    std::iter::once(said).chain(steps.collect::<Vec<_>>()).collect::<Vec<_>>().join("\n").replace(name, "HOOK")
}

async fn before(script: &str) -> String {
    told("PreToolUse", script, json!({})).await
}

async fn after(script: &str) -> String {
    told("PostToolUse", script, json!({})).await
}

#[tokio::test]
async fn a_command_is_told_everything_about_the_call() {
    insta::assert_snapshot!(before("cat >&2; exit 2").await, @r#"
    error: `mcp__notes__add` was not called: {"hook_event_name":"PreToolUse","tool_name":"mcp__notes__add","tool_input":{"what":"x"},"server":"notes","tool":"add","tool_use_id":"call-1"}
    {"step":"blocked","by":"HOOK","reason":"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"mcp__notes__add\",\"tool_input\":{\"what\":\"x\"},\"server\":\"notes\",\"tool\":\"add\",\"tool_use_id\":\"call-1\"}"}
    "#);
    insta::assert_snapshot!(after("cat >&2; exit 2").await, @r#"
    error: `mcp__notes__add` was called, and its output is withheld: {"hook_event_name":"PostToolUse","tool_name":"mcp__notes__add","tool_input":{"what":"x"},"server":"notes","tool":"add","tool_use_id":"call-1","tool_response":{"content":[{"type":"text","text":"{\"what\":\"x\"}"}]}}
    {"step":"blocked","by":"HOOK","reason":"{\"hook_event_name\":\"PostToolUse\",\"tool_name\":\"mcp__notes__add\",\"tool_input\":{\"what\":\"x\"},\"server\":\"notes\",\"tool\":\"add\",\"tool_use_id\":\"call-1\",\"tool_response\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"what\\\":\\\"x\\\"}\"}]}}"}
    "#);
}

#[tokio::test]
async fn a_command_says_before_the_call_what_is_to_be_done() {
    let verdicts = [
        before("exit 0").await,
        before(r#"echo '{"continue":true,"suppressOutput":true}'"#).await,
        before(r#"echo '{"decision":"block","reason":"no"}'"#).await,
        before(r#"echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"nope"}}'"#)
            .await,
        before(r#"echo '{"permissionDecision":"ask","permissionDecisionReason":"odd"}'"#).await,
        before(
            r#"echo '{"permissionDecision":"allow","updatedInput":{"what":"y"},"additionalContext":"as you like"}'"#,
        )
        .await,
        before(r#"echo '{"continue":false,"stopReason":"enough"}'"#).await,
    ];
    insta::assert_snapshot!(verdicts.join("\n---\n"), @r#"
    {"what":"x"}
    ---
    {"what":"x"}
    ---
    error: `mcp__notes__add` was not called: no
    {"step":"blocked","by":"HOOK","reason":"no"}
    ---
    error: `mcp__notes__add` was not called: nope
    {"step":"blocked","by":"HOOK","reason":"nope"}
    ---
    error: `mcp__notes__add` was not called: it needs approval, and no user can be asked
    {"step":"asked","by":"HOOK","approved":false,"words":"it needs approval, and no user can be asked"}
    ---
    {"what":"y"}
    as you like
    {"step":"rewritten","by":"HOOK"}
    {"step":"annotated","by":"HOOK","words":"as you like"}
    ---
    error: `mcp__notes__add` was not called: enough
    {"step":"blocked","by":"HOOK","reason":"enough"}
    "#);
}

#[tokio::test]
async fn a_command_that_fails_keeps_the_call_from_being_made_unless_told_otherwise() {
    let failures = [
        before("echo broken >&2; exit 1").await,
        before("echo fine").await,
        before("echo '[1]'").await,
        before(r#"echo '{"permissionDecision":"perhaps"}'"#).await,
        before("kill -9 $$").await,
        before("head -c 2000000 /dev/zero").await,
        told("PreToolUse", "exit 1", json!({"onFailure": "proceed"})).await,
        after("exit 1").await,
    ];
    insta::assert_snapshot!(failures.join("\n---\n"), @r#"
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it exited with status 1: broken
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it exited with status 1: broken"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it said something that is no JSON object
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it said something that is no JSON object"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it said something that is no JSON object
    {"step":"blocked","by":"HOOK","reason":"the hook `sh -c \"echo '[1]'\"` failed: it said something that is no JSON object"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it decided `perhaps`, which means nothing; it can allow, deny, ask or block
    {"step":"blocked","by":"HOOK","reason":"the hook `sh -c \"echo '{\\\"permissionDecision\\\":\\\"perhaps\\\"}'\"` failed: it decided `perhaps`, which means nothing; it can allow, deny, ask or block"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it was killed by signal 9 (SIGKILL, often the system being out of memory): it gave no reason
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it was killed by signal 9 (SIGKILL, often the system being out of memory): it gave no reason"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it said more than 1048576 bytes
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it said more than 1048576 bytes"}
    ---
    {"what":"x"}
    {"step":"hook_failed","by":"HOOK","reason":"exited with status 1: it gave no reason"}
    ---
    {"what":"x"}
    {"step":"hook_failed","by":"HOOK","reason":"exited with status 1: it gave no reason"}
    "#);
    let (dispatcher, _) =
        dispatcher(&json!({"PreToolUse": [{"hooks": [{"type": "command", "command": "no-such-command-here"}]}]}));
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    insta::assert_snapshot!(read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await, @"error: `mcp__notes__add` was not called: the hook `no-such-command-here` failed: it cannot be run: the command `no-such-command-here` was not found");
}

#[tokio::test]
async fn a_command_says_after_the_call_what_the_model_sees() {
    let verdicts = [
        after("exit 0").await,
        after(r#"echo '{"hookSpecificOutput":{"additionalContext":"mind the gap"}}'"#).await,
        after(r#"echo '{"hookSpecificOutput":{"updatedToolOutput":"other words","additionalContext":"and more"}}'"#)
            .await,
        after(r#"echo '{"updatedToolOutput":{"content":[{"type":"text","text":"whole"}],"isError":true}}'"#).await,
        after(r#"echo '{"decision":"block","reason":"it holds a secret"}'"#).await,
    ];
    insta::assert_snapshot!(verdicts.join("\n---\n"), @r#"
    {"what":"x"}
    ---
    {"what":"x"}
    mind the gap
    {"step":"annotated","by":"HOOK","words":"mind the gap"}
    ---
    other words
    and more
    {"step":"replaced","by":"HOOK"}
    ---
    error: whole
    {"step":"replaced","by":"HOOK"}
    ---
    error: `mcp__notes__add` was called, and its output is withheld: it holds a secret
    {"step":"blocked","by":"HOOK","reason":"it holds a secret"}
    "#);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let told = told("PreToolUse", &script, json!({"timeout": 0.5})).await;
    assert!(told.starts_with("error: `mcp__notes__add` was not called: the hook `HOOK` failed: it did not end within 0.5 s and was killed"), "{told}");
    let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    until(async || !wharf_testkit::alive(pid)).await;
}

#[tokio::test]
async fn a_command_that_does_not_read_a_long_call_still_answers() {
    let (dispatcher, _) =
        dispatcher(&json!({"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]}));
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let long = call("mcp__notes__add", json!({"what": "x".repeat(2_000_000)}));
    let output =
        tokio::time::timeout(Duration::from_secs(20), soon(dispatcher.call(&catalog, &long))).await.unwrap().unwrap();
    assert!(!output.is_error);
}

#[test]
fn a_configuration_that_cannot_be_used_says_where_and_why() {
    let refusal = |config: Value| command_hooks(&config, &surroundings()).err().unwrap().to_string();
    let hook = |hook: Value| json!({"PreToolUse": [{"matcher": "*", "hooks": [hook]}]});
    let all = [
        refusal(json!([])),
        refusal(json!({"PreToolUse": {}})),
        refusal(json!({"PreToolUse": [{"matcher": "hint:odd", "hooks": []}]})),
        refusal(hook(json!({"type": "prompt"}))),
        refusal(hook(json!({"type": "command"}))),
        refusal(hook(json!({"type": "command", "command": "a 'b"}))),
        refusal(hook(json!({"type": "command", "command": "a", "timeout": -1}))),
        refusal(hook(json!({"type": "command", "command": "a", "onFailure": "x"}))),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    hooks: they are no object of events
    PreToolUse: it is no list of matchers
    PreToolUse[0]: `hint:odd` is no condition: at character 6, there is no hint `odd`; there are destructive, read-only, idempotent, open-world, unknown
    PreToolUse[0].hooks[0]: there are no hooks of the type `prompt`, only `command`
    PreToolUse[0].hooks[0]: `command` is empty
    PreToolUse[0].hooks[0]: a quotation mark in `command` is never closed
    PreToolUse[0].hooks[0]: `timeout` is -1, and seconds are counted from 0 up
    PreToolUse[0]: unknown variant `x`, expected `block` or `proceed`
    ");
    let read = command_hooks(&json!({"SessionStart": []}), &surroundings()).unwrap();
    assert_eq!(read.notes, ["hooks for `SessionStart` are passed over: there is no such event here"]);
}
