//! Working and failing configured servers together: output and exit codes of `tools` and `call`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step, scripted_server};

use crate::remote::{Remote, refuse, remote};
use crate::{RunOutput, Server, ran, screen, wharf};

/// A config root with all servers in one file, and a project without servers.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    file: Value,
    servers: Vec<Server>,
    remotes: Vec<Remote>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("project")).unwrap();
        Self { folder, file: json!({"mcpServers": {}}), servers: Vec::new(), remotes: Vec::new() }
    }

    /// Adds a top-level key to the configuration file.
    pub(crate) fn with_key(mut self, key: &str, value: Value) -> Self {
        self.file[key] = value;
        self
    }

    /// Adds a stdio server.
    pub(crate) fn child(mut self, name: &str, script: &Script, settings: Value) -> Self {
        let server = Server::new(script);
        let entry = json!({"command": scripted_server(), "args": [server.path().join("script")]});
        self.servers.push(server);
        self.entry(name, entry, settings)
    }

    /// Adds a remote server.
    fn at_url(mut self, name: &str, script: Script, settings: Value) -> Self {
        let server = remote(script);
        let entry = json!({"url": server.url()});
        self.remotes.push(server);
        self.entry(name, entry, settings)
    }

    fn entry(mut self, name: &str, mut entry: Value, settings: Value) -> Self {
        let Value::Object(settings) = settings else { panic!("settings must be an object: {settings}") };
        entry.as_object_mut().unwrap().extend(settings);
        self.file["mcpServers"][name] = entry;
        self
    }

    /// Returns the stdio server that was added last.
    pub(crate) fn last(&self) -> &Server {
        self.servers.last().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        let root = self.folder.path();
        let project = self.folder.path().join("project");
        std::fs::write(root.join("mcp.json"), self.file.to_string()).unwrap();
        let options = ["--config-root", root.to_str().unwrap(), "--project", project.to_str().unwrap()];
        let mut ran = ran(wharf(&[arguments, &options].concat()));
        for text in [&mut ran.out, &mut ran.err] {
            *text = text.replace(root.to_str().unwrap(), "ROOT");
        }
        ran
    }
}

fn broken() -> Script {
    Script::good().at_start([Step::Stderr("cannot bind".into()), Step::Exit(3)])
}

fn locked() -> Script {
    Script::good().on("initialize", [refuse(401, &[("www-authenticate", "Bearer realm=\"x\"")], "")])
}

/// Returns a configuration with one server in each state.
fn all_kinds() -> Home {
    let long = json!({"name": "talk", "description": "word ".repeat(12_000), "inputSchema": {"type": "object"}});
    let bad = json!({"name": "bad", "description": "Takes a text", "inputSchema": {"type": "string"}});
    Home::new()
        .child("good", &Script::good(), json!({}))
        .child("broken", &broken(), json!({}))
        .child("slow", &Script::good().at_start([Step::Hang]), json!({"connectTimeout": 1000}))
        .child("long", &Script::default().tool(long).on_call("talk", [Step::Text("short".into())]), json!({}))
        .child("odd", &Script::good().tool(bad), json!({"excludeTools": ["echo"]}))
        .child("off", &broken(), json!({"disabled": true}))
        .at_url("locked", locked(), json!({}))
}

#[test]
fn failures_of_optional_servers_are_only_warnings() {
    insta::assert_snapshot!(screen(&all_kinds().run(&["tools"])));
}

#[test]
fn a_failed_required_server_determines_the_exit_code() {
    let with = |script: &Script| {
        Home::new().child("good", &Script::good(), json!({})).child("bad", script, json!({"required": true}))
    };
    let ran = with(&broken()).run(&["tools", "-q"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.starts_with("error: bad: the server exited with status 3 before it was ready\n"), "{}", ran.err);
    assert!(ran.out.contains("Says it again"), "{}", ran.out);

    let ran = Home::new().at_url("locked", locked(), json!({"required": true})).run(&["tools"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    // A server named on the command line is required, too.
    assert_eq!(Home::new().at_url("locked", locked(), json!({})).run(&["tools", "locked"]).code, 3);
    assert_eq!(Home::new().child("broken", &broken(), json!({})).run(&["tools", "broken"]).code, 4);
    // A disabled server is not required.
    let off = Home::new().child("good", &Script::good(), json!({})).child(
        "off",
        &broken(),
        json!({"required": true, "disabled": true}),
    );
    let ran = off.run(&["tools"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn call_reports_why_a_server_or_tool_cannot_be_used() {
    let home = all_kinds();
    let calls: [&[&str]; 9] = [
        &["call", "good", "add", "a=2", "b=3"],
        &["call", "good", "mcp__good__add", "a=2", "b=3"],
        &["call", "broken", "add"],
        &["call", "slow", "add"],
        &["call", "locked", "add"],
        &["call", "long", "talk"],
        &["call", "odd", "bad"],
        &["call", "odd", "echo"],
        &["call", "off", "add"],
    ];
    let show = |arguments: &&[&str]| format!("$ wharf {}\n{}", arguments.join(" "), screen(&home.run(arguments)));
    insta::assert_snapshot!(calls.iter().map(show).collect::<Vec<_>>().join("\n"));
}

#[test]
fn call_reports_a_failed_connection_in_json() {
    let home = all_kinds();
    let error = |arguments: &[&str]| serde_json::from_str::<Value>(&home.run(arguments).out).unwrap()["error"].clone();
    let broken = error(&["call", "broken", "add", "--json"]);
    assert_eq!((&broken["outcome"], &broken["stderr"]), (&json!("not run"), &json!(["cannot bind"])));
    assert_eq!(error(&["call", "locked", "add", "--json"])["status"], 401);
}

#[test]
fn a_long_description_is_truncated_with_a_note() {
    let ran = all_kinds().run(&["tools", "long", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let long = &report["servers"][0];
    assert_eq!(long["offered"][0]["description"].as_str().unwrap().chars().count(), 2048);
    assert_eq!(long["offered"][0]["name"], "mcp__long__talk");
    let notes = long["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("cut to 2048")), "{notes:?}");
    let err = all_kinds().run(&["tools", "long", "-v"]).err;
    assert!(err.contains("long: `talk`:") && err.contains("cut to 2048"), "{err}");
}

#[test]
fn the_tool_table_shows_configured_overrides() {
    let hinted = json!({"name": "wipe", "description": "Wipes", "inputSchema": {"type": "object", "properties": {"what": {}}},
        "annotations": {"readOnlyHint": false, "destructiveHint": true}});
    let settings = json!({"excludeTools": ["echo", "ecko"], "bindings": {"add": {"b": 40}},
        "tools": {"descriptions": {"add": "Adds forty"}}});
    let home = Home::new().child("s", &Script::good().tool(hinted), settings);
    insta::assert_snapshot!(screen(&home.run(&["tools", "-v"])));
    // A bound argument is sent, and is not an argument of the tool.
    assert_eq!(home.run(&["call", "s", "add", "a=2"]).out, "42\n");
    assert!(home.run(&["call", "s", "add"]).err.ends_with("hint: add accepts a: integer\n"));
}

#[test]
fn json_output_includes_the_scope_and_the_offered_tools() {
    let ran = all_kinds().run(&["tools", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let summary = report["servers"].as_array().unwrap().iter().map(|server| {
        let count = |key: &str| server[key].as_array().unwrap().len();
        let text = |key: &str| server[key].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {} {} ({}): {} listed, {} offered",
            text("name"),
            text("scope"),
            text("transport"),
            text("state"),
            text("reason"),
            count("tools"),
            count("offered")
        )
    });
    insta::assert_snapshot!(summary.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_project_server_is_pending_until_approved() {
    let home = Home::new().child("good", &Script::good(), json!({}));
    let started = home.folder.path().join("started");
    let project = json!({"mcpServers": {"theirs": {"command": "touch", "args": [started]}}});
    std::fs::write(home.folder.path().join("project/.mcp.json"), project.to_string()).unwrap();
    let ran = home.run(&["tools"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.err, "warning: theirs: pending: needs approval: wharf approve theirs\n");
    let called = home.run(&["call", "theirs", "x"]);
    assert!(called.code == 2 && called.err.contains("wharf approve theirs"), "{}", called.err);
    assert!(!started.exists());
}

#[test]
fn command_line_timeouts_override_configured_ones() {
    let script = Script::good().any_tool("hang").on_call("hang", [Step::Hang]);
    let slow_entry = Home::new().child("s", &script, json!({"timeout": 600_000}));
    let err = slow_entry.run(&["call", "s", "hang", "--timeout", "0.5"]).err;
    assert!(err.contains("no response within 500 ms"), "{err}");
    let fast_entry = Home::new().child("s", &script, json!({"timeout": 1000}));
    let err = fast_entry.run(&["call", "s", "hang"]).err;
    assert!(err.contains("no response within 1 s"), "{err}");
    let hanging = Home::new().child("s", &Script::good().at_start([Step::Hang]), json!({"connectTimeout": 600_000}));
    let err = hanging.run(&["tools", "--connect-timeout", "0.5"]).err;
    assert!(err.contains("not ready within 500 ms"), "{err}");
}
