//! `wharf prompts`, `prompt`, `resources` and `read`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::remote::{refuse, remote};
use crate::{Server, ran, screen, wharf};

fn script() -> Script {
    let mut script = Script::good();
    script.prompts = vec![
        json!({"name": "review", "description": "Reviews code\nthoroughly", "arguments": [
            {"name": "code", "required": true}, {"name": "lines", "required": true}, {"name": "style"}]}),
        json!({"name": "hello"}),
        json!({"title": "nameless"}),
    ];
    script.resources = vec![
        json!({"uri": "file:///a.txt", "name": "a", "mimeType": "text/plain", "description": "The first"}),
        json!({"uri": "file:///logo.png"}),
    ];
    script.templates = vec![json!({"uriTemplate": "file:///{path}", "name": "any file"})];
    script
}

fn messages() -> Value {
    json!({"description": "d", "messages": [
        {"role": "user", "content": {"type": "text", "text": "Look at \u{1b}[31mthis"}},
        {"role": "assistant", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}}}]})
}

fn contents(parts: &Value) -> Server {
    Server::new(&script().on("resources/read", [Step::Result(json!({ "contents": parts }))]))
}

#[test]
fn prompts_and_resources_are_listed_in_tables() {
    let server = Server::new(&script());
    insta::assert_snapshot!(screen(&server.run(&["prompts"])), @r"
    exit 0
    --- stdout
    SERVER  PROMPT  ARGUMENTS                      DESCRIPTION
    s       review  code, lines, style (optional)  Reviews code thoroughly
    s       hello
    --- stderr
    warning: s: prompt 3 left out: has no `name`
    ");
    insta::assert_snapshot!(screen(&server.run(&["resources", "s"])), @r"
    exit 0
    --- stdout
    SERVER  URI               NAME      TYPE        DESCRIPTION
    s       file:///a.txt     a         text/plain  The first
    s       file:///logo.png
    s       file:///{path}    any file
    --- stderr
    ");
}

#[test]
fn a_server_without_prompts_or_resources_is_not_an_error() {
    let server = Server::new(&Script::good());
    for (command, message) in [("prompts", "no prompts\n"), ("resources", "no resources\n")] {
        let ran = server.run(&[command]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", message));
        assert_eq!(server.run(&[command, "-q"]).err, "");
    }
    let ran = server.run(&["prompt", "s", "hello"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: s: unknown prompt `hello`\nhint: it has no prompts\n"));
}

#[test]
fn json_output_contains_the_lists_as_sent() {
    let server = Server::new(&script());
    let list = |command: &str| serde_json::from_str::<Value>(&server.run(&[command, "--json"]).out).unwrap();
    let prompts = list("prompts");
    assert_eq!((&prompts["version"], &prompts["servers"][0]["state"]), (&json!(1), &json!("connected")));
    assert_eq!(prompts["servers"][0]["prompts"][0], script().prompts[0]);
    assert_eq!(prompts["servers"][0]["quarantined"][0]["position"], 2);
    let resources = list("resources");
    assert_eq!(resources["servers"][0]["resources"], json!(script().resources));
    assert_eq!(resources["servers"][0]["templates"], json!(script().templates));
}

#[test]
fn a_failed_list_is_an_error_but_missing_templates_are_not() {
    let broken = Server::new(&script().on("prompts/list", [Step::Error(-32603, "out of paper".into())]));
    let ran = broken.run(&["prompts"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: s: the server answered with error -32603: out of paper\n"));
    let report: Value = serde_json::from_str(&broken.run(&["prompts", "--json"]).out).unwrap();
    assert_eq!(report["servers"][0]["error"]["code"], -32603);
    let plain = Server::new(&script().on("resources/templates/list", [Step::Error(-32601, "what?".into())]));
    let ran = plain.run(&["resources"]);
    assert!(ran.code == 0 && ran.err.is_empty() && ran.out.contains("file:///a.txt"), "{}", screen(&ran));
}

#[test]
fn a_prompt_is_printed_message_by_message() {
    let server = Server::new(&script().on("prompts/get", [Step::Result(messages())]));
    let ran = server.run(&["prompt", "s", "review", "code=1", "lines=2"]);
    insta::assert_snapshot!(screen(&ran).replace('\u{1b}', "ESC"), @r"
    exit 0
    --- stdout
    user:
    Look at ESC[31mthis

    assistant:
    [image, image/png, 2 bytes]

    user:
    [resource file:///b]
    inside
    --- stderr
    ");
    let ran = server.run(&["prompt", "s", "review", r#"{"code": "1", "lines": "2"}"#, "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["version"], &report["prompt"], &report["result"]), (&json!(1), &json!("review"), &messages()));
    let seen = on_terminal(&server, "prompt s review code=1 lines=2");
    assert!(seen.contains(r"Look at \u{1b}[31mthis"), "{seen:?}");
}

#[test]
fn prompt_arguments_are_sent_as_strings() {
    let remote = remote(script().on("prompts/get", [Step::Result(messages())]));
    let mcp = format!("s={}", remote.url());
    let ran = ran(wharf(&["prompt", "s", "review", "code=1", "lines=[2]", "--mcp", &mcp]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sent = remote.sent("prompts/get");
    assert_eq!(sent["params"]["arguments"], json!({"code": "1", "lines": "[2]"}));
}

#[test]
fn invalid_prompt_arguments_are_reported_with_the_accepted_ones() {
    let server = Server::new(&script());
    let cases: [&[&str]; 6] = [
        &["reviw"],
        &["review"],
        &["review", "code=1"],
        &["review", "code=1", "lines=2", "colour=red"],
        &["review", r#"{"code": "1", "lines": 2}"#],
        &["hello", "world"],
    ];
    let errors = cases.iter().map(|case| {
        let ran = server.run(&[&["prompt", "s"], *case].concat());
        assert_eq!(ran.code, 2);
        ran.err
    });
    insta::assert_snapshot!(errors.collect::<Vec<_>>().join("\n"), @r#"
    error: s: unknown prompt `reviw`
    hint: did you mean `review`?

    error: s: prompt `review` requires `code` and `lines`
    hint: review accepts code, lines, style (optional)

    error: s: prompt `review` requires `lines`
    hint: review accepts code, lines, style (optional)

    error: s: prompt `review` has no argument `colour`
    hint: review accepts code, lines, style (optional)

    error: argument `lines` is not a string: prompts accept only strings
    hint: quote it: {"lines": "2"}

    error: invalid argument `world`: expected key=value
    hint: write key=value, or all arguments as one JSON object
    "#);
}

#[test]
fn a_resource_is_written_unchanged() {
    let text = "no line feed at the end, \u{1b}[31mand red";
    let server = contents(&json!([{"uri": "file:///a.txt", "text": text}]));
    let ran = server.run(&["read", "s", "file:///a.txt"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, text, ""));
    let seen = on_terminal(&server, "read s file:///a.txt");
    assert!(seen.contains(r"\u{1b}[31mand red"), "{seen:?}");
    let report: Value = serde_json::from_str(&server.run(&["read", "s", "file:///a.txt", "--json"]).out).unwrap();
    assert_eq!((&report["uri"], &report["result"]["contents"][0]["text"]), (&json!("file:///a.txt"), &json!(text)));
}

#[test]
fn binary_resources_are_not_written_to_a_terminal() {
    // The bytes 0, 1, 255, 0 without padding, which some servers omit.
    let server = contents(&json!([{"uri": "file:///x", "mimeType": "image/png", "blob": "AAH/AA"}]));
    let mut command = wharf(&["read", "s", "file:///x", "--mcp", &server.mcp()]);
    assert_eq!(command.output().unwrap().stdout, [0, 1, 255, 0]);
    let seen = on_terminal(&server, "read s file:///x");
    assert!(seen.contains("file:///x (image/png) is binary, and stdout is a terminal"), "{seen:?}");
    assert!(seen.contains("--out FILE"), "{seen:?}");
    let file = server.path().join("x.png");
    let ran = server.run(&["read", "s", "file:///x", "--out", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(std::fs::read(&file).unwrap(), [0, 1, 255, 0]);
    let ran = server.run(&["read", "s", "file:///x", "--out", "/no/such/folder/x"]);
    assert!(ran.code == 1 && ran.err.starts_with("error: cannot write /no/such/folder/x"), "{}", ran.err);
}

#[test]
fn several_contents_are_written_in_order() {
    let server = contents(&json!([{"uri": "a", "text": "one"}, {"uri": "b", "text": "two\n"}]));
    assert_eq!(server.run(&["read", "s", "file:///"]).out, "one\ntwo\n");
    let file = server.path().join("out");
    server.run(&["read", "s", "file:///", "-o", file.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(server.path().join("out.2")).unwrap(), "two\n");
}

#[test]
fn a_resource_with_too_many_contents_is_not_written() {
    let parts: Vec<Value> = (0..33).map(|number| json!({"uri": format!("{number}"), "text": "x"})).collect();
    let server = contents(&json!(parts));
    let file = server.path().join("out");
    let ran = server.run(&["read", "s", "file:///", "-o", file.to_str().unwrap()]);
    assert!(
        ran.code == 1 && ran.err.contains("the resource has 33 contents, and --out writes at most 32"),
        "{}",
        ran.err
    );
    assert!(!file.exists() && !server.path().join("out.2").exists());
}

#[test]
fn a_pipe_is_not_waited_for_and_a_device_can_be_written() {
    let server = contents(&json!([{"uri": "a", "text": "one"}]));
    let pipe = server.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // `timeout` ends a binary that waits for a reader.
    let read = |file: &std::path::Path| {
        let mut command = std::process::Command::new("timeout");
        let wharf = wharf(&["read", "s", "file:///", "--mcp", &server.mcp(), "-o", file.to_str().unwrap()]);
        command.args(["-s", "KILL", "20"]).arg(wharf.get_program()).args(wharf.get_args());
        command.envs(wharf.get_envs().filter_map(|(name, value)| Some((name, value?))));
        crate::run_output(&command.output().unwrap())
    };
    let ran = read(&pipe);
    assert!(ran.code == 1 && ran.err.contains("it is not a file, but a pipe"), "{} {}", ran.code, ran.err);
    let ran = read(std::path::Path::new("/dev/null"));
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn only_the_named_file_is_replaced_and_links_are_not_followed() {
    let server = contents(&json!([{"uri": "a", "text": "one"}, {"uri": "b", "text": "two"}]));
    let victim = server.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let file = server.path().join("out");
    let read = || server.run(&["read", "s", "file:///", "-o", file.to_str().unwrap()]);
    let second = server.path().join("out.2");
    std::os::unix::fs::symlink(&victim, &file).unwrap();
    let ran = read();
    assert!(ran.code == 1 && ran.err.contains("out: it is a symbolic link"), "{}", ran.err);
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&victim, &second).unwrap();
    let ran = read();
    assert!(ran.code == 1 && ran.err.contains("out.2: it exists, and the resource has 2 contents"), "{}", ran.err);
    assert!(!file.exists() && std::fs::read_to_string(&victim).unwrap() == "mine", "nothing was written");
    std::fs::remove_file(&second).unwrap();
    std::fs::write(&file, "a longer text that was here before").unwrap();
    assert_eq!(read().code, 0);
    assert_eq!([&file, &second].map(|file| std::fs::read_to_string(file).unwrap()), ["one", "two"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&second).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "a new file is private");
}

#[test]
fn an_unreadable_resource_is_reported_with_the_reason() {
    let missing = Server::new(&script().on("resources/read", [Step::Error(-32002, "no such file".into())]));
    let ran = missing.run(&["read", "s", "file:///z"]);
    let expected = "error: s: the server answered with error -32002: no such file\n\
        hint: list resources: wharf resources s\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, expected));
    let garbled = contents(&json!([{"uri": "x", "blob": "%%%"}]));
    let ran = garbled.run(&["read", "s", "x"]);
    assert!(ran.code == 1 && ran.err.contains("invalid base64 in `blob`"), "{}", ran.err);
}

#[test]
fn unreachable_servers_have_the_same_exit_codes_as_in_call() {
    let commands: [&[&str]; 4] = [&["prompts"], &["prompt", "s", "x"], &["resources"], &["read", "s", "x"]];
    let locked = remote(Script::good().on("initialize", [refuse(401, &[("www-authenticate", "Bearer")], "")]));
    let locked = format!("s={}", locked.url());
    for command in commands {
        let broken = ran(wharf(&[command, &["--mcp", "s=sh -c 'echo no >&2; exit 3'"]].concat()));
        assert!(broken.code == 4 && broken.err.contains("stderr │ no"), "{command:?}: {}", broken.err);
        let locked = ran(wharf(&[command, &["--mcp", &locked]].concat()));
        assert!(locked.code == 3 && locked.err.contains("hint: sign in: wharf login s"), "{command:?}: {}", locked.err);
        let unknown = ran(wharf(&[command, &["--mcp", "t=cmd", "--json"]].concat()));
        assert!(command.len() == 1 || unknown.code == 2, "{command:?}: {}", unknown.err);
    }
    let failed = ran(wharf(&["read", "s", "x", "--json", "--mcp", "s=sh -c 'exit 3'"]));
    let report: Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!((&report["uri"], &report["error"]["outcome"]), (&json!("x"), &json!("not run")));
}

/// Returns what a command writes to a terminal.
fn on_terminal(server: &Server, arguments: &str) -> String {
    let command = format!("{} {arguments} --mcp '{}'", env!("CARGO_BIN_EXE_wharf"), server.mcp());
    String::from_utf8(crate::on_terminal(&command).output().unwrap().stdout).unwrap()
}
