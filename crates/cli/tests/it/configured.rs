//! Servers that are configured, good ones and bad ones beside each other: what `tools` shows of them, what `call` says,
//! and how the program ends.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step, scripted_server};

use crate::remote::{Remote, refuse, remote};
use crate::{Ran, Server, ran, screen, wharf};

/// A person whose servers are all in one file, and a project without any.
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

    /// With a key of the file beside the servers.
    pub(crate) fn saying(mut self, key: &str, value: Value) -> Self {
        self.file[key] = value;
        self
    }

    /// With a server that is a child process.
    pub(crate) fn child(mut self, name: &str, script: &Script, settings: Value) -> Self {
        let server = Server::new(script);
        let entry = json!({"command": scripted_server(), "args": [server.path().join("script")]});
        self.servers.push(server);
        self.entry(name, entry, settings)
    }

    /// With a server at a URL.
    fn at_url(mut self, name: &str, script: Script, settings: Value) -> Self {
        let server = remote(script);
        let entry = json!({"url": server.url()});
        self.remotes.push(server);
        self.entry(name, entry, settings)
    }

    fn entry(mut self, name: &str, mut entry: Value, settings: Value) -> Self {
        let Value::Object(settings) = settings else { panic!("{settings} are no settings") };
        entry.as_object_mut().unwrap().extend(settings);
        self.file["mcpServers"][name] = entry;
        self
    }

    /// The folder of the server that was added so and so many before the last one.
    pub(crate) fn last(&self) -> &Server {
        self.servers.last().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let (root, project) = (self.folder.path(), self.folder.path().join("project"));
        std::fs::write(root.join("mcp.json"), self.file.to_string()).unwrap();
        let places = ["--config-root", root.to_str().unwrap(), "--project", project.to_str().unwrap()];
        let mut ran = ran(wharf(&[arguments, &places].concat()));
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

/// One of each kind.
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
fn servers_that_nobody_needs_only_warn_and_the_others_are_shown() {
    insta::assert_snapshot!(screen(&all_kinds().run(&["tools"])));
}

#[test]
fn a_server_that_is_needed_decides_how_the_program_ends() {
    let with = |script: &Script| {
        Home::new().child("good", &Script::good(), json!({})).child("bad", script, json!({"required": true}))
    };
    let ran = with(&broken()).run(&["tools", "-q"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.starts_with("error: bad: the server exited with status 3 before it was ready\n"), "{}", ran.err);
    assert!(ran.out.contains("Says it again"), "{}", ran.out);

    let ran = Home::new().at_url("locked", locked(), json!({"required": true})).run(&["tools"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    // What is named on the command line is needed, too.
    assert_eq!(Home::new().at_url("locked", locked(), json!({})).run(&["tools", "locked"]).code, 3);
    assert_eq!(Home::new().child("broken", &broken(), json!({})).run(&["tools", "broken"]).code, 4);
    // One that is switched off is not.
    let off = Home::new().child("good", &Script::good(), json!({})).child(
        "off",
        &broken(),
        json!({"required": true, "disabled": true}),
    );
    let ran = off.run(&["tools"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn a_call_says_of_each_what_is_the_matter() {
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
    let told = |arguments: &&[&str]| format!("$ wharf {}\n{}", arguments.join(" "), screen(&home.run(arguments)));
    insta::assert_snapshot!(calls.iter().map(told).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_failed_connection_of_a_call_can_be_read_by_a_program() {
    let home = all_kinds();
    let error = |arguments: &[&str]| serde_json::from_str::<Value>(&home.run(arguments).out).unwrap()["error"].clone();
    let broken = error(&["call", "broken", "add", "--json"]);
    assert_eq!((&broken["outcome"], &broken["stderr"]), (&json!("not run"), &json!(["cannot bind"])));
    assert_eq!(error(&["call", "locked", "add", "--json"])["status"], 401);
}

#[test]
fn a_description_that_is_too_long_is_cut_for_the_model_and_that_is_told() {
    let ran = all_kinds().run(&["tools", "long", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let long = &told["servers"][0];
    assert_eq!(long["offered"][0]["description"].as_str().unwrap().chars().count(), 2048);
    assert_eq!(long["offered"][0]["name"], "mcp__long__talk");
    let notes = long["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("cut to 2048")), "{notes:?}");
    let told = all_kinds().run(&["tools", "long", "-v"]).err;
    assert!(told.contains("long: `talk`:") && told.contains("cut to 2048"), "{told}");
}

#[test]
fn the_table_shows_what_a_model_is_offered() {
    let hinted = json!({"name": "wipe", "description": "Wipes", "inputSchema": {"type": "object", "properties": {"what": {}}},
        "annotations": {"readOnlyHint": false, "destructiveHint": true}});
    let settings = json!({"excludeTools": ["echo", "ecko"], "bindings": {"add": {"b": 40}},
        "tools": {"descriptions": {"add": "Adds forty"}}});
    let home = Home::new().child("s", &Script::good().tool(hinted), settings);
    insta::assert_snapshot!(screen(&home.run(&["tools", "-v"])));
    // What the configuration sets is sent, and is not asked for.
    assert_eq!(home.run(&["call", "s", "add", "a=2"]).out, "42\n");
    assert!(home.run(&["call", "s", "add"]).err.ends_with("hint: add accepts a: integer\n"));
}

#[test]
fn programs_are_told_where_a_server_comes_from_and_what_is_offered_of_it() {
    let ran = all_kinds().run(&["tools", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let summary = told["servers"].as_array().unwrap().iter().map(|server| {
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
fn a_server_of_the_project_waits_for_approval_and_is_not_started() {
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
fn a_limit_of_the_command_line_counts_more_than_a_configured_one() {
    let script = Script::good().any_tool("hang").on_call("hang", [Step::Hang]);
    let patient = Home::new().child("s", &script, json!({"timeout": 600_000}));
    let told = patient.run(&["call", "s", "hang", "--timeout", "0.5"]).err;
    assert!(told.contains("no response within 500 ms"), "{told}");
    let hasty = Home::new().child("s", &script, json!({"timeout": 1000}));
    let told = hasty.run(&["call", "s", "hang"]).err;
    assert!(told.contains("no response within 1 s"), "{told}");
    let sleepy = Home::new().child("s", &Script::good().at_start([Step::Hang]), json!({"connectTimeout": 600_000}));
    let told = sleepy.run(&["tools", "--connect-timeout", "0.5"]).err;
    assert!(told.contains("not ready within 500 ms"), "{told}");
}
