//! What `wharf call` may do: rules and hooks hold for it, and it is its own approval.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::configured::Home;
use crate::screen;

/// A server whose tool `wipe` leaves a trace.
fn home(key: &str, value: Value) -> Home {
    let wipe = json!({"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true},
        "_meta": {"anthropic/requiresUserInteraction": true}});
    let done = [Step::Touch("$/wiped".into()), Step::Text("wiped".into())];
    Home::new().saying(key, value).child("s", &Script::good().tool(wipe).on_call("wipe", done), json!({}))
}

fn wiped(home: &Home) -> bool {
    home.last().path().join("wiped").exists()
}

#[test]
fn whoever_types_a_call_has_approved_of_it() {
    for policy in [json!({"mode": "cautious"}), json!({"ask": ["*"]}), json!({})] {
        let home = home("policy", policy);
        let ran = home.run(&["call", "s", "wipe"]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "wiped\n", ""));
    }
}

#[test]
fn what_a_rule_forbids_is_not_called_by_hand_either() {
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
fn a_rule_or_a_hook_that_cannot_be_read_lets_nothing_through() {
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
fn a_hook_keeps_a_call_from_being_made_and_an_output_from_being_seen() {
    let before = home("hooks", hook("PreToolUse", "sh -c 'echo not today >&2; exit 2'"));
    let ran = before.run(&["call", "s", "wipe"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: s: the tool `wipe` was not called: not today\n"));
    assert!(!wiped(&before));
    let after = home("hooks", hook("PostToolUse", "sh -c 'echo it is secret >&2; exit 2'"));
    let ran = after.run(&["call", "s", "wipe"]);
    let told = "error: s: the tool `wipe` was called, but its output is withheld: it is secret\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "", told));
    assert!(wiped(&after));
}

#[test]
fn a_hook_that_fails_and_may_do_so_is_told_of() {
    let mut hooks = hook("PreToolUse", "sh -c 'exit 7'");
    hooks["PreToolUse"][0]["hooks"][0]["onFailure"] = json!("proceed");
    let ran = home("hooks", hooks).run(&["call", "s", "wipe"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "wiped\n"));
    assert!(ran.err.starts_with("warning: s: hook `sh -c 'exit 7'` failed: "), "{}", ran.err);
}

#[test]
fn a_person_gets_the_whole_output() {
    let long = "all of it ".repeat(30_000);
    let script = Script::good().any_tool("talk").on_call("talk", [Step::Text(long.clone())]);
    let ran = Home::new().child("s", &script, json!({"maxOutputTokens": 10})).run(&["call", "s", "talk"]);
    assert_eq!((ran.code, ran.out), (0, format!("{long}\n")));
}

#[test]
fn an_error_of_the_server_keeps_its_code() {
    let script = Script::good().any_tool("no").on_call("no", [Step::Error(-32050, "no such row".into())]);
    let ran = Home::new().child("s", &script, json!({})).run(&["call", "s", "no", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["error"]["code"], &told["error"]["outcome"]), (1, &json!(-32050), &json!("answered")));
    assert_eq!(ran.err, "error: s: the server answered with error -32050: no such row\n");
}
