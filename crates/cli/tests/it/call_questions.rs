//! Questions of servers during `wharf call` at a terminal: forms, completions and directories.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wharf_testkit::{Script, Step, WireLog};

use crate::Server;
use crate::terminal::{Terminal, on_terminal};

/// A server whose tool `ask` sends a request and returns the answer.
fn asking(method: &str, params: Value) -> Server {
    let steps = [Step::Ask(method.to_owned(), params), Step::EchoAnswer];
    Server::new(&Script::good().any_tool("ask").on_call("ask", steps))
}

fn form(properties: &Value, required: &Value) -> Server {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    asking("elicitation/create", json!({"message": "Who?", "requestedSchema": schema}))
}

fn start(server: &Server, more: &str) -> Terminal {
    let line = format!(
        "cd '{}'; stty cols 100 rows 24; timeout --foreground 60 {} call s ask {more} --mcp '{}'",
        server.path().display(),
        env!("CARGO_BIN_EXE_wharf"),
        server.mcp()
    );
    Terminal::start(on_terminal(&line))
}

#[test]
fn a_form_is_filled_in_and_wrong_values_are_asked_for_again() {
    let fields = json!({
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 1, "maximum": 120, "default": 36},
        "mail": {"type": "string", "format": "email"},
        "color": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
    });
    let server = form(&fields, &json!(["name"]));
    let mut terminal = start(&server, "");
    terminal.answer("s │ name (text, at least 2 characters), required: ", "");
    terminal.wait_for("s │ `name` is required; /decline declines the form");
    terminal.answer("s │ name (text, at least 2 characters), required: ", "Ada");
    terminal.answer("s │ age (a whole number, from 1 to 120) [36]: ", "");
    terminal.answer("s │ mail (an email address): ", "nobody");
    terminal.wait_for("s │ not accepted: `mail` must be an email address");
    terminal.answer("s │ mail (an email address): ", "");
    terminal.answer("s │ choose one: ", "3");
    terminal.wait_for("s │ not accepted: `color` must be one of the choices, by number or by value");
    terminal.answer("s │ choose one: ", "2");
    terminal.answer("s │ choose some, separated by commas: ", "c,1");
    terminal.answer("s │ send this? [y]es, [n]o, [e]dit: ", "y");
    let (code, seen) = terminal.finish();
    assert!(seen.contains("s │   1) r (Red)\ns │   2) g (Green)\n"), "{seen}");
    let answer = r#""content":{"age":36,"name":"Ada","color":"g","tags":["c","a"]}"#;
    assert!(seen.contains(answer), "{seen}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_form_can_be_declined_at_any_field() {
    let server = form(&json!({"a": {"type": "string"}, "b": {"type": "string"}}), &json!([]));
    let mut terminal = start(&server, "");
    terminal.answer("s │ a: ", "one");
    terminal.answer("s │ b: ", "/decline");
    let (_, seen) = terminal.finish();
    assert!(seen.contains(r#"{"action":"decline"}"#) && !seen.contains("send this?"), "{seen}");
}

#[test]
fn enter_neither_sends_nor_drops_a_filled_form() {
    let server = form(&json!({"city": {"type": "string"}}), &json!(["city"]));
    let mut terminal = start(&server, "");
    let question = "s │ send this? [y]es, [n]o, [e]dit: ";
    terminal.answer("s │ city, required: ", "Pariss");
    terminal.answer(question, "");
    terminal.wait_for("s │ expected [y]es, [n]o, [e]dit");
    terminal.answer(question, "e");
    terminal.answer("s │ city, required [Pariss]: ", "Paris");
    terminal.answer(question, "y");
    let (code, seen) = terminal.finish();
    assert!(seen.contains(r#""content":{"city":"Paris"}"#) && code == Some(0), "{seen}");

    for no in ["n", "/decline"] {
        let mut terminal = start(&server, "");
        terminal.answer("s │ city, required: ", "Paris");
        terminal.answer(question, no);
        let (_, seen) = terminal.finish();
        assert!(seen.contains(r#"{"action":"decline"}"#), "{seen}");
    }
}

fn completion() -> Server {
    let message = json!({"role": "user", "content": {"type": "text", "text": "Capital of France?"}});
    let server = asking("sampling/createMessage", json!({"messages": [message], "maxTokens": 50}));
    std::fs::write(server.path().join("turns.yaml"), "- text: Paris\n").unwrap();
    server
}

#[test]
fn a_completion_needs_consent_for_the_request_and_for_the_answer() {
    let server = completion();
    let mut terminal = start(&server, "-m scripted:turns.yaml");
    terminal.wait_for("s │ requests a completion of scripted:turns.yaml, at most 50 tokens");
    terminal.wait_for("s │ user: Capital of France?");
    terminal.answer("s │ send this to the model? [y]es, [N]o: ", "y");
    terminal.wait_for("s │ answer: Paris");
    terminal.answer("s │ send this to the server? [y]es, [N]o: ", "y");
    let (_, seen) = terminal.finish();
    assert!(seen.contains(r#""text":"Paris""#) && seen.contains(r#""stopReason":"endTurn""#), "{seen}");

    let mut terminal = start(&server, "-m scripted:turns.yaml");
    terminal.answer("s │ send this to the model? [y]es, [N]o: ", "");
    let (_, seen) = terminal.finish();
    assert!(!seen.contains("Paris") && seen.contains("the user declined the request"), "{seen}");

    let mut terminal = start(&server, "-m scripted:turns.yaml");
    terminal.answer("s │ send this to the model? [y]es, [N]o: ", "y");
    terminal.answer("s │ send this to the server? [y]es, [N]o: ", "n");
    let (_, seen) = terminal.finish();
    assert!(!seen.contains(r#""text":"Paris""#) && seen.contains("the user declined the answer"), "{seen}");
}

#[test]
fn a_manual_model_may_complete_for_a_server_of_the_command_line() {
    let server = completion();
    std::fs::write(server.path().join("traces.json"), "{}").unwrap();
    let mut terminal = start(&server, "-m manual:traces.json");
    terminal.answer("s │ send this to the model? [y]es, [N]o: ", "n");
    let (_, seen) = terminal.finish();
    assert!(seen.contains("the user declined the request"), "{seen}");
}

#[test]
fn a_local_server_gets_the_directory_of_the_project() {
    let server = asking("roots/list", json!({}));
    let (_, seen) = start(&server, "").finish();
    let root = server.path().canonicalize().unwrap();
    assert!(seen.contains(&format!(r#""uri":"file://{}""#, root.display())), "{seen}");
}

/// Calls the tool of a server at a terminal or without one, and returns the capabilities that the server was offered.
fn offered(is_terminal: bool, more: &str) -> Value {
    let server = Server::new(&Script::good().any_tool("ask"));
    std::fs::write(server.path().join("turns.yaml"), "- text: Paris\n").unwrap();
    let log = server.path().join("log");
    let line = format!(
        "cd '{}'; {} call s ask {more} --protocol legacy --mcp '{} {}'",
        server.path().display(),
        env!("CARGO_BIN_EXE_wharf"),
        server.mcp(),
        log.display()
    );
    if is_terminal {
        Terminal::start(on_terminal(&line)).finish();
    } else {
        Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().unwrap();
    }
    let initialize = WireLog::from_file(&log).last_params("initialize").unwrap();
    initialize["capabilities"].clone()
}

#[test]
fn only_what_can_be_answered_is_offered() {
    assert_eq!(offered(false, "-m scripted:turns.yaml"), json!({"roots": {}}));
    let elicitation = json!({"form": {}, "url": {}});
    assert_eq!(offered(true, ""), json!({"roots": {}, "elicitation": elicitation}));
    let all = json!({"roots": {}, "elicitation": elicitation, "sampling": {}});
    assert_eq!(offered(true, "-m scripted:turns.yaml"), all);
}
