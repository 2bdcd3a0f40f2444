//! `wharf add` and `wharf add-json`.

use serde_json::{Value, json};

use crate::terminal::{Terminal, on_terminal};
use crate::{PROJECT, Person, USER, demo_entry, ran_with_input};

/// Returns a server's entry in a file.
fn read_entry(person: &Person, file: &str, name: &str) -> Value {
    let value: Value = serde_json::from_str(&person.read(file)).unwrap();
    value["mcpServers"][name].clone()
}

fn add_and_read(arguments: &[&str]) -> Value {
    let person = Person::new();
    let ran = person.run(&[&["add", "-s", "user"], arguments].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    read_entry(&person, USER, "x")
}

#[test]
fn arguments_after_the_command_belong_to_it() {
    assert_eq!(
        add_and_read(&["x", "uvx", "srv", "-v", "--json"]),
        json!({"type": "stdio", "command": "uvx", "args": ["srv", "-v", "--json"]})
    );
    assert_eq!(
        add_and_read(&["x", "--", "npx", "-y", "srv"]),
        json!({"type": "stdio", "command": "npx", "args": ["-y", "srv"]})
    );
    assert_eq!(
        add_and_read(&["x", "uvx srv 'a b'"]),
        json!({"type": "stdio", "command": "uvx", "args": ["srv", "a b"]})
    );
    assert_eq!(
        add_and_read(&["-e", "A=1=2", "-e", "SECRET", "x", "srv"]),
        json!({"type": "stdio", "command": "srv", "env": {"A": "1=2", "SECRET": "${SECRET}"}})
    );
}

#[test]
fn options_may_follow_a_url() {
    let entry =
        add_and_read(&["x", "https://example.com/mcp", "-H", "X-A: b", "--header", "Authorization: Bearer ${SECRET}"]);
    let headers = json!({"X-A": "b", "Authorization": "Bearer ${SECRET}"});
    assert_eq!(entry, json!({"type": "http", "url": "https://example.com/mcp", "headers": headers}));
    assert_eq!(add_and_read(&["-t", "sse", "x", "https://example.com/sse"])["type"], "sse");
    assert_eq!(add_and_read(&["x", "https://example.com/sse", "--transport", "sse"])["type"], "sse");
    assert_eq!(add_and_read(&["x", "wss://example.com/ws"])["type"], "ws");
    assert_eq!(
        add_and_read(&["x", "sse+http://127.0.0.1:1/sse", "--timeout", "2.5", "--protocol", "legacy"]),
        json!({"type": "sse", "url": "http://127.0.0.1:1/sse", "timeout": 2500, "protocol": "legacy"})
    );
}

#[test]
fn add_reports_the_file_and_whether_the_server_is_used() {
    let person = Person::new().with(USER, "x", &demo_entry());
    insta::assert_snapshot!(person.screen(&person.run(&["add", "x", "srv"])), @r"
    exit 0
    --- stdout
    --- stderr
    warning: command `srv` not found
    hint: install it, or write its full path; servers get the PATH of this program
    added `x` (stdio) to the local scope, in /home/.local/state/wharf/projects/PROJECT/mcp.json
    it shadows the one of the user scope
    ");
    insta::assert_snapshot!(person.screen(&person.run(&["add", "-s", "project", "x", "other"])), @r"
    exit 0
    --- stdout
    --- stderr
    warning: command `other` not found
    hint: install it, or write its full path; servers get the PATH of this program
    added `x` (stdio) to the project scope, in /project/.mcp.json
    warning: `x` is not used: shadowed by the local scope
    ");
    let same = person.run(&["add", "y", "srv", "-q"]);
    assert_eq!(same.code, 0);
    let same = person.run(&["add", "--json", "-s", "user", "z", "srv"]);
    insta::assert_snapshot!(person.screen(&same), @r#"
    exit 0
    --- stdout
    {"version":1,"name":"z","scope":"user","transport":"stdio","file":"/home/.config/wharf/mcp.json","replaced":false,"standing":"duplicate","reason":"duplicate of `x`","hides":[],"approved":false}
    --- stderr
    warning: command `srv` not found
    hint: install it, or write its full path; servers get the PATH of this program
    added `z` (stdio) to the user scope, in /home/.config/wharf/mcp.json
    warning: `z` is not used: duplicate of `x`
    "#);
}

#[test]
fn a_server_added_to_a_project_is_approved_only_for_its_author() {
    let person = Person::new();
    let ran = person.run(&["add", "-s", "project", "-e", "TOKEN=0123456789abc", "x", "srv"]);
    insta::assert_snapshot!(person.screen(&ran), @r"
    exit 0
    --- stdout
    --- stderr
    warning: x.env.TOKEN: looks like a plaintext secret
    hint: use a variable: `${TOKEN}`
    warning: command `srv` not found
    hint: install it, or write its full path; servers get the PATH of this program
    added `x` (stdio) to the project scope, in /project/.mcp.json
    approved for you; other users must approve it first
    ");
    assert!(person.run(&["list", "--no-connect"]).out.contains("ready"));
    let mut other = person.wharf(&["list", "--no-connect"]);
    other.env("HOME", person.path("other"));
    assert!(crate::ran(other).out.contains("needs approval"));
}

#[test]
fn invalid_arguments_are_rejected_before_writing() {
    let person = Person::new();
    let cases: [&[&str]; 8] = [
        &["add", "a b", "srv"],
        &["add", "x", "localhost:8000/mcp"],
        &["add", "-t", "http", "x", "srv"],
        &["add", "-H", "A: b", "x", "srv"],
        &["add", "x", "https://example.com/mcp", "-e", "A=b"],
        &["add", "x", "https://example.com/mcp", "--nonsense"],
        &["add", "--timeout", "0.03", "x", "srv"],
        &["add", "x", "https://user:s3cr3t@example.com/mcp"],
    ];
    let screens: Vec<String> = cases.iter().map(|case| person.screen(&person.run(case))).collect();
    assert!(!person.path("home/.local").exists());
    assert!(screens.iter().all(|screen| !screen.contains("s3cr3t")));
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn an_existing_server_is_replaced_only_with_force() {
    let person = Person::new();
    person.write(USER, "{\n  // mine\n  \"mcpServers\": {\"x\": {\"command\": \"old\"}}\n}\n");
    let refused = person.run(&["add", "-s", "user", "x", "new"]);
    insta::assert_snapshot!(person.screen(&refused), @r"
    exit 2
    --- stdout
    --- stderr
    error: server `x` already exists in /home/.config/wharf/mcp.json
    hint: replace it with --force
    ");
    assert_eq!(person.run(&["add", "-s", "user", "-f", "x", "new"]).code, 0);
    let text = person.read(USER);
    assert!(text.contains("// mine") && text.contains("new") && !text.contains("old"), "{text}");
}

#[test]
fn a_file_with_invalid_json_is_not_modified() {
    let person = Person::new();
    person.write(USER, "{\"mcpServers\": {\n");
    let ran = person.run(&["add", "-s", "user", "x", "srv"]);
    assert!(ran.code == 2 && ran.err.contains("mcp.json:"), "{}", ran.err);
    assert_eq!(person.read(USER), "{\"mcpServers\": {\n");
}

#[test]
fn add_json_accepts_an_entry_as_an_argument_or_on_stdin() {
    let person = Person::new();
    let entry = r#"{"command": "srv", "tools": ["a"]}"#;
    assert_eq!(person.run(&["add-json", "-s", "project", "x", entry]).code, 0);
    assert_eq!(read_entry(&person, PROJECT, "x"), json!({"command": "srv", "tools": ["a"]}));
    let piped =
        ran_with_input(person.wharf(&["add-json", "-s", "project", "y", "-"]), entry.replace("srv", "z").as_str());
    assert_eq!((piped.code, read_entry(&person, PROJECT, "y")["command"].clone()), (0, json!("z")), "{}", piped.err);
    let cases: [&[&str]; 4] = [
        &["add-json", "x", "{"],
        &["add-json", "x", r#"{"mcpServers": {}}"#],
        &["add-json", "x", r#"{"command": "a", "url": "https://x.test/"}"#],
        &["add-json", "x", r#"{"comand": "a"}"#],
    ];
    let screens: Vec<String> = cases.iter().map(|case| person.screen(&person.run(case))).collect();
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn a_missing_home_directory_is_an_error() {
    let ran = crate::ran(crate::wharf(&["add", "x", "srv"]));
    assert_eq!(ran.err, "error: no home directory to store files in\nhint: set HOME, or pass --config-root DIR\n");
}

#[test]
fn a_server_denied_by_the_organization_is_not_added() {
    let person = Person::new();
    person.write("managed.json", r#"{"deniedMcpServers": [{"serverName": "x"}]}"#);
    let mut command = person.wharf(&["add", "x", "srv"]);
    command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
    let ran = crate::ran(command);
    assert!(ran.code == 2 && ran.err.contains("error: server `x` is not allowed: "), "{}", ran.err);
}

#[test]
fn a_registered_oauth_client_is_written() {
    assert_eq!(
        add_and_read(&["x", "https://example.com/mcp", "--client-id", "me", "--callback-port", "8123"])["oauth"],
        json!({"clientId": "me", "callbackPort": 8123})
    );
    assert_eq!(
        add_and_read(&["--client-id", "me", "--client-secret=SECRET", "x", "https://example.com/mcp"])["oauth"],
        json!({"clientId": "me", "clientSecret": "${SECRET}"})
    );
    let person = Person::new();
    let mut command =
        person.wharf(&["add", "-s", "user", "--client-id", "me", "--client-secret", "x", "https://e.test"]);
    command.env("MCP_CLIENT_SECRET", "hidden");
    assert_eq!(crate::ran(command).code, 0);
    assert_eq!(read_entry(&person, USER, "x")["oauth"]["clientSecret"], "${MCP_CLIENT_SECRET}");
}

#[test]
fn a_client_secret_is_never_on_the_command_line() {
    let person = Person::new();
    let refused = |arguments: &[&str], expected: &str| {
        let ran = person.run(&[&["add"], arguments].concat());
        assert!(ran.code == 2 && ran.err.contains(expected), "{arguments:?}: {}", ran.err);
        assert!(!ran.err.contains("hunter2"), "{}", ran.err);
    };
    let url = "https://example.com/mcp";
    refused(&["--client-id", "me", "--client-secret=hunter2", "x", url], "names a variable that is not set");
    refused(&["--client-id", "me", "--client-secret", "x", url], "cannot ask for the client secret without a terminal");
    refused(&["--client-secret=SECRET", "x", url], "--client-id");
    refused(&["-s", "project", "--client-id", "me", "--client-secret", "x", url], "must not contain a client secret");
    refused(&["--callback-port", "0", "x", url], "--callback-port");
    refused(&["--client-id", "me", "x", "uvx", "srv"], "--client-id is only for remote servers");
}

#[test]
fn a_client_secret_is_asked_for_without_showing_it() {
    let person = Person::new();
    let line = format!("{} add -s user --client-id me --client-secret x https://e.test", env!("CARGO_BIN_EXE_wharf"));
    let mut script = on_terminal(&line);
    script.env("HOME", person.path("home")).current_dir(person.path("project"));
    let mut terminal = Terminal::start(script);
    terminal.answer("Client secret: ", "hunter2${x}");
    let (code, seen) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(!seen.contains("hunter2"), "{seen}");
    assert_eq!(read_entry(&person, USER, "x")["oauth"]["clientSecret"], "hunter2$${x}");
}

#[test]
fn ctrl_c_at_the_client_secret_turns_the_echo_on_again() {
    let person = Person::new();
    let add = "add -s user --client-id me --client-secret x https://e.test";
    let line = format!("trap : INT; {} {add}; echo \"code $?\"; stty -a", env!("CARGO_BIN_EXE_wharf"));
    let mut script = on_terminal(&line);
    script.env("HOME", person.path("home")).current_dir(person.path("project"));
    let mut terminal = Terminal::start(script);
    terminal.wait_for("Client secret: ");
    terminal.write("\x03");
    let (_, seen) = terminal.finish();
    assert!(seen.contains("code 130"), "{seen}");
    assert!(seen.contains(" echo ") && !seen.contains("-echo "), "{seen}");
}

#[test]
fn an_unpinned_package_is_a_warning_for_a_new_entry_only() {
    let person = Person::new();
    let added = person.run(&["add", "x", "npx", "-y", "pkg"]);
    let warning = "warning: x.command: fetches the latest version of `pkg`\nhint: pin a version: `pkg@1.2.3`\n";
    assert!(added.code == 0 && added.err.contains(warning), "{}", added.err);
    assert!(!person.run(&["list", "--no-connect"]).err.contains("latest version"));
    for pinned in [&["npx", "-y", "pkg@1.0.0"][..], &["npx", "pkg"], &["uvx", "pkg"]] {
        let added = person.run(&[&["add", "-f", "x"], pinned].concat());
        assert!(added.code == 0 && !added.err.contains("latest version"), "{pinned:?}: {}", added.err);
    }
    assert!(!person.run(&["add", "-q", "-f", "x", "npx", "-y", "pkg"]).err.contains("latest version"));
}

#[test]
fn the_documented_forms_of_a_command_are_stored_verbatim() {
    let guide = include_str!("../../../../docs/configuration.md");
    let blocks = guide.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let entries: Vec<Value> = blocks.filter_map(|block| serde_json::from_str(block).ok()).collect();
    let commands: Vec<&Value> = entries.iter().filter(|entry| entry.get("command").is_some()).collect();
    let args = |form: usize| serde_json::from_value::<Vec<String>>(commands[form]["args"].clone()).unwrap();
    assert_eq!(args(0), ["mcp-server-time"]);
    assert_eq!(args(1), ["--from", "mcp-server-time", "mcp-server-time.exe"]);
    for entry in commands {
        let person = Person::new();
        assert_eq!(person.run(&["add-json", "-s", "user", "x", &entry.to_string()]).code, 0);
        assert_eq!(read_entry(&person, USER, "x")["args"], entry["args"]);
    }
}
