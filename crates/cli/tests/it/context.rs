//! `wharf context`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::world::World;

/// A server with a few tools, one of them with far too much to say.
fn talkative() -> Script {
    let long = "This tool does something. ".repeat(2_400);
    Script::good().tool(json!({"name": "essay", "description": long, "inputSchema": {"type": "object"}}))
}

#[test]
fn servers_and_tools_are_told_with_the_most_expensive_first() {
    let world = World::new().server("small", &Script::good()).server("large", &talkative());
    let ran = world.run(&["context"]);
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
fn one_server_is_told_tool_by_tool_and_so_is_every_server_with_v() {
    let world = World::new().server("one", &talkative()).server("two", &Script::good());
    let one = world.run(&["context", "one"]);
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
    let all = world.run(&["context", "-v"]);
    assert_eq!((all.code, all.out.matches("two     ").count()), (0, 3), "{}", all.out);
}

#[test]
fn a_context_that_is_filled_with_tools_comes_with_a_way_out() {
    let world = World::new().server("s", &Script::good());
    let full = world.run(&["context", "--window", "100"]);
    assert_eq!(
        full.err,
        "hint: the tools take 84.0 % of the window; allow only those you need in a server's entry: \
         \"tools\": {\"allow\": [\"search_*\"]}\n"
    );
    assert_eq!((world.run(&["context", "--window", "100", "-q"]).err.as_str(), full.code), ("", 0));
    assert_eq!(world.run(&["context", "--window", "0"]).code, 2);
}

#[test]
fn what_the_configuration_leaves_out_costs_nothing_and_is_told() {
    let all = World::new().server("s", &Script::good());
    let some = World::new().server_with("s", &Script::good(), "tools", json!({"allow": ["echo"]}));
    let tokens = |world: &World| {
        let told: Value = serde_json::from_str(&world.run(&["context", "--json"]).out).unwrap();
        (told["tokens"].as_u64().unwrap(), told["servers"][0]["saved"].clone())
    };
    let (whole, nothing) = tokens(&all);
    let (less, saved) = tokens(&some);
    assert_eq!(nothing, json!({"leftOut": 0, "byLeavingOut": 0, "cut": 0, "byCutting": 0}));
    assert_eq!(saved["leftOut"], 1);
    assert_eq!(less + saved["byLeavingOut"].as_u64().unwrap(), whole);
    assert!(some.run(&["context"]).out.contains("s: 1 tool excluded by the configuration, which saves"));
}

#[test]
fn instructions_count_and_are_cut_as_well() {
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}, "instructions": "Use it well. ".repeat(1_000)});
    let world = World::new().server("s", &Script::good().on("initialize", [Step::Result(greeting)]));
    let told: Value = serde_json::from_str(&world.run(&["context", "--json"]).out).unwrap();
    let server = &told["servers"][0];
    let instructions = server["instructions"].as_u64().unwrap();
    assert!((400..800).contains(&instructions), "{told}");
    // Four tokens a sentence, and a thousand sentences.
    let cut = server["saved"]["byCutting"].as_u64().unwrap();
    assert!(server["saved"]["cut"] == 1 && (3_900..4_100).contains(&(instructions + cut)), "{told}");
    assert!(world.run(&["context"]).out.contains("tokens of instructions"));
}

#[test]
fn programs_get_every_tool_and_the_servers_that_are_not_there() {
    let world = World::new().server("s", &Script::good()).entry("ghost", json!({"command": "no-such-server"}));
    let ran = world.run(&["context", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.code, &told["version"], &told["tokenizer"], &told["window"]),
        (0, &json!(1), &json!("o200k_base"), &json!(200_000))
    );
    let servers = told["servers"].as_array().unwrap();
    let names: Vec<_> = servers.iter().map(|server| (&server["name"], &server["state"])).collect();
    assert_eq!(names, [(&json!("s"), &json!("connected")), (&json!("ghost"), &json!("failed"))]);
    let tools = servers[0]["tools"].as_array().unwrap();
    let sum: u64 = tools.iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum();
    assert_eq!((tools.len(), &json!(sum), &tools[0]["name"]), (2, &told["tokens"], &json!("mcp__s__add")));
    // A server that is named has to be there.
    assert_eq!(world.run(&["context", "ghost"]).code, 4);
}
