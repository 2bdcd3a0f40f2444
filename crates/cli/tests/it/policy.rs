//! Policy of `wharf call`: rules and hooks apply, and no confirmation is needed.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::screen;
use crate::server_states::Home;

/// Returns a configuration with a server whose tool `wipe` creates a file.
fn home(key: &str, value: Value) -> Home {
    let wipe = json!({"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true},
        "_meta": {"anthropic/requiresUserInteraction": true}});
    let done = [Step::Touch("$/wiped".into()), Step::Text("wiped".into())];
    Home::new().with_key(key, value).child("s", &Script::good().tool(wipe).on_call("wipe", done), json!({}))
}

fn wiped(home: &Home) -> bool {
    home.last().path().join("wiped").exists()
}

#[test]
fn call_needs_no_confirmation() {
    for policy in [json!({"mode": "cautious"}), json!({"ask": ["*"]}), json!({})] {
        let home = home("policy", policy);
        let ran = home.run(&["call", "s", "wipe"]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "wiped\n", ""));
    }
}

#[test]
fn deny_rules_apply_to_call() {
    let home = home("policy", json!({"deny": ["hint:destructive"]}));
    let ran = home.run(&["call", "s", "wipe", "--json"]);
    insta::assert_snapshot!(screen(&ran), @r#"
    exit 1
    --- stdout
    {"version":1,"server":"s","tool":"wipe","error":{"message":"the tool `wipe` was not called: denied by the policy (hint:destructive)","outcome":"not run","stderr":[]}}
    --- stderr
    error: s: the tool `wipe` was not called: denied by the policy (hint:destructive)
    "#);
    assert!(!wiped(&home));
    assert_eq!(home.run(&["call", "s", "add", "a=1", "b=2"]).out, "3\n");
}

#[test]
fn an_invalid_rule_or_hook_blocks_all_calls() {
    let unreadable = home("policy", json!({"deny": ["hint:dangerous"]}));
    let ran = unreadable.run(&["call", "s", "wipe"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("ROOT/mcp.json:1: invalid policy"), "{}", ran.err);
    let hooked = home("hooks", json!({"PreToolUse": [{"hooks": [{"type": "prayer"}]}]}));
    let ran = hooked.run(&["call", "s", "wipe"]);
    assert!(ran.code == 2 && ran.err.contains("PreToolUse[0].hooks[0]"), "{}", ran.err);
    assert!(!wiped(&unreadable) && !wiped(&hooked));
}

fn hook(event: &str, command: &str) -> Value {
    json!({event: [{"matcher": "wipe", "hooks": [{"type": "command", "command": command}]}]})
}

#[test]
fn hooks_can_block_a_call_or_withhold_its_output() {
    let before = home("hooks", hook("PreToolUse", "sh -c 'echo not today >&2; exit 2'"));
    let ran = before.run(&["call", "s", "wipe"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: s: the tool `wipe` was not called: not today\n"));
    assert!(!wiped(&before));
    let after = home("hooks", hook("PostToolUse", "sh -c 'echo it is secret >&2; exit 2'"));
    let ran = after.run(&["call", "s", "wipe"]);
    let expected = "error: s: the tool `wipe` was called, but its output is withheld: it is secret\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "", expected));
    assert!(wiped(&after));
}

#[test]
fn a_failed_hook_that_may_fail_is_a_warning() {
    let mut hooks = hook("PreToolUse", "sh -c 'exit 7'");
    hooks["PreToolUse"][0]["hooks"][0]["onFailure"] = json!("proceed");
    let ran = home("hooks", hooks).run(&["call", "s", "wipe"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "wiped\n"));
    assert!(ran.err.starts_with("warning: s: hook `sh -c 'exit 7'` failed: "), "{}", ran.err);
}

#[test]
fn call_prints_the_whole_output() {
    let long = "all of it ".repeat(30_000);
    let script = Script::good().any_tool("talk").on_call("talk", [Step::Text(long.clone())]);
    let ran = Home::new().child("s", &script, json!({"maxOutputTokens": 10})).run(&["call", "s", "talk"]);
    assert_eq!((ran.code, ran.out), (0, format!("{long}\n")));
}

#[test]
fn json_output_keeps_the_error_code_of_the_server() {
    let script = Script::good().any_tool("no").on_call("no", [Step::Error(-32050, "no such row".into())]);
    let ran = Home::new().child("s", &script, json!({})).run(&["call", "s", "no", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.code, &report["error"]["code"], &report["error"]["outcome"]),
        (1, &json!(-32050), &json!("answered"))
    );
    assert_eq!(ran.err, "error: s: the server answered with error -32050: no such row\n");
}
