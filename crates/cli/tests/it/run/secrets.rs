//! Secrets of servers and models in what a run stores and prints, and who may read the files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use wharf_testkit::models::Turn;
use wharf_testkit::{Script, Step};

use super::models::Provider;
use crate::{PROJECT, Person, Server, USER, demo_entry, ran, wharf};

const TOKEN: &str = "t0k-abc\"def";

/// A server whose tool repeats its token and the key of the model.
fn leaking_server() -> Server {
    let text = format!("my token is {TOKEN} and yours is k3y-of-anthropic");
    Server::new(&Script::good().any_tool("leak").on_call("leak", [Step::Text(text)]))
}

fn leaking_provider() -> Provider {
    Provider::new([
        Turn::default().calling("c1", "mcp__s__leak", r#"{"why": "t0k-abc\"def"}"#),
        Turn::text(format!("It said {TOKEN}.")),
    ])
}

#[test]
fn secrets_of_servers_are_in_no_recording_checkpoint_or_json() {
    let server = leaking_server();
    let tape = server.path().join("tape.jsonl");
    let saved = server.path().join("run.jsonl");
    let mcp = server.mcp();
    let env = format!("API_TOKEN={TOKEN}");
    for output in ["json", "stream-json"] {
        let provider = leaking_provider();
        let files = ["--force", "--record", tape.to_str().unwrap(), "--checkpoint", saved.to_str().unwrap()];
        let arguments = ["run", "-m", "anthropic:x", "--output", output, "--mcp", &mcp, "--env", &env];
        let mut command = wharf(&[&arguments[..], &files, &["What?"]].concat());
        provider.env(&mut command);
        let ran = ran(command);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let texts =
            [ran.out.clone(), std::fs::read_to_string(&tape).unwrap(), std::fs::read_to_string(&saved).unwrap()];
        for text in &texts {
            assert!(text.contains("my token is [secret] and yours is [secret]"), "{text}");
            assert!(!text.contains("t0k-abc") && !text.contains("k3y-of"), "{text}");
        }
        // The model itself gets what the server said.
        assert!(provider.models.bodies()[1].to_string().contains("t0k-abc"));
    }
    let played = ran(wharf(&["run", "--replay", tape.to_str().unwrap(), "What?"]));
    assert_eq!((played.code, played.out.as_str()), (0, "It said [secret].\n"), "{}", played.err);
}

#[test]
fn secrets_of_a_server_are_not_in_the_json_of_calls_and_tools() {
    let tool = json!({"name": "leak", "description": format!("Uses {TOKEN}."), "inputSchema": {"type": "object"}});
    let script = Script::good().any_tool("leak").on("tools/list", [Step::Result(json!({"tools": [tool]}))]);
    let server = Server::new(&script.on_call("leak", [Step::Text(format!("my token is {TOKEN}"))]));
    let env = format!("API_TOKEN={TOKEN}");
    for (arguments, expected) in [
        (&["call", "s", "leak", "--json"][..], "my token is [secret]"),
        (&["tools", "--json"], "Uses [secret]."),
        (&["tools", "s", "leak", "--json"], "Uses [secret]."),
    ] {
        let ran = server.run(&[arguments, &["--env", &env]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains(expected) && !ran.out.contains("t0k-abc"), "{}", ran.out);
    }
    // A person who calls a server of their own gets what it returned.
    assert_eq!(server.run(&["call", "s", "leak", "--env", &env]).out, format!("my token is {TOKEN}\n"));

    let script = Script::good().any_tool("die");
    let dying = Server::new(&script.on_call("die", [Step::Stderr(format!("API_TOKEN={TOKEN}")), Step::Exit(1)]));
    let ran = dying.run(&["call", "s", "die", "--json", "--env", &env]);
    assert!(ran.code != 0 && ran.out.contains("API_TOKEN=[secret]") && !ran.out.contains("t0k-abc"), "{}", ran.out);
}

#[test]
fn an_escaped_secret_and_one_that_is_a_word_of_the_format_leave_readable_files() {
    let server = leaking_server();
    let tape = server.path().join("tape.jsonl");
    let saved = server.path().join("run.jsonl");
    let mcp = server.mcp();
    let provider = Provider::new([
        Turn::default().calling("c1", "mcp__s__leak", r#"{"why": "ab\/cd\/efgh1234"}"#),
        Turn::text("It is the content."),
    ]);
    let files = ["--record", tape.to_str().unwrap(), "--checkpoint", saved.to_str().unwrap()];
    let env = ["--env", "API_TOKEN=ab/cd/efgh1234", "--env", "AUTH_TYPE=content"];
    let arguments = ["run", "-m", "anthropic:x", "--output", "stream-json", "--mcp", &mcp];
    let mut command = wharf(&[&arguments[..], &env, &files, &["What?"]].concat());
    provider.env(&mut command);
    let streamed = ran(command);
    assert_eq!(streamed.code, 0, "{}", streamed.err);
    let file = |path| std::fs::read_to_string(path).unwrap();
    for text in [streamed.out, file(&tape), file(&saved)] {
        assert!(!text.contains("efgh1234") && text.contains("It is the [secret]."), "{text}");
        assert!(text.contains(r#""content":"#), "{text}");
    }
    let played = ran(wharf(&["run", "--replay", tape.to_str().unwrap(), "What?"]));
    assert_eq!((played.code, played.out.as_str()), (0, "It is the [secret].\n"), "{}", played.err);
    let mut command = wharf(&["run", "-m", "anthropic:x", "--resume", saved.to_str().unwrap()]);
    provider.env(&mut command);
    let resumed = ran(command);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "It is the [secret].\n"), "{}", resumed.err);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a command with a umask.
fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]).arg(command.get_program());
    shell.args(command.get_args()).env_clear().stdin(std::process::Stdio::null());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

#[test]
fn a_recording_is_private_and_never_replaces_a_readable_file() {
    let person = Person::new();
    person.write("project/turns.yaml", "- text: hello\n");
    let file = person.path("project/tape.jsonl");
    let record = ["run", "-m", "scripted:turns.yaml", "--force", "--record", "tape.jsonl", "go"];
    std::fs::write(&file, "mine").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = person.run(&record);
    assert_eq!((refused.code, std::fs::read_to_string(&file).unwrap().as_str()), (2, "mine"));
    assert!(refused.err.contains("tape.jsonl can be read by other users"), "{}", refused.err);
    assert!(refused.err.contains("chmod 600 tape.jsonl"), "{}", refused.err);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(person.run(&record).code, 0);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\"cassette\":1,"));
    let before = mode(&person.path("project"));
    for umask in ["000", "077", "277"] {
        std::fs::remove_file(&file).unwrap();
        assert_eq!(ran(with_umask(umask, &person.wharf(&record))).code, 0);
        assert_eq!((mode(&file), mode(&person.path("project"))), (0o600, before), "{umask}");
    }
    assert_eq!(person.run(&["run", "-m", "scripted:turns.yaml", "--record", "/dev/null", "go"]).code, 0);
}

#[test]
fn a_recording_does_not_follow_a_symbolic_link() {
    let person = Person::new();
    person.write("project/turns.yaml", "- text: hello\n");
    let victim = person.path("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o600)).unwrap();
    for target in ["../victim", "../missing"] {
        let link = person.path("project/tape.jsonl");
        std::os::unix::fs::symlink(target, &link).unwrap();
        let refused = person.run(&["run", "-m", "scripted:turns.yaml", "--record", "tape.jsonl", "go"]);
        assert!(refused.code == 2 && refused.err.contains("tape.jsonl: it is a symbolic link"), "{}", refused.err);
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!person.path("missing").exists());
}

/// Collects every file and folder below a folder.
fn below(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.clone());
        if path.is_dir() {
            below(&path, found);
        }
    }
}

#[test]
fn own_files_and_folders_are_private_whatever_the_umask() {
    let person = Person::new();
    person.write("project/turns.yaml", "- text: hello\n");
    let entry = demo_entry().to_string();
    for arguments in [
        &["add-json", "-s", "user", "demo", &entry][..],
        &["add-json", "-s", "local", "near", &entry],
        &["add-json", "-s", "project", "shared", &entry],
        &["tools"],
        &["run", "-m", "scripted:turns.yaml", "--checkpoint", "run.jsonl", "go"],
    ] {
        let ran = ran(with_umask("000", &person.wharf(arguments)));
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    }
    let mut found = Vec::new();
    for folder in ["home/.config", "home/.local", "home/.cache"] {
        found.push(person.path(folder));
        below(&person.path(folder), &mut found);
    }
    assert!(found.len() > 8, "{found:?}");
    for path in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert!(person.path(USER).exists());
    assert_eq!(mode(&person.path("project/run.jsonl")), 0o600);
    assert_eq!(mode(&person.path(PROJECT)), 0o666, "a project's file is for everyone who works on it");
    assert_eq!(json!(mode(&person.path("project")) & 0o700), json!(0o700));
}
