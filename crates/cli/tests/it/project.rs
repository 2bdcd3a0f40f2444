//! A realistic project: a `.mcp.json` with third-party servers and broken ones. Tests the output of every command, and
//! that no process survives.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_testkit::{Script, Step, alive, descendants_of, peers, scripted_server};

use crate::remote::{Remote, refuse, remote};
use crate::{PROJECT, Person, Server};

/// Connect timeout of the slow server, for tests that do not wait until it is over.
const CONNECT_TIMEOUT_MS: u32 = 15_000;

/// A project with three third-party servers and six scripted or broken ones.
struct Project {
    person: Person,
    _scripts: Vec<Server>,
    _locked: Remote,
}

impl Project {
    fn new(connect_timeout_ms: u32) -> Self {
        let root = peers();
        let at = |path: &str| root.join(path).to_str().unwrap().to_owned();
        let person = Person::new();
        person.write("project/.git/HEAD", "ref: refs/heads/main\n");
        let long = json!({"name": "lookup", "description": "word ".repeat(12_000), "inputSchema": {"type": "object"}});
        let scripts = [
            ("broken", Script::good().at_start([Step::Stderr("cannot find its licence".into()), Step::Exit(7)])),
            ("slow", Script::good().at_start([Step::Wait(60_000)])),
            ("wordy", Script::good().tool(long)),
            (
                "odd",
                Script::good()
                    .tool(json!({"name": "bad", "inputSchema": "string"}))
                    .tool(json!({"name": "list", "inputSchema": {"type": "array"}})),
            ),
        ]
        .map(|(name, script)| (name, Server::new(&script)));
        let locked = remote(
            Script::good()
                .on("initialize", [refuse(401, &[("www-authenticate", "Bearer realm=\"x\"")], "")])
                .on("server/discover", [refuse(401, &[], "")]),
        );
        let mut servers = json!({
            "everything": {"type": "stdio", "command": at(".peers/node_modules/node/bin/node"), "env": {},
                "args": [at(".peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"]},
            "time": {"command": at(".peers/py2/bin/mcp-server-time"), "args": ["--local-timezone", "${ZONE:-Europe/Paris}"]},
            "git": {"command": at(".peers/py2/bin/mcp-server-git"), "alwaysLoad": true},
            "locked": {"type": "http", "url": locked.url(), "headers": {"Authorization": "Bearer ${TOKEN:-none}"}},
            "twice": {"command": "node", "url": "https://example.com/mcp"},
        });
        for (name, script) in &scripts {
            servers[name] = json!({"command": scripted_server(), "args": [script.path().join("script")]});
        }
        servers["slow"]["connectTimeout"] = json!(connect_timeout_ms);
        person.write(PROJECT, &serde_json::to_string_pretty(&json!({ "mcpServers": servers })).unwrap());
        Self { person, _scripts: scripts.into_iter().map(|(_, script)| script).collect(), _locked: locked }
    }

    /// Creates the project and approves all of its servers.
    fn approved(connect_timeout_ms: u32) -> Self {
        let project = Self::new(connect_timeout_ms);
        let ran = project.person.run(&["approve", "--all", "--yes"]);
        assert!(ran.err.contains("mcp-server-time"), "what is approved is shown: {}", ran.err);
        project
    }

    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let ran = self.person.run(&[arguments, &["--json"]].concat());
        let value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}\n{}", ran.out, ran.err));
        (ran.code, value)
    }
}

fn states(listed: &Value) -> Vec<String> {
    let of = |server: &Value| format!("{} {}", server["name"].as_str().unwrap(), server["state"].as_str().unwrap());
    listed["servers"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn unapproved_project_servers_are_not_started() {
    let project = Project::new(CONNECT_TIMEOUT_MS);
    let (code, listed) = project.json(&["list"]);
    assert_eq!(code, 0);
    let expected =
        ["broken", "everything", "git", "locked", "odd", "slow", "time", "wordy"].map(|name| format!("{name} pending"));
    let mut states = states(&listed);
    states.retain(|state| !state.starts_with("twice"));
    states.sort();
    assert_eq!(states, expected);
    let refused = project.person.run(&["call", "time", "get_current_time", "timezone=UTC"]);
    assert!(refused.code == 2 && refused.err.contains("wharf approve time"), "{}", refused.err);
}

#[test]
fn every_command_reports_the_state_of_every_server() {
    let project = Project::approved(4_000);
    let (code, listed) = project.json(&["list"]);
    let mut found = states(&listed);
    found.sort();
    let expected = [
        "broken failed",
        "everything connected",
        "git connected",
        "locked needs-auth",
        "odd connected",
        "slow failed",
        "time connected",
        "twice failed",
        "wordy connected",
    ];
    assert_eq!((code, found), (0, expected.map(str::to_owned).to_vec()));
    let reason = |name: &str| {
        let server = listed["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap();
        server["reason"].as_str().unwrap().to_owned()
    };
    assert!(reason("broken").contains("exited with status 7"), "{}", reason("broken"));
    assert!(reason("slow").contains("not ready within 4 s"), "{}", reason("slow"));
    assert!(reason("twice").contains("command") && reason("twice").contains("url"), "{}", reason("twice"));

    let (code, tools) = project.json(&["tools"]);
    assert_eq!(code, 0, "none of them is required");
    let server =
        |name: &str| tools["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap().clone();
    let described = server("wordy")["offered"][2]["description"].as_str().unwrap().chars().count();
    assert_eq!(described, 2048);
    let odd = server("odd")["offered"].as_array().unwrap().clone();
    assert_eq!(odd.iter().map(|tool| tool["tool"].as_str().unwrap()).collect::<Vec<_>>(), ["echo", "add"]);

    let call = |arguments: &[&str]| project.person.run(&[&["call"], arguments].concat());
    let time = call(&["time", "get_current_time", "timezone=UTC"]);
    assert!(time.code == 0 && time.out.contains("UTC"), "{}", time.err);
    let echo = call(&["everything", "mcp__everything__echo", "message=hello"]);
    assert!(echo.code == 0 && echo.out.contains("hello"), "{}", echo.err);
    let codes = [
        (call(&["broken", "echo", "text=x"]), 4, "cannot find its licence"),
        (call(&["slow", "echo", "text=x"]), 4, "not ready within 4 s"),
        (call(&["locked", "echo", "text=x"]), 3, "authorization"),
        (call(&["twice", "echo", "text=x"]), 2, "`url` and `command` are mutually exclusive"),
        (call(&["odd", "bad"]), 2, "left out"),
        (call(&["odd", "list"]), 2, "left out"),
        (call(&["git", "git_status", "repo_path=/nonexistent"]), 1, ""),
    ];
    for (ran, code, text) in codes {
        assert!(ran.code == code && ran.err.contains(text), "{} instead of {code}: {}", ran.code, ran.err);
    }

    let doctor = project.person.run(&["doctor"]);
    assert_eq!(doctor.code, 4, "{}\n{}", doctor.out, doctor.err);
    for text in ["cannot find its licence", "not ready within 4 s", "HTTP 401", "60000 characters", "bad"] {
        assert!(doctor.out.contains(text) || doctor.err.contains(text), "{text}: {}\n{}", doctor.out, doctor.err);
    }
    assert_eq!(project.person.run(&["doctor", "time"]).code, 0);
}

#[test]
fn no_server_process_survives_a_signal() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130), (Signal::KILL, -1)] {
        let project = Project::approved(CONNECT_TIMEOUT_MS);
        let mut wharf = project.person.wharf(&["tools"]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        // The third-party servers have started, and the slow one is still connecting.
        while descendants_of(wharf.id()).len() < 5 {
            assert!(Instant::now() < deadline, "the servers did not start");
            std::thread::yield_now();
        }
        let started = descendants_of(wharf.id());
        kill_process(Pid::from_child(&wharf), signal).unwrap();
        assert_eq!(wharf.wait().unwrap().code().unwrap_or(-1), code);
        let deadline = Instant::now() + Duration::from_secs(10);
        while started.iter().any(|process| alive(*process)) {
            assert!(Instant::now() < deadline, "{signal:?} left processes behind");
            std::thread::yield_now();
        }
    }
}
