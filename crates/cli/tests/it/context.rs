//! `wharf context`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::fixtures::Sandbox;

/// A server with a few tools, one of them with a very long description.
fn verbose_server() -> Script {
    let long = "This tool does something. ".repeat(2_400);
    Script::good().tool(json!({"name": "essay", "description": long, "inputSchema": {"type": "object"}}))
}

#[test]
fn servers_and_tools_are_sorted_by_cost() {
    let sandbox = Sandbox::new().server("small", &Script::good()).server("large", &verbose_server());
    let ran = sandbox.run(&["context"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!(ran.out, @r"
    SERVER  TOOLS  EST. TOKENS  SHARE
    large       3          512  0.3 %
    small       2           84  0.0 %
    total       5          596  0.3 %

    Most expensive tools:
    SERVER  TOOL   EST. TOKENS  DESCRIPTION  ARGUMENTS
    large   essay          428          405          8
    large   add             47            4         27
    small   add             47            4         27
    large   echo            37            3         19
    small   echo            37            3         19

    large: 1 text cut, which saves about 11,934 tokens
    ");
}

#[test]
fn a_named_server_or_verbose_output_lists_every_tool() {
    let sandbox = Sandbox::new().server("one", &verbose_server()).server("two", &Script::good());
    let one = sandbox.run(&["context", "one"]);
    insta::assert_snapshot!(one.out, @r"
    SERVER  TOOLS  EST. TOKENS  SHARE
    one         3          512  0.3 %
    total       3          512  0.3 %

    SERVER  TOOL   EST. TOKENS  DESCRIPTION  ARGUMENTS
    one     essay          428          405          8
    one     add             47            4         27
    one     echo            37            3         19

    one: 1 text cut, which saves about 11,934 tokens
    ");
    let all = sandbox.run(&["context", "-v"]);
    assert_eq!((all.code, all.out.matches("two     ").count()), (0, 3), "{}", all.out);
}

#[test]
fn a_hint_is_printed_when_tools_fill_the_context_window() {
    let sandbox = Sandbox::new().server("s", &Script::good());
    let full = sandbox.run(&["context", "--window", "100"]);
    assert_eq!(
        full.err,
        "hint: the tools take 84.0 % of the window; allow only those you need in a server's entry: \
         \"tools\": {\"allow\": [\"search_*\"]}\n"
    );
    assert_eq!((sandbox.run(&["context", "--window", "100", "-q"]).err.as_str(), full.code), ("", 0));
    assert_eq!(sandbox.run(&["context", "--window", "0"]).code, 2);
}

#[test]
fn excluded_tools_cost_nothing_and_are_reported() {
    let all = Sandbox::new().server("s", &Script::good());
    let some = Sandbox::new().server_with("s", &Script::good(), "tools", json!({"allow": ["echo"]}));
    let tokens = |sandbox: &Sandbox| {
        let report: Value = serde_json::from_str(&sandbox.run(&["context", "--json"]).out).unwrap();
        (report["tokens"].as_u64().unwrap(), report["servers"][0]["saved"].clone())
    };
    let (whole, nothing) = tokens(&all);
    let (less, saved) = tokens(&some);
    assert_eq!(nothing, json!({"leftOut": 0, "byLeavingOut": 0, "tooLarge": 0, "cut": 0, "byCutting": 0}));
    assert_eq!(saved["leftOut"], 1);
    assert_eq!(less + saved["byLeavingOut"].as_u64().unwrap(), whole);
    assert!(some.run(&["context"]).out.contains("s: 1 tool excluded by the configuration, which saves"));
}

#[test]
fn a_tool_left_out_for_its_size_is_not_said_to_be_excluded() {
    let large = json!({"name": "large", "inputSchema": {"type": "object", "description": "x".repeat(70_000)}});
    let sandbox = Sandbox::new().server("s", &Script::good().tool(large));
    let shown = sandbox.run(&["context"]).out;
    assert!(shown.contains("s: 1 tool left out for its size; see `wharf tools s`"), "{shown}");
    assert!(!shown.contains("excluded"), "{shown}");
    let report: Value = serde_json::from_str(&sandbox.run(&["context", "--json"]).out).unwrap();
    assert_eq!(
        (&report["servers"][0]["saved"]["tooLarge"], &report["servers"][0]["saved"]["leftOut"]),
        (&json!(1), &json!(0))
    );
}

#[test]
fn instructions_are_counted_and_truncated() {
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}, "instructions": "Use it well. ".repeat(1_000)});
    let sandbox = Sandbox::new().server("s", &Script::good().on("initialize", [Step::Result(greeting)]));
    let report: Value = serde_json::from_str(&sandbox.run(&["context", "--json"]).out).unwrap();
    let server = &report["servers"][0];
    let instructions = server["instructions"].as_u64().unwrap();
    assert!((400..800).contains(&instructions), "{report}");
    // A thousand sentences of four tokens, and the text that marks them as the server's.
    let cut = server["saved"]["byCutting"].as_u64().unwrap();
    assert!(server["saved"]["cut"] == 1 && (4_050..4_200).contains(&(instructions + cut)), "{report}");
    assert!(sandbox.run(&["context"]).out.contains("tokens of instructions"));
}

#[test]
fn json_output_includes_every_tool_and_failed_servers() {
    let sandbox = Sandbox::new().server("s", &Script::good()).entry("ghost", json!({"command": "no-such-server"}));
    let ran = sandbox.run(&["context", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.code, &report["version"], &report["tokenizer"], &report["window"]),
        (0, &json!(1), &json!("o200k_base"), &json!(200_000))
    );
    let servers = report["servers"].as_array().unwrap();
    let names: Vec<_> = servers.iter().map(|server| (&server["name"], &server["state"])).collect();
    assert_eq!(names, [(&json!("s"), &json!("connected")), (&json!("ghost"), &json!("failed"))]);
    let tools = servers[0]["tools"].as_array().unwrap();
    let sum: u64 = tools.iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum();
    assert_eq!((tools.len(), &json!(sum), &tools[0]["name"]), (2, &report["tokens"], &json!("mcp__s__add")));
    // A named server must be reachable.
    assert_eq!(sandbox.run(&["context", "ghost"]).code, 4);
}
