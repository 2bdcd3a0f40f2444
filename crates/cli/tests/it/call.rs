//! `wharf call`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Server, done, ran_with_input, screen, wharf};

fn server() -> Server {
    let script = Script::good().any_tool("fail").any_tool("crash").any_tool("hang").any_tool("mixed").any_tool("slow");
    let failure = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
    let mixed = json!({"content": [
        {"type": "text", "text": "bell \u{7} and \u{1b}]52;c;aGk=\u{7}"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "hologram"}]});
    Server::new(
        &script
            .on_call("fail", [Step::Result(failure)])
            .on_call("mixed", [Step::Result(mixed)])
            .on_call("crash", [Step::Stderr("out of cheese".into()), Step::Exit(7)])
            .on_call("slow", [Step::Progress(1.0, 2.0, "half".into()), Step::Text("done".into())])
            .on_call("hang", [Step::Hang]),
    )
}

#[test]
fn arguments_come_as_pairs_as_json_or_from_stdin() {
    let server = server();
    for arguments in [&["call", "s", "add", "a=2", "b=3"][..], &["call", "s", "add", r#"{"a": 2, "b": 3}"#]] {
        let ran = server.run(arguments);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "5\n", ""), "{arguments:?}");
    }
    let ran = ran_with_input(wharf(&["call", "s", "add", "-", "--mcp", &server.mcp()]), r#"{"a": 20, "b": 22}"#);
    assert_eq!((ran.code, ran.out.as_str()), (0, "42\n"));
    // The schema wants text, so a number stays text.
    assert_eq!(server.run(&["call", "s", "echo", "text=007"]).out, "007\n");
}

#[test]
fn json_carries_the_result_as_the_server_sent_it() {
    let ran = server().run(&["call", "s", "mixed", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&told["version"], &told["server"], &told["isError"]), (&json!(1), &json!("s"), &json!(false)));
    assert_eq!(told["result"]["content"][2], json!({"type": "hologram"}));
}

#[test]
fn json_survives_what_no_tree_can_hold() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{{id}},"result":{{"content":[],"structuredContent":{{"n":1e99999,"d":{deep}}}}}}}"#
    );
    let server = Server::new(&Script::good().any_tool("odd").on_call("odd", [Step::Line(line)]));
    let ran = server.run(&["call", "s", "odd", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(r#""n":1e99999,"d":[[["#), "{}", ran.out);
}

#[test]
fn arguments_in_several_lines_from_stdin_arrive() {
    let pretty = "{\n  \"a\": 20,\n  \"b\": 22\n}\n";
    let ran = ran_with_input(wharf(&["call", "s", "add", "-", "--mcp", &server().mcp()]), pretty);
    assert_eq!((ran.code, ran.out.as_str()), (0, "42\n"), "{}", ran.err);
}

#[test]
fn a_failed_tool_is_told_with_its_own_words() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "fail"])));
}

#[test]
fn what_a_terminal_would_act_on_never_reaches_it_and_a_pipe_gets_what_was_sent() {
    let server = server();
    let piped = server.run(&["call", "s", "mixed"]);
    assert!(
        piped.out.starts_with("bell \u{7} and \u{1b}]52;c;aGk=\u{7}\n[image, image/png, 3 bytes]\n"),
        "{}",
        piped.out
    );
    assert_eq!(piped.err, "warning: s: block 3 of the result: is of the unknown type `hologram`\n");
    let command = format!("{} call s mixed --mcp '{}'", env!("CARGO_BIN_EXE_wharf"), server.mcp());
    let seen = String::from_utf8(crate::on_terminal(&command).output().unwrap().stdout).unwrap();
    assert!(seen.contains(r"bell \u{7} and \u{1b}]52;c;aGk=\u{7}"), "{seen:?}");
}

#[test]
fn a_failure_can_be_read_by_a_program_too() {
    let ran = server().run(&["call", "s", "crash", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let error = &told["error"];
    assert_eq!((ran.code, &error["outcome"], &error["stderr"][0]), (1, &json!("unknown"), &json!("out of cheese")));
}

#[test]
fn a_result_that_breaks_its_promise_is_shown_all_the_same() {
    let tool = json!({"name": "odd", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    let result = json!({"content": [{"type": "text", "text": "three"}], "structuredContent": {"n": "three"}});
    let server = Server::new(&Script::good().tool(tool).on_call("odd", [Step::Result(result)]));
    let ran = server.run(&["call", "s", "odd"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "three\n"));
    assert!(ran.err.contains("does not match its output schema: at `/n`"), "{}", ran.err);
}

#[test]
fn stdout_that_cannot_be_written_is_an_error_and_one_that_nobody_reads_is_not() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let server = server();
    let mut command = wharf(&["call", "s", "add", "a=1", "b=2", "--mcp", &server.mcp()]);
    let ran = done(&command.stdout(full()).output().unwrap());
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: cannot write to stdout: No space left on device (os error 28)\n")
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = wharf(&["completions", "bash"]);
    assert_eq!(done(&command.stdout(writer).output().unwrap()).code, 0);
}

#[test]
fn a_tool_that_was_left_out_is_answered_with_its_reason_and_many_names_with_their_number() {
    let server = Server::new(&Script::default().tool(json!({"name": "odd", "inputSchema": 7})));
    let told = server.run(&["call", "s", "odd"]).err;
    assert_eq!(told, "error: s: tool `odd` left out: `inputSchema` is not a schema: 7\n");
    assert!(server.run(&["call", "s", "other"]).err.ends_with("hint: the server has no tools\n"));
    let many = (0..40).fold(Script::default(), |script, n| script.any_tool(&format!("{n}{n}")));
    let told = Server::new(&many).run(&["call", "s", "weather"]).err;
    assert!(told.ends_with("hint: the server has 40 tools; list them: wharf tools s\n"), "{told}");
}

#[test]
fn empty_stdin_is_told() {
    let ran = ran_with_input(wharf(&["call", "s", "add", "-", "--mcp", &server().mcp()]), " \n");
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: stdin is empty\nhint: expected one JSON object\n"));
}

#[test]
fn a_crash_is_told_with_its_last_words_and_a_hint() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "crash"])));
}

#[test]
fn a_limit_ends_a_call() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "hang", "--timeout", "0.5"])));
}

#[test]
fn arguments_that_do_not_fit_are_told_with_what_the_tool_takes() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "add", "a=2", "b=x"])));
}

#[test]
fn a_tool_that_is_not_there_is_answered_with_the_nearest_one() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "ad"])));
}

#[test]
fn progress_is_not_written_where_nobody_looks() {
    let ran = server().run(&["call", "s", "slow"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "done\n", ""));
}

#[test]
fn colours_are_there_when_asked_for_and_not_otherwise() {
    let server = server();
    assert!(!server.run(&["call", "s", "fail"]).err.contains('\u{1b}'));
    assert!(server.run(&["call", "s", "fail", "--color", "always"]).err.contains("\u{1b}["));
}
