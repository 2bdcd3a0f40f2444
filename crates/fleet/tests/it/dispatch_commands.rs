//! Hooks that are commands.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_fleet::dispatch::{Dispatcher, HookEnvironment, Policy, command_hooks};
use wharf_io::Environment;
use wharf_testkit::{soon, until};

use crate::dispatch_kit::{Fake, Recorder, call, catalog, notes, read};

fn environment() -> HookEnvironment {
    let environment = Environment::default().with("PATH", "/usr/bin:/bin");
    HookEnvironment { environment, ..HookEnvironment::default() }
}

fn dispatcher(hooks: &Value) -> (Dispatcher, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let hooks = command_hooks(hooks, &environment()).unwrap().hooks;
    let dispatcher = Dispatcher::new(Policy::permissive()).with_trace(recorder.clone());
    (hooks.into_iter().fold(dispatcher, Dispatcher::with_hook), recorder)
}

/// The output for the model if a shell runs this script at `event`, and the trace steps without the policy's.
async fn summary(event: &str, script: &str, more: Value) -> String {
    let mut hook = json!({"type": "command", "command": format!("sh -c {}", shlex::try_quote(script).unwrap())});
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (dispatcher, recorder) = dispatcher(&json!({event: [{"matcher": "mcp__notes__.*", "hooks": [hook]}]}));
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let said = read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await;
    let name = hook["command"].as_str().unwrap();
    let steps = recorder.steps();
    let steps = steps.lines().filter(|step| !step.contains("\"allowed\"")).map(|step| {
        let mut step: Value = serde_json::from_str(step).unwrap();
        step["by"] = "HOOK".into();
        step.to_string()
    });
    let said = said.replace(name, "HOOK");
    std::iter::once(said).chain(steps.collect::<Vec<_>>()).collect::<Vec<_>>().join("\n").replace(name, "HOOK")
}

async fn before(script: &str) -> String {
    summary("PreToolUse", script, json!({})).await
}

async fn after(script: &str) -> String {
    summary("PostToolUse", script, json!({})).await
}

#[tokio::test]
async fn a_command_receives_the_whole_call() {
    insta::assert_snapshot!(before("cat >&2; exit 2").await, @r#"
    error: `mcp__notes__add` was not called: {"hook_event_name":"PreToolUse","tool_name":"mcp__notes__add","tool_input":{"what":"x"},"server":"notes","tool":"add","tool_use_id":"call-1"}
    {"step":"blocked","by":"HOOK","reason":"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"mcp__notes__add\",\"tool_input\":{\"what\":\"x\"},\"server\":\"notes\",\"tool\":\"add\",\"tool_use_id\":\"call-1\"}"}
    "#);
    insta::assert_snapshot!(after("cat >&2; exit 2").await, @r#"
    error: `mcp__notes__add` was called, but its output is withheld: {"hook_event_name":"PostToolUse","tool_name":"mcp__notes__add","tool_input":{"what":"x"},"server":"notes","tool":"add","tool_use_id":"call-1","tool_response":{"content":[{"type":"text","text":"{\"what\":\"x\"}"}]}}
    {"step":"blocked","by":"HOOK","reason":"{\"hook_event_name\":\"PostToolUse\",\"tool_name\":\"mcp__notes__add\",\"tool_input\":{\"what\":\"x\"},\"server\":\"notes\",\"tool\":\"add\",\"tool_use_id\":\"call-1\",\"tool_response\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"what\\\":\\\"x\\\"}\"}]}}"}
    "#);
}

#[tokio::test]
async fn a_command_decides_before_the_call() {
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
    error: `mcp__notes__add` was not called: it requires approval, and no user can be asked
    {"step":"asked","by":"HOOK","approved":false,"words":"it requires approval, and no user can be asked"}
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
async fn a_failing_command_blocks_the_call_unless_configured_to_proceed() {
    let failures = [
        before("echo broken >&2; exit 1").await,
        before("echo fine").await,
        before("echo '[1]'").await,
        before(r#"echo '{"permissionDecision":"perhaps"}'"#).await,
        before("kill -9 $$").await,
        before("head -c 2000000 /dev/zero").await,
        summary("PreToolUse", "exit 1", json!({"onFailure": "proceed"})).await,
        after("exit 1").await,
        summary("PostToolUse", "exit 1", json!({"onFailure": "proceed"})).await,
    ];
    insta::assert_snapshot!(failures.join("\n---\n"), @r#"
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it exited with status 1: broken
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it exited with status 1: broken"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: its response is not a JSON object
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: its response is not a JSON object"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: its response is not a JSON object
    {"step":"blocked","by":"HOOK","reason":"the hook `sh -c \"echo '[1]'\"` failed: its response is not a JSON object"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: unknown decision `perhaps`: expected allow, deny, ask or block
    {"step":"blocked","by":"HOOK","reason":"the hook `sh -c \"echo '{\\\"permissionDecision\\\":\\\"perhaps\\\"}'\"` failed: unknown decision `perhaps`: expected allow, deny, ask or block"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it was killed by signal 9 (SIGKILL, often the system being out of memory): no reason given
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it was killed by signal 9 (SIGKILL, often the system being out of memory): no reason given"}
    ---
    error: `mcp__notes__add` was not called: the hook `HOOK` failed: it wrote more than 1048576 bytes
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it wrote more than 1048576 bytes"}
    ---
    {"what":"x"}
    {"step":"hook_failed","by":"HOOK","reason":"it exited with status 1: no reason given"}
    ---
    error: `mcp__notes__add` was called, but its output is withheld: the hook `HOOK` failed: it exited with status 1: no reason given
    {"step":"blocked","by":"HOOK","reason":"the hook `HOOK` failed: it exited with status 1: no reason given"}
    ---
    {"what":"x"}
    {"step":"hook_failed","by":"HOOK","reason":"it exited with status 1: no reason given"}
    "#);
    let (dispatcher, _) =
        dispatcher(&json!({"PreToolUse": [{"hooks": [{"type": "command", "command": "no-such-command-here"}]}]}));
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    insta::assert_snapshot!(read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await, @"error: `mcp__notes__add` was not called: the hook `no-such-command-here` failed: it cannot be started: the command `no-such-command-here` was not found");
}

#[tokio::test]
async fn a_response_that_may_be_a_refusal_blocks_before_and_after_the_call() {
    for response in [
        r#"{"decision":"block"}"#,
        r#"{"decision":"deny"}"#,
        r#"{"permissionDecision":"block"}"#,
        r#"{"continue":false}"#,
        r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#,
        r#"{"hookSpecificOutput":{"decision":"block"}}"#,
        r#"{"hookSpecificOutput":{"continue":false}}"#,
        r#"{"hookSpecificOutput":["block","no"]}"#,
        r#"{"hookSpecificOutput":{"hookSpecificOutput":{"decision":"block"}}}"#,
        r#"{"decision":"deny","hookSpecificOutput":{"permissionDecision":"allow"}}"#,
        r#"{"permissionDecision":"deny","hookSpecificOutput":{"permissionDecision":"allow"}}"#,
        r#"{"decision":"allow","continue":false}"#,
        r#"{"decison":"block"}"#,
        r#"{"permission":"deny"}"#,
        r#"{"decision":"Block"}"#,
        r#"{"decision":false}"#,
        r#"{"continue":"false"}"#,
        r#"{"hookSpecificOutput":{"permision":"deny"}}"#,
    ] {
        let script = format!("echo '{response}'");
        let said = before(&script).await;
        assert!(said.starts_with("error: `mcp__notes__add` was not called: "), "{response}: {said}");
        let said = after(&script).await;
        assert!(
            said.starts_with("error: `mcp__notes__add` was called, but its output is withheld: "),
            "{response}: {said}"
        );
    }
    let asked = after(r#"echo '{"decision":"ask","reason":"look at it"}'"#).await;
    assert!(
        asked.starts_with("error: `mcp__notes__add` was called, but its output is withheld: look at it"),
        "{asked}"
    );
}

#[tokio::test]
async fn fields_of_other_hosts_that_decide_nothing_are_allowed() {
    for response in [
        r#"{"continue":true,"suppressOutput":true,"systemMessage":"hi","stopReason":"none"}"#,
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse"}}"#,
        r#"{"decision":"approve","reason":"fine"}"#,
        r#"{"decision":null,"hookSpecificOutput":null}"#,
    ] {
        let script = format!("echo '{response}'");
        assert_eq!((before(&script).await, after(&script).await), (r#"{"what":"x"}"#.into(), r#"{"what":"x"}"#.into()));
    }
    let replaced = after(r#"echo '{"hookSpecificOutput":{"updatedMCPToolOutput":"redacted"}}'"#).await;
    assert!(replaced.starts_with("redacted"), "{replaced}");
}

#[tokio::test]
async fn a_command_changes_the_output_after_the_call() {
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
    error: `mcp__notes__add` was called, but its output is withheld: it holds a secret
    {"step":"blocked","by":"HOOK","reason":"it holds a secret"}
    "#);
}

#[tokio::test]
async fn a_command_that_times_out_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let outputs = summary("PreToolUse", &script, json!({"timeout": 0.5})).await;
    assert!(outputs.starts_with("error: `mcp__notes__add` was not called: the hook `HOOK` failed: it did not exit within 0.5 s and was killed"), "{outputs}");
    let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    until(async || !wharf_testkit::alive(pid)).await;
}

#[tokio::test]
async fn a_command_does_not_have_to_read_its_input() {
    let (dispatcher, _) =
        dispatcher(&json!({"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]}));
    let catalog = catalog(vec![notes("add", json!({}), Fake::echo())]);
    let long = call("mcp__notes__add", json!({"what": "x".repeat(2_000_000)}));
    let output =
        tokio::time::timeout(Duration::from_secs(20), soon(dispatcher.call(&catalog, &long))).await.unwrap().unwrap();
    assert!(!output.is_error);
}

#[test]
fn an_invalid_configuration_names_the_path_and_the_error() {
    let refusal = |config: Value| command_hooks(&config, &environment()).err().unwrap().to_string();
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
    hooks: expected an object of events
    PreToolUse: expected a list of matchers
    PreToolUse[0]: invalid condition `hint:odd`: at character 6: unknown hint `odd`: expected destructive, read-only, idempotent, open-world, unknown
    PreToolUse[0].hooks[0]: unknown hook type `prompt`: expected `command`
    PreToolUse[0].hooks[0]: `command` is empty
    PreToolUse[0].hooks[0]: unclosed quotation mark in `command`
    PreToolUse[0].hooks[0]: invalid `timeout` -1: expected a positive number of seconds
    PreToolUse[0]: unknown variant `x`, expected `block` or `proceed`
    ");
    let read = command_hooks(&json!({"SessionStart": []}), &environment()).unwrap();
    assert_eq!(read.notes, ["ignored hooks for the unsupported event `SessionStart`"]);
}
