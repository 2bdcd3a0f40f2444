//! `wharf run` with a conversation that is longer than the model's context window.

use serde_json::json;
use wharf_testkit::Script;
use wharf_testkit::models::{FakeModels, Tokens, Turn};

use super::models::{Provider, parse_output};
use crate::{Server, ran, wharf};

const TURNS: u64 = 40;

/// A model that calls a tool many times, and reports more input tokens each time until it is asked for a summary.
fn long_run() -> FakeModels {
    let turn = |number: u64| {
        let tokens = Tokens { input: 300 + 40 * number, ..Tokens::default() };
        let text = "I add the next number to the sum. ".repeat(4);
        let arguments = json!({"a": number, "b": 1}).to_string();
        Turn::text(text).calling(&format!("c{number}"), "mcp__s__add", &arguments).costing(tokens)
    };
    let turns = (1..=TURNS).map(turn).chain([Turn::text("It is 42.")]);
    FakeModels::new(turns).summarizing("The sum is 1 so far.")
}

#[test]
fn a_long_run_is_summarized_at_the_given_number_of_tokens() {
    let server = Server::new(&Script::good());
    let provider = Provider::of(long_run());
    let limits = ["--max-turns", "100", "--max-tool-calls", "100", "--max-context-tokens", "1500"];
    let mut command = wharf(&["run", "-m", "anthropic:claude-sonnet-4-5", "--mcp", &server.mcp(), "How much?"]);
    provider.env(command.args(limits));
    let ran = ran(command);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is 42.\n"), "{}", ran.err);
    assert!(ran.err.contains("messages are summarized: about ") && ran.err.contains(" instead of 1,5"), "{}", ran.err);
    let last = provider.models.bodies().pop().unwrap()["messages"][0].to_string();
    assert!(last.contains("How much?") && last.contains("The sum is 1 so far."), "{last}");

    let provider = Provider::of(long_run());
    let mut command = wharf(&["run", "-m", "openai:gpt-5", "--mcp", &server.mcp(), "--json", "How much?"]);
    provider.env(command.args(limits));
    let shown = parse_output(&crate::ran(command));
    let first = &shown["compactions"][0];
    assert!(first["tokens_before"].as_u64() >= Some(1_500), "{first}");
    assert_eq!(shown["trace_messages"].as_array().unwrap().len() as u64, 2 * TURNS + 1, "the trace has everything");
}
