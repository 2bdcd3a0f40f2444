//! `wharf call`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Server, ran_with_input, run_output, screen, wharf};

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
fn arguments_are_pairs_json_or_stdin() {
    let server = server();
    for arguments in [&["call", "s", "add", "a=2", "b=3"][..], &["call", "s", "add", r#"{"a": 2, "b": 3}"#]] {
        let ran = server.run(arguments);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "5\n", ""), "{arguments:?}");
    }
    let ran = ran_with_input(wharf(&["call", "s", "add", "-", "--mcp", &server.mcp()]), r#"{"a": 20, "b": 22}"#);
    assert_eq!((ran.code, ran.out.as_str()), (0, "42\n"));
    // The schema requires a string, so the number stays a string.
    assert_eq!(server.run(&["call", "s", "echo", "text=007"]).out, "007\n");
}

#[test]
fn json_output_contains_the_result_as_sent() {
    let ran = server().run(&["call", "s", "mixed", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["version"], &report["server"], &report["isError"]), (&json!(1), &json!("s"), &json!(false)));
    assert_eq!(report["result"]["content"][2], json!({"type": "hologram"}));
}

#[test]
fn json_output_keeps_deep_nesting_and_huge_numbers() {
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
fn multi_line_arguments_are_read_from_stdin() {
    let pretty = "{\n  \"a\": 20,\n  \"b\": 22\n}\n";
    let ran = ran_with_input(wharf(&["call", "s", "add", "-", "--mcp", &server().mcp()]), pretty);
    assert_eq!((ran.code, ran.out.as_str()), (0, "42\n"), "{}", ran.err);
}

#[test]
fn a_tool_error_is_printed_with_its_message() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "fail"])));
}

#[test]
fn control_characters_are_escaped_on_a_terminal_but_not_in_a_pipe() {
    let server = server();
    let piped = server.run(&["call", "s", "mixed"]);
    assert!(
        piped.out.starts_with("bell \u{7} and \u{1b}]52;c;aGk=\u{7}\n[image, image/png, 2 bytes]\n"),
        "{}",
        piped.out
    );
    let warning = "warning: s: block 3 of the result: is of the unknown type `hologram`\n";
    assert!(piped.err.starts_with(warning), "{}", piped.err);
    let command = format!("{} call s mixed --mcp '{}'", env!("CARGO_BIN_EXE_wharf"), server.mcp());
    let seen = String::from_utf8(crate::on_terminal(&command).output().unwrap().stdout).unwrap();
    assert!(seen.contains(r"bell \u{7} and \u{1b}]52;c;aGk=\u{7}"), "{seen:?}");
}

#[test]
fn a_crash_is_reported_in_json() {
    let ran = server().run(&["call", "s", "crash", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let error = &report["error"];
    assert_eq!((ran.code, &error["outcome"], &error["stderr"][0]), (1, &json!("unknown"), &json!("out of cheese")));
}

#[test]
fn a_result_that_violates_its_output_schema_is_still_printed() {
    let tool = json!({"name": "odd", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    let result = json!({"content": [{"type": "text", "text": "three"}], "structuredContent": {"n": "three"}});
    let server = Server::new(&Script::good().tool(tool).on_call("odd", [Step::Result(result)]));
    let ran = server.run(&["call", "s", "odd"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "three\n"));
    assert!(ran.err.contains("does not match its output schema: at `/n`"), "{}", ran.err);
}

#[test]
fn a_full_stdout_is_an_error_but_a_closed_pipe_is_not() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let server = server();
    let mut command = wharf(&["call", "s", "add", "a=1", "b=2", "--mcp", &server.mcp()]);
    let ran = run_output(&command.stdout(full()).output().unwrap());
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: cannot write to stdout: No space left on device (os error 28)\n")
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = wharf(&["completions", "bash"]);
    assert_eq!(run_output(&command.stdout(writer).output().unwrap()).code, 0);
}

#[test]
fn call_reports_invalid_tools_and_counts_available_ones() {
    let server = Server::new(&Script::default().tool(json!({"name": "odd", "inputSchema": 7})));
    let err = server.run(&["call", "s", "odd"]).err;
    assert_eq!(err, "error: s: tool `odd` left out: `inputSchema` is not a schema: 7\n");
    assert!(server.run(&["call", "s", "other"]).err.ends_with("hint: the server has no tools\n"));
    let many = (0..40).fold(Script::default(), |script, n| script.any_tool(&format!("{n}{n}")));
    let err = Server::new(&many).run(&["call", "s", "weather"]).err;
    assert!(err.ends_with("hint: the server has 40 tools; list them: wharf tools s\n"), "{err}");
}

#[test]
fn a_tool_left_out_for_its_size_is_reported_with_the_reason() {
    let large = json!({"name": "large", "inputSchema": {"type": "object", "description": "x".repeat(70_000)}});
    let server = Server::new(&Script::good().tool(large));
    let reason = "s: tool `large` left out: its definition has ";
    let called = server.run(&["call", "s", "large"]);
    assert!(called.code == 2 && called.err.contains(&format!("error: {reason}")), "{}", called.err);
    let listed = server.run(&["tools"]);
    assert!(listed.code == 0 && listed.err.contains(&format!("warning: {reason}")), "{}", listed.err);
    assert!(!server.run(&["tools", "-q"]).err.contains("large"));
}

#[test]
fn empty_stdin_is_an_error() {
    let ran = ran_with_input(wharf(&["call", "s", "add", "-", "--mcp", &server().mcp()]), " \n");
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: stdin is empty\nhint: expected one JSON object\n"));
}

#[test]
fn a_crash_is_reported_with_stderr_and_a_hint() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "crash"])));
}

#[test]
fn a_timeout_ends_a_call() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "hang", "--timeout", "0.5"])));
}

#[test]
fn invalid_arguments_are_reported_with_the_accepted_ones() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "add", "a=2", "b=x"])));
}

#[test]
fn an_unknown_tool_suggests_the_nearest_name() {
    insta::assert_snapshot!(screen(&server().run(&["call", "s", "ad"])));
}

#[test]
fn progress_is_not_written_without_a_terminal() {
    let ran = server().run(&["call", "s", "slow"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "done\n", ""));
}

#[test]
fn colors_are_written_only_on_request_without_a_terminal() {
    let server = server();
    assert!(!server.run(&["call", "s", "fail"]).err.contains('\u{1b}'));
    assert!(server.run(&["call", "s", "fail", "--color", "always"]).err.contains("\u{1b}["));
}

#[test]
fn a_read_only_call_killed_midway_is_repeated_over_stdio() {
    let tool = |name: &str, is_read_only: bool| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": is_read_only}});
    let server = Server::new(
        &Script::good()
            .tool(tool("look", true))
            .tool(tool("write", false))
            .on_call("look", [Step::ExitOnce(7, "$/looked".into()), Step::Text("seen".into())])
            .on_call("write", [Step::ExitOnce(7, "$/wrote".into()), Step::Text("written".into())]),
    );
    let look = server.run(&["call", "s", "look"]);
    assert_eq!((look.code, look.out.as_str()), (0, "seen\n"), "{}", look.err);
    let write = server.run(&["call", "s", "write"]);
    assert!(write.code == 1 && write.err.contains("whether the call ran is unknown"), "{}", write.err);
}

#[test]
fn arguments_that_the_schema_does_not_know_are_warned_about() {
    let server = server();
    let ran = server.run(&["call", "s", "add", "a=2", "b=3", "bb=4"]);
    let warning = "warning: s: `add` has no argument `bb`\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "5\n", warning));
    let ran = server.run(&["call", "s", "echo", "txt=hi"]);
    let warning = "warning: s: `echo` has no argument `txt`\nhint: did you mean `text`?\n";
    assert!(ran.code == 2 && ran.err.starts_with(warning), "{}", ran.err);
}

#[test]
fn all_violations_of_the_schema_are_shown_at_once() {
    let ran = server().run(&["call", "s", "add", "a=one", "b=two"]);
    let expected = "error: s: the arguments of `add` do not match its schema: at `/a`: \"one\" is not of type \
                    \"integer\"; at `/b`: \"two\" is not of type \"integer\"\n";
    assert!(ran.code == 2 && ran.err.starts_with(expected), "{}", ran.err);
}

#[test]
fn images_of_a_result_are_saved_and_the_files_are_named() {
    let server = server();
    let folder = server.path().join("saved");
    let dir = folder.to_str().unwrap();
    let without = server.run(&["call", "s", "mixed"]);
    assert!(
        without.err.contains("hint: save the images and audio clips to a directory: --save DIR"),
        "{}",
        without.err
    );
    let saved = server.run(&["call", "s", "mixed", "--save", dir]);
    assert_eq!((saved.code, &saved.out), (0, &without.out), "{}", saved.err);
    assert!(saved.err.contains(&format!("saved {dir}/mixed.png (image/png, 2 bytes)\n")), "{}", saved.err);
    let again: Value = serde_json::from_str(&server.run(&["call", "s", "mixed", "--save", dir, "--json"]).out).unwrap();
    let file = format!("{dir}/mixed-2.png");
    assert_eq!(again["saved"], json!([{"file": file, "mimeType": "image/png", "bytes": 2}]));
    assert_eq!(std::fs::read(&file).unwrap(), b"hi");
    let nothing = server.run(&["call", "s", "slow", "--save", dir]);
    assert_eq!((nothing.code, nothing.out.as_str()), (0, "done\n"));
    assert_eq!(nothing.err, "s: the result has no image and no audio clip to save\n");
    let unwritable = server.run(&["call", "s", "mixed", "--save", "/dev/null/x", "--json"]);
    let error: Value = serde_json::from_str(&unwritable.out).unwrap();
    assert!(unwritable.code == 1 && error["error"]["outcome"] == "answered", "{error}");
}
