//! `wharf run` and `wharf context` with more tools than a model is offered at once.

use serde_json::{Value, json};
use wharf_testkit::Script;
use wharf_testkit::models::Turn;

use super::models::{Provider, parse_output};
use crate::fixtures::Sandbox;
use crate::{Server, ran, wharf};

/// A server with 300 tools, of which one sends invoices, and one wants to be offered at once.
fn many() -> Script {
    let mut script = Script::good();
    for number in 0..300 {
        let description =
            format!("Does the thing with the number {number}, and nothing else. {}", "Details follow. ".repeat(20));
        script = script.tool(json!({"name": format!("thing_{number}"), "description": description,
            "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}));
    }
    let now = json!({"name": "now", "description": "Says what time it is.", "inputSchema": {"type": "object"},
        "_meta": {"anthropic/alwaysLoad": true}});
    script.tool(now).tool(json!({"name": "mail_bill", "description": "Sends an invoice to a customer.",
        "inputSchema": {"type": "object", "properties": {"customer": {"type": "string"}}}}))
}

fn tools(body: &Value) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_model_searches_for_tools_that_it_is_not_offered() {
    let server = Server::new(&many());
    let provider = Provider::new([
        Turn::default().calling("c1", "search_tools", r#"{"query":"send an invoice"}"#),
        Turn::default().calling("c2", "mcp__s__mail_bill", r#"{"customer":"Anna"}"#),
        Turn::text("It is sent."),
    ]);
    let mut command = wharf(&[
        "run",
        "-m",
        "anthropic:claude-sonnet-4-5",
        "--mcp",
        &server.mcp(),
        "--json",
        "--allow",
        "*",
        "Bill Anna",
    ]);
    provider.env(&mut command);
    let ran = ran(command);
    let shown = parse_output(&ran);
    assert_eq!((ran.code, &shown["final_response"]), (0, &json!("It is sent.")), "{}", ran.err);
    let bodies = provider.models.bodies();
    assert_eq!(tools(&bodies[0]), ["read_output", "mcp__s__now", "search_tools"]);
    assert_eq!(tools(&bodies[1])[3], "mcp__s__mail_bill", "what was found is offered");
    assert_eq!(tools(&bodies[2]), tools(&bodies[1]), "and stays offered");
    let description = bodies[0]["tools"][2]["description"].as_str().unwrap();
    assert!(description.contains("s (304)"), "{description}");
    let found = bodies[1]["messages"][2]["content"][0]["content"].to_string();
    assert!(found.contains("mcp__s__mail_bill: Sends an invoice to a customer."), "{found}");
    // It is a call like any other.
    let calls: Vec<&str> =
        shown["tool_traces"].as_array().unwrap().iter().map(|call| call["name"].as_str().unwrap()).collect();
    assert_eq!(calls, ["search_tools", "mcp__s__mail_bill"], "{}", ran.out);

    let provider = Provider::new([Turn::text("Nothing.")]);
    let mut command = wharf(&["run", "-m", "openai:gpt-5", "--mcp", &server.mcp(), "--all-tools", "Bill Anna"]);
    provider.env(&mut command);
    crate::ran(command);
    assert_eq!(tools_of_chat(&provider.models.bodies()[0]), 305);
}

fn tools_of_chat(body: &Value) -> usize {
    body["tools"].as_array().unwrap().len()
}

#[test]
fn context_counts_what_the_first_request_has() {
    let sandbox = Sandbox::new().server("s", &many());
    let report = |arguments: &[&str]| -> Value {
        serde_json::from_str(&sandbox.run(&[&["context", "--json"], arguments].concat()).out).unwrap()
    };
    let (some, all) = (report(&[]), report(&["--all-tools"]));
    let tokens = |report: &Value| report["tokens"].as_u64().unwrap();
    assert!(tokens(&some) < 500 && tokens(&all) > 25_000, "{} {}", tokens(&some), tokens(&all));
    assert!(some["search_tool"].as_u64() > Some(100) && all.get("search_tool").is_none());
    let deferred = some["servers"][0]["tools"].as_array().unwrap().iter().filter(|tool| tool["deferred"] == true);
    assert_eq!(deferred.count(), 303);
    let text = sandbox.run(&["context"]).out;
    assert!(
        text.contains("search_tools") && text.contains("s: 303 tools behind `search_tools`, which saves "),
        "{text}"
    );
    assert_eq!(report(&["s"])["tokens"], all["tokens"], "for one server, all of its tools");

    let loaded = Sandbox::new().server_with("s", &many(), "alwaysLoad", json!(["thing_1*", "echo"]));
    let text = loaded.run(&["context"]).out;
    assert!(text.contains("s: 191 tools behind `search_tools`"), "{text}");
    let whole = Sandbox::new().server_with("s", &many(), "alwaysLoad", json!(true));
    assert!(!whole.run(&["context"]).out.contains("behind"));
}
