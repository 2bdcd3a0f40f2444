//! Where servers come from: scopes, rules, variables, a provider; and what is said when they cannot be used.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::remote::remote;
use crate::{PROJECT, Person, Server, USER, good, ran, traced};

const CALL: [&str; 3] = ["a=6", "operation=*", "b=7"];

/// Calls the calculator of a server.
fn call<'a>(server: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["call", server, "calculate"], &CALL[..], more].concat()
}

#[test]
fn a_configured_server_is_called_by_its_name() {
    let person = Person::new().with(USER, "demo", &good());
    let ran = person.run(&call("demo", &[]));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "{\"result\":42.0}\n", ""));
    let listed = person.run(&["tools"]);
    assert!(listed.code == 0 && listed.out.contains("calculate"), "{}", listed.err);
}

#[test]
fn a_name_that_is_not_there_is_answered_with_the_configured_ones() {
    let person = Person::new().with(USER, "github", &good()).with(PROJECT, "docs", &good());
    insta::assert_snapshot!(person.screen(&person.run(&["call", "guthib", "x"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: unknown server `guthib`
    hint: did you mean `github`?
    ");
    assert!(person.run(&["tools", "zzz"]).err.ends_with("hint: available: docs, github\n"));
}

#[test]
fn a_broken_entry_costs_its_server_only_and_is_told_where_it_matters() {
    let person = Person::new().with(USER, "demo", &good()).with(USER, "odd", &json!({"command": "x", "timeout": 30}));
    let other = person.run(&call("demo", &[]));
    assert_eq!((other.code, other.err.as_str()), (0, ""));
    insta::assert_snapshot!(person.screen(&person.run(&["call", "odd", "x"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: /home/.config/wharf/mcp.json:11: mcpServers.odd.timeout: 30 is less than 1000 milliseconds
    hint: did you mean 30000?
    error: server `odd` has an invalid entry in /home/.config/wharf/mcp.json:9
    ");
    let all = person.run(&["tools"]);
    assert!(all.code == 0 && all.err.contains("mcpServers.odd.timeout"), "{}", all.err);
}

#[test]
fn the_highest_scope_wins_and_it_is_told() {
    let person = Person::new().with(USER, "demo", &good()).with(PROJECT, "demo", &json!({"command": "no-such-server"}));
    let ran = person.run(&call("demo", &[]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"result\":42.0}\n"), "{}", ran.err);
    assert!(ran.err.contains("not used: the user scope has a server with the same name"), "{}", ran.err);
    assert_eq!(person.run(&[&call("demo", &[])[..], &["-q"]].concat()).err, "");
}

#[test]
fn a_projects_server_is_not_started_before_somebody_has_approved_it() {
    let person = Person::new();
    let trace = person.path("started");
    let person = person.with(PROJECT, "demo", &traced(&trace));
    insta::assert_snapshot!(person.screen(&person.run(&call("demo", &[]))), @r"
    exit 2
    --- stdout
    --- stderr
    error: server `demo` of this project needs your approval
    hint: review and approve it: wharf approve demo
    ");
    let listed = person.run(&["tools"]);
    assert_eq!((listed.code, listed.err.as_str()), (0, "warning: demo: pending: needs approval: wharf approve demo\n"));
    assert!(!trace.exists());
}

#[test]
fn a_project_is_found_from_the_folders_in_it_or_by_its_name() {
    let person = Person::new().with(PROJECT, "demo", &good());
    assert_eq!(person.run(&["approve", "demo", "--yes", "-q"]).code, 0);
    std::fs::create_dir_all(person.path("project/deep/down")).unwrap();
    let mut command = person.wharf(&call("demo", &[]));
    command.current_dir(person.path("project/deep/down"));
    assert_eq!(ran(command).code, 0);
    let mut command = person.wharf(&call("demo", &["--project", person.path("project").to_str().unwrap()]));
    command.current_dir(person.path("home"));
    assert_eq!(ran(command).code, 0);
    let mut command = person.wharf(&call("demo", &[]));
    command.current_dir(person.path("home"));
    assert_eq!(ran(command).code, 2);
}

#[test]
fn a_server_of_the_command_line_may_not_take_the_name_of_a_configured_one() {
    let person = Person::new().with(USER, "demo", &good());
    let mcp = format!("demo={} __demo-server", env!("CARGO_BIN_EXE_wharf"));
    let refused = person.run(&["tools", "--mcp", &mcp]);
    insta::assert_snapshot!(person.screen(&refused), @r"
    exit 2
    --- stdout
    --- stderr
    error: --mcp demo: already configured in /home/.config/wharf/mcp.json:3
    hint: choose another name, or ignore configured servers with --only-mcp
    ");
    let alone = person.run(&["tools", "--json", "--only-mcp", "--mcp", &mcp]);
    let told: Value = serde_json::from_str(&alone.out).unwrap();
    assert_eq!((alone.code, told["servers"].as_array().unwrap().len()), (0, 1), "{}", alone.err);
}

#[test]
fn what_an_organisation_forbids_is_forbidden_on_the_command_line_too() {
    let person = Person::new();
    person.write("managed.json", r#"{"exclusive": true, "mcpServers": {}}"#);
    let mcp = format!("demo={} __demo-server", env!("CARGO_BIN_EXE_wharf"));
    for more in [&[][..], &["--only-mcp"]] {
        let mut command = person.wharf(&[&["tools", "--mcp", &mcp], more].concat());
        command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
        let ran = ran(command);
        assert!(ran.code == 2 && ran.err.contains("error: server `demo` is not allowed: "), "{}", ran.err);
    }
    let mut command = person.wharf(&["tools", "--mcp", &mcp]);
    command.env("WHARF_MANAGED_CONFIG", person.path("missing.json"));
    let missing = ran(command);
    assert!(missing.code == 2 && missing.err.contains("cannot read WHARF_MANAGED_CONFIG"), "{}", missing.err);
}

#[test]
fn one_folder_can_stand_for_all_folders_of_a_person() {
    let person = Person::new();
    let (root, root_text) = (person.path("root"), person.path("root").display().to_string());
    assert_eq!(person.run(&["add", "-q", "--config-root", &root_text, "-s", "user", "x", "y"]).code, 0);
    assert!(root.join("mcp.json").exists() && !person.path("home/.config").exists());
    let mut command = person.wharf(&["list", "--no-connect"]);
    command.env("WHARF_CONFIG_ROOT", &root);
    assert!(ran(command).out.contains("user"));
    person.write("root/managed-mcp.json", r#"{"deniedMcpServers": [{"serverName": "x"}]}"#);
    let denied = person.run(&["tools", "x", "--config-root", &root_text]);
    assert!(denied.code == 2 && denied.err.contains("server `x` is not allowed"), "{}", denied.err);
}

#[test]
fn variables_of_the_environment_are_put_in_and_never_shown() {
    let server = remote(Script::good());
    let entry = json!({"type": "http", "url": server.url(), "headers": {"Authorization": "Bearer ${SECRET}"}});
    let person = Person::new().with(USER, "web", &entry);
    let ran = person.run(&["call", "web", "add", "a=2", "b=3"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
    assert!(server.requests().iter().all(|seen| seen.headers["authorization"] == "Bearer s3cr3t"));
    for command in [&["list"][..], &["list", "--json"], &["get", "web"], &["get", "web", "--json"]] {
        let ran = person.run(command);
        assert!(!ran.out.contains("s3cr3t") && !ran.err.contains("s3cr3t"), "{command:?}: {}", ran.out);
    }
}

#[test]
fn a_header_of_the_command_line_goes_to_the_configured_server_that_is_named() {
    let server = remote(Script::good());
    let entry = json!({"type": "http", "url": server.url(), "headers": {"x-team": "red", "x-keep": "yes"}});
    let person = Person::new().with(USER, "web", &entry);
    assert_eq!(person.run(&["tools", "web", "-H", "X-Team: blue"]).code, 0);
    assert!(server.requests().iter().all(|seen| seen.headers["x-team"] == "blue" && seen.headers["x-keep"] == "yes"));
    // With none named it would be a guess.
    assert_eq!(person.run(&["tools", "-H", "X-Team: blue"]).code, 2);
}

#[test]
fn limits_come_from_the_environment_where_no_flag_is_given() {
    let server = Server::new(&Script::good().at_start([Step::Wait(60_000)]));
    let person = Person::new();
    let mut command = person.wharf(&["tools", "--mcp", &server.mcp()]);
    command.env("MCP_TIMEOUT", "300").env("WHARF_LOCAL_GATE", "many").env("MCP_TOOL_TIMEOUT", "soon");
    insta::assert_snapshot!(person.screen(&ran(command)), @r"
    exit 4
    --- stdout
    --- stderr
    warning: invalid WHARF_LOCAL_GATE `many`: expected 1 to 1000; using 3
    warning: invalid MCP_TOOL_TIMEOUT `soon`: expected milliseconds; using 600000
    error: s: the server was not ready within 300 ms
    hint: a first start may download packages; start it once by hand, or raise the limit with --connect-timeout SECONDS
    ");
}

/// Answers one request with a text, and tells whether it was asked.
fn provider(text: String) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/servers", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 4096];
        let _ = stream.read(&mut asked).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
        stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
    });
    (url, answering)
}

#[test]
fn a_providers_servers_are_there_and_cannot_start_anything() {
    let web = remote(Script::good());
    let text = json!({"mcpServers": {"web": {"type": "http", "url": web.url()}, "evil": {"command": "touch"}}});
    let (url, answering) = provider(text.to_string());
    let person = Person::new();
    person.write(USER, &json!({ "cloud": url }).to_string());
    let ran = person.run(&["list", "--json", "-q"]);
    answering.join().unwrap();
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let servers = told["servers"].as_array().unwrap().iter();
    let states: Vec<String> =
        servers.map(|one| format!("{} {} {}", one["name"], one["scope"], one["state"]).replace('"', "")).collect();
    assert_eq!((ran.code, &states[..]), (0, &["web cloud connected".to_owned(), "evil cloud failed".to_owned()][..]));
    assert!(ran.err.contains("starts a command, which a provider's server must not"), "{}", ran.err);
}

#[test]
fn a_provider_that_does_not_answer_costs_its_servers_only() {
    let person = Person::new().with(USER, "demo", &good());
    let mut command = person.wharf(&["tools"]);
    command.env("WHARF_CLOUD_URL", "http://127.0.0.1:1/servers");
    let ran = ran(command);
    assert!(ran.code == 0 && ran.out.contains("calculate"), "{}", ran.err);
    assert!(ran.err.starts_with("warning: http://127.0.0.1:1/servers: cannot load the provider's servers: "));
}

#[test]
fn a_provider_is_never_asked_where_an_organisation_has_a_file() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let person = Person::new().with(USER, "demo", &good());
    person.write("managed.json", r#"{"mcpServers": {}}"#);
    let mut command = person.wharf(&["tools"]);
    command.env("WHARF_CLOUD_URL", format!("http://{}/servers", listener.local_addr().unwrap()));
    command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
    assert_eq!(ran(command).code, 0);
    assert!(listener.accept().is_err());
}
