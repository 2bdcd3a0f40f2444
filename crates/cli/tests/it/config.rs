//! Configuration sources: scopes, rules, variables, a cloud provider; and errors of unusable servers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::remote::remote;
use crate::{PROJECT, Person, Server, USER, demo_entry, entry_touching, ran};

const CALL: [&str; 3] = ["a=6", "operation=*", "b=7"];

/// Returns the arguments that call the calculator of a server.
fn call<'a>(server: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["call", server, "calculate"], &CALL[..], more].concat()
}

#[test]
fn a_configured_server_is_called_by_its_name() {
    let person = Person::new().with(USER, "demo", &demo_entry());
    let ran = person.run(&call("demo", &[]));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "{\"result\":42.0}\n", ""));
    let listed = person.run(&["tools"]);
    assert!(listed.code == 0 && listed.out.contains("calculate"), "{}", listed.err);
}

#[test]
fn an_unknown_server_suggests_configured_ones() {
    let person = Person::new().with(USER, "github", &demo_entry()).with(PROJECT, "docs", &demo_entry());
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
fn an_invalid_entry_disables_only_its_server() {
    let person =
        Person::new().with(USER, "demo", &demo_entry()).with(USER, "odd", &json!({"command": "x", "timeout": "30s"}));
    let other = person.run(&call("demo", &[]));
    assert_eq!((other.code, other.err.as_str()), (0, ""));
    insta::assert_snapshot!(person.screen(&person.run(&["call", "odd", "x"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: /home/.config/wharf/mcp.json:11: mcpServers.odd.timeout: expected a whole number of milliseconds, found a string
    error: server `odd` has an invalid entry in /home/.config/wharf/mcp.json:9
    ");
    let all = person.run(&["tools"]);
    assert!(all.code == 0 && all.err.contains("mcpServers.odd.timeout"), "{}", all.err);
}

#[test]
fn the_highest_scope_wins_with_a_warning() {
    let person =
        Person::new().with(USER, "demo", &demo_entry()).with(PROJECT, "demo", &json!({"command": "no-such-server"}));
    let ran = person.run(&call("demo", &[]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"result\":42.0}\n"), "{}", ran.err);
    assert!(ran.err.contains("not used: the user scope has a server with the same name"), "{}", ran.err);
    assert_eq!(person.run(&[&call("demo", &[])[..], &["-q"]].concat()).err, "");
}

#[test]
fn a_project_server_is_not_started_before_its_approval() {
    let person = Person::new();
    let trace = person.path("started");
    let person = person.with(PROJECT, "demo", &entry_touching(&trace));
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
fn the_project_is_found_from_a_subdirectory_or_by_option() {
    let person = Person::new().with(PROJECT, "demo", &demo_entry());
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
fn a_command_line_server_cannot_reuse_a_configured_name() {
    let person = Person::new().with(USER, "demo", &demo_entry());
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
    let report: Value = serde_json::from_str(&alone.out).unwrap();
    assert_eq!((alone.code, report["servers"].as_array().unwrap().len()), (0, 1), "{}", alone.err);
}

#[test]
fn organization_rules_apply_to_command_line_servers() {
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
fn config_root_replaces_all_user_directories() {
    let person = Person::new();
    let root = person.path("root");
    let root_text = root.display().to_string();
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
fn environment_variables_are_expanded_and_never_printed() {
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
fn command_line_headers_go_to_the_named_configured_server() {
    let server = remote(Script::good());
    let entry = json!({"type": "http", "url": server.url(), "headers": {"x-team": "red", "x-keep": "yes"}});
    let person = Person::new().with(USER, "web", &entry);
    assert_eq!(person.run(&["tools", "web", "-H", "X-Team: blue"]).code, 0);
    assert!(server.requests().iter().all(|seen| seen.headers["x-team"] == "blue" && seen.headers["x-keep"] == "yes"));
    // Without a server name, the header's server is ambiguous.
    assert_eq!(person.run(&["tools", "-H", "X-Team: blue"]).code, 2);
}

#[test]
fn timeouts_default_to_environment_variables() {
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

/// Starts a cloud provider that answers one request. Returns its URL and the thread, which ends after the request.
pub(crate) fn provider(text: String) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/servers", listener.local_addr().unwrap());
    let server_thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
        stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
    });
    (url, server_thread)
}

#[test]
fn cloud_provider_servers_cannot_start_commands() {
    let web = remote(Script::good());
    let text = json!({"mcpServers": {"web": {"type": "http", "url": web.url()}, "evil": {"command": "touch"}}});
    let (url, server_thread) = provider(text.to_string());
    let person = Person::new();
    person.write(USER, &json!({ "cloud": url }).to_string());
    let ran = person.run(&["list", "--json", "-q"]);
    server_thread.join().unwrap();
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let servers = report["servers"].as_array().unwrap().iter();
    let states: Vec<String> =
        servers.map(|one| format!("{} {} {}", one["name"], one["scope"], one["state"]).replace('"', "")).collect();
    assert_eq!((ran.code, &states[..]), (0, &["web cloud connected".to_owned(), "evil cloud failed".to_owned()][..]));
    assert!(ran.err.contains("starts a command, which a provider's server must not"), "{}", ran.err);
}

#[test]
fn an_unreachable_cloud_provider_is_only_a_warning() {
    let person = Person::new().with(USER, "demo", &demo_entry());
    let mut command = person.wharf(&["tools"]);
    command.env("WHARF_CLOUD_URL", "http://127.0.0.1:1/servers");
    let ran = ran(command);
    assert!(ran.code == 0 && ran.out.contains("calculate"), "{}", ran.err);
    assert!(ran.err.starts_with("warning: http://127.0.0.1:1/servers: cannot load the provider's servers: "));
}

#[test]
fn the_cloud_provider_is_ignored_under_a_managed_configuration() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let person = Person::new().with(USER, "demo", &demo_entry());
    person.write("managed.json", r#"{"mcpServers": {}}"#);
    let mut command = person.wharf(&["tools"]);
    command.env("WHARF_CLOUD_URL", format!("http://{}/servers", listener.local_addr().unwrap()));
    command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
    assert_eq!(ran(command).code, 0);
    assert!(listener.accept().is_err());
}
