//! `wharf logs`: the states of servers and their stderr, of the last runs.

use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use wharf_testkit::{Script, Step};

use crate::fixtures::Sandbox;

fn noisy() -> Script {
    let steps = [Step::Stderr("listening with key s3cr3t-of-the-server".into())];
    Script { at_start: steps.to_vec(), ..Script::good() }
        .any_tool("crash")
        .on_call("crash", [Step::Stderr("out of cheese".into()), Step::Exit(7)])
}

fn log_file(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("root/logs/s.jsonl")
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn states_and_stderr_of_each_run_are_shown() {
    let sandbox = Sandbox::new().server("s", &noisy());
    assert_eq!(sandbox.run(&["call", "s", "add", "a=1", "b=2"]).code, 0);
    assert_eq!(sandbox.run(&["call", "s", "crash"]).code, 1);
    let shown = sandbox.run(&["logs", "s"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let events: Vec<&str> = shown.out.lines().map(|line| line.split_once(' ').map_or("", |(_, rest)| rest)).collect();
    let has = |text: &str| events.iter().filter(|event| event.contains(text)).count();
    assert_eq!(
        (has("wharf call (pid "), has("pending: connecting"), has("connected: scripted")),
        (2, 2, 2),
        "{}",
        shown.out
    );
    assert_eq!((has("stderr │ out of cheese"), has("tools"), has("closed")), (1, 2, 2), "{}", shown.out);
    assert_eq!(has("failed: "), 1, "{}", shown.out);
    let last = sandbox.run(&["logs", "s", "-n", "1"]);
    assert_eq!(last.out.lines().count(), 2, "a heading and a line: {}", last.out);
}

#[test]
fn json_output_is_one_object_per_entry() {
    let sandbox = Sandbox::new().server("s", &noisy());
    sandbox.run(&["tools", "s"]);
    let lines = json_lines(&sandbox.run(&["logs", "s", "--json"]).out);
    assert_eq!((&lines[0]["event"], &lines[0]["command"]), (&"start".into(), &"tools".into()));
    let connected = lines.iter().find(|line| line["state"] == "connected").unwrap();
    assert_eq!((&connected["event"], &connected["tools"]), (&"state".into(), &3.into()));
    assert!(lines.iter().all(|line| line["run"] == lines[0]["run"] && line["time"].as_str().unwrap().ends_with('Z')));
}

#[test]
fn files_are_private_and_contain_no_secrets() {
    let env = serde_json::json!({"KEY": "s3cr3t-of-the-server"});
    let sandbox = Sandbox::new().server_with("s", &noisy(), "env", env);
    sandbox.run(&["tools", "s"]);
    let text = std::fs::read_to_string(log_file(&sandbox)).unwrap();
    assert!(text.contains("listening with key [secret]"), "{text}");
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(log_file(&sandbox)), mode(sandbox.path("root/logs"))), (0o600, 0o700));
}

#[test]
fn a_log_that_cannot_be_written_fails_no_command() {
    let sandbox = Sandbox::new().server("s", &noisy());
    std::fs::write(sandbox.path("root/logs"), "a file in place of the directory").unwrap();
    let ran = sandbox.run(&["call", "s", "add", "a=1", "b=2"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "3\n", ""));
}

#[test]
fn logging_can_be_turned_off() {
    let sandbox = Sandbox::new().server("s", &noisy());
    let ran = sandbox.run_with(&["tools", "s"], &[("WHARF_LOGS", "off")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!sandbox.path("root/logs").exists());
    let shown = sandbox.run_with(&["logs", "s"], &[("WHARF_LOGS", "off")]);
    assert_eq!(shown.code, 2);
    assert!(shown.err.contains("hint: logging is turned off by WHARF_LOGS"), "{}", shown.err);
}

#[test]
fn an_unknown_name_suggests_a_logged_server_and_is_never_a_path() {
    let sandbox = Sandbox::new().server("github", &noisy());
    sandbox.run(&["tools", "github"]);
    let shown = sandbox.run(&["logs", "gihub"]);
    assert_eq!(
        (shown.code, shown.err.as_str()),
        (2, "error: no log of server `gihub`\nhint: did you mean `github`?\n")
    );
    let path = sandbox.run(&["logs", "../logs/github"]);
    assert_eq!(path.code, 2, "{}", path.out);
}

#[test]
fn hostile_lines_neither_control_the_terminal_nor_end_a_line() {
    let steps = vec![Step::Stderr("red \u{1b}[31m\rerror: mine\u{2028}more".into())];
    let sandbox = Sandbox::new().server("s", &Script { at_start: steps, ..Script::good() });
    sandbox.run(&["tools", "s"]);
    let shown = sandbox.run(&["logs", "s"]).out;
    assert!(shown.contains("stderr │ red \\u{1b}[31m\\u{d}error: mine\\u{2028}more\n"), "{shown}");
    // What another program wrote into the file is not shown.
    let mut text = std::fs::read_to_string(log_file(&sandbox)).unwrap();
    text.push_str("not json\n{\"time\":1}\n");
    std::fs::write(log_file(&sandbox), text).unwrap();
    assert_eq!(sandbox.run(&["logs", "s"]).out, shown);
}

#[test]
fn following_shows_new_lines_until_ctrl_c() {
    let sandbox = Sandbox::new().server("s", &noisy());
    sandbox.run(&["tools", "s"]);
    let mut following = sandbox.start(&["logs", "s", "--follow", "-n", "1"]);
    let stdout = following.stdout.take().unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in std::io::BufReader::new(stdout).lines() {
            let _ = sender.send(line.unwrap());
        }
    });
    let next = || lines.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(next().starts_with("── "));
    sandbox.run(&["call", "s", "crash"]);
    while !next().contains("stderr │ out of cheese") {}
    let output = crate::interrupted(following);
    assert_eq!((output.code, output.err.as_str()), (0, ""));
    reader.join().unwrap();
}
