//! `wharf repl`: one session, at a terminal and as a script.

use serde_json::json;
use wharf_testkit::{Script, Step};

use crate::terminal::Terminal;
use crate::{Person, RunOutput, Server, on_terminal, ran_with_input, wharf};

fn script() -> Script {
    Script::good()
        .any_tool("crash")
        .any_tool("slow")
        .any_tool("json")
        .any_tool("ask")
        .on_call("crash", [Step::Stderr("out of cheese".into()), Step::Exit(7)])
        .on_call("slow", [Step::Wait(3_000), Step::Text("late".into())])
        .on_call("json", [Step::Text(r#"{"b":[1,2],"a":null}"#.into())])
        .on_call(
            "ask",
            [
                Step::Ask(
                    "elicitation/create".into(),
                    json!({"message": "Who?", "requestedSchema": {"type": "object", "required": ["name"],
                        "properties": {"name": {"type": "string"}}}}),
                ),
                Step::EchoAnswer,
            ],
        )
}

fn piped(server: &Server, lines: &str) -> RunOutput {
    ran_with_input(wharf(&["repl", "s", "--mcp", &server.mcp()]), lines)
}

#[test]
fn lines_of_stdin_are_a_script_with_one_session() {
    let server = Server::new(&script());
    let log = server.path().join("trace.jsonl");
    let trace = log.to_str().unwrap();
    let command = wharf(&["repl", "s", "--mcp", &server.mcp(), "--protocol", "legacy", "--trace", trace]);
    let lines = "# sums\nadd a=1 b=2\n\nadd {\"a\": 20, \"b\": 22}\ncall echo text='a b'\nquit\nadd a=9 b=9\n";
    let run = ran_with_input(command, lines);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "3\n42\na b\n", ""));
    let handshakes = std::fs::read_to_string(log).unwrap().matches("\"method\":\"initialize\"").count();
    assert_eq!(handshakes, 1);
}

#[test]
fn a_script_exits_with_its_first_failure_and_goes_on() {
    let server = Server::new(&script());
    let run = piped(&server, "add a=1 b=2\nad a=1\nnothing\nadd a=2 b=2\n");
    assert_eq!((run.code, run.out.as_str()), (2, "3\n4\n"), "{}", run.err);
    assert!(run.err.contains("unknown tool `ad`") && run.err.contains("did you mean `add`?"), "{}", run.err);
    let failed = piped(&server, "crash\nadd x=1\n");
    assert_eq!(failed.code, 1, "{}", failed.err);
}

#[test]
fn a_crashed_server_is_started_again_and_both_are_reported() {
    let server = Server::new(&script());
    let run = piped(&server, "crash\nadd a=1 b=2\n");
    assert_eq!((run.code, run.out.as_str()), (1, "3\n"), "{}", run.err);
    assert!(run.err.contains("out of cheese"), "{}", run.err);
    assert!(run.err.contains("reconnected to s: the session is a new one"), "{}", run.err);
}

#[test]
fn every_command_prints_one_json_value_if_json_is_requested() {
    let server = Server::new(&script());
    let lines = "help\n# comment\n\nad a=1\nresources x\necho text='open\nadd a=1 b=2\ntools nothing\nquit\n";
    let run = ran_with_input(wharf(&["repl", "s", "--json", "--mcp", &server.mcp()]), lines);
    assert_eq!(run.code, 2, "{}", run.err);
    let values: Vec<serde_json::Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 6, "{}", run.out);
    assert!(values.iter().all(|value| value["version"] == 1), "{}", run.out);
    assert_eq!(values[0]["commands"][3]["usage"], "tools [TOOL]");
    let message = |index: usize| values[index]["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(message(1), "s: unknown tool `ad`");
    assert_eq!((message(2), message(3)), ("`resources` has no arguments", "unclosed quote"));
    assert_eq!((values[4]["isError"].clone(), message(5)), (json!(false), "s: unknown tool `nothing`"));
}

#[test]
fn lists_help_and_readable_json_are_printed() {
    let server = Server::new(&script());
    let run = piped(&server, "help\ntools\ntools add\njson\nresources x\n");
    assert_eq!(run.code, 2, "{}", run.err);
    for part in [
        "TOOL key=value…",
        "echo",
        "Says it again",
        "a: integer, required",
        "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": null\n}\n",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let json = ran_with_input(wharf(&["repl", "s", "--json", "--mcp", &server.mcp()]), "json\n");
    assert!(json.out.starts_with(r#"{"version":1,"server":"s","tool":"json""#), "{}", json.out);
}

fn terminal(person: &Person, server: &Server) -> Terminal {
    // In place of the shell, which would end by the Ctrl-C that the repl survives.
    let line = format!("exec {} repl s --mcp '{}'", env!("CARGO_BIN_EXE_wharf"), server.mcp());
    let mut command = on_terminal(&line);
    command.env("HOME", person.path("home")).current_dir(person.path("project"));
    Terminal::start(command)
}

#[test]
fn a_user_completes_calls_cancels_answers_and_leaves() {
    let (person, server) = (Person::new(), Server::new(&script()));
    let mut repl = terminal(&person, &server);
    repl.wait_for("Ctrl-D leaves.");
    repl.wait_for("s> ");
    // Tab completes the tool and its arguments.
    repl.write("ec\ttex\thello\n");
    repl.wait_for("hello\r\n");
    repl.wait_for("s> ");
    repl.write("slow\n");
    repl.wait_for("calling slow");
    repl.write("\u{3}");
    repl.wait_for("canceled");
    repl.wait_for("s> ");
    repl.write("ask\n");
    // Ctrl-C during a question cancels the call, and what is typed next is a command.
    repl.wait_for("name, required: ");
    repl.write("\u{3}");
    repl.wait_for("canceled");
    repl.wait_for("s> ");
    repl.write("echo text=between\n");
    repl.wait_for("between\r\n");
    repl.wait_for("s> ");
    repl.write("ask\n");
    repl.answer("name, required: ", "Ada");
    repl.answer("send this? [y]es, [n]o, [e]dit", "y");
    repl.wait_for("\"name\": \"Ada\"");
    repl.wait_for("s> ");
    repl.write("half a line\u{3}");
    repl.wait_for("s> ");
    repl.write("echo text=again\n");
    repl.wait_for("again\r\n");
    repl.wait_for("s> ");
    repl.write("\u{4}");
    let (code, shown) = repl.ended();
    assert_eq!(code, Some(0), "{shown}");
}

#[test]
fn the_history_is_private_and_has_no_secrets() {
    use std::os::unix::fs::PermissionsExt as _;
    let (person, server) = (Person::new(), Server::new(&script()));
    let mut repl = terminal(&person, &server);
    for line in ["add a=1 b=2", "echo text=x password=hunter22hunter", " echo text=hidden"] {
        repl.wait_for("s> ");
        repl.write(&format!("{line}\n"));
    }
    repl.wait_for("s> ");
    repl.write("quit\n");
    let (code, shown) = repl.ended();
    assert_eq!(code, Some(0), "{shown}");
    let file = "home/.local/state/wharf/repl_history";
    assert_eq!(person.read(file), "add a=1 b=2\nquit\n");
    assert_eq!(std::fs::metadata(person.path(file)).unwrap().permissions().mode() & 0o777, 0o600);
    // The next session has it.
    let mut repl = terminal(&person, &server);
    repl.wait_for("s> ");
    repl.write("\u{1b}[A\u{1b}[A\n");
    repl.wait_for("3\r\n");
    repl.wait_for("s> ");
    repl.write("\u{4}");
    repl.ended();
}
