//! Environment variables of settings, with good values.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wharf_testkit::{Script, Step};

use crate::remote::remote;
use crate::{PROJECT, Person, Server, USER, demo_entry, ran};

/// The connect timeout of servers that never answer.
const CONNECT: Duration = Duration::from_secs(1);

/// How much later than its connect timeout a server may start, on a busy machine.
const START_SLACK: Duration = Duration::from_millis(500);

/// Returns the time between the first starts of two servers, of which each holds its place until the timeout. A silent
/// server may be started twice.
fn between_processes(variable: (&str, &str)) -> Duration {
    let person = Person::new();
    let starts = person.path("starts");
    let server = |name: &str| format!("{name}=sh -c 'echo {name} $(date +%s%N) >>{}; exec sleep 60'", starts.display());
    let mut command = person.wharf(&["tools", "-q", "--mcp", &server("a"), "--mcp", &server("b")]);
    command.env("MCP_TIMEOUT", CONNECT.as_millis().to_string()).env(variable.0, variable.1);
    assert_eq!(ran(command).code, 4);
    let starts = person.read("starts");
    let first = |name: &str| -> u64 {
        let time = starts.lines().find_map(|line| line.strip_prefix(name));
        time.unwrap_or_else(|| panic!("{starts}")).trim().parse().unwrap()
    };
    Duration::from_nanos(first("a").abs_diff(first("b")))
}

/// Returns the time between the first requests to two servers, of which each holds its place until the timeout.
fn between_requests(variable: (&str, &str)) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepting = std::thread::spawn(move || {
        let mut seen: Vec<(String, Instant)> = Vec::new();
        let mut open = Vec::new();
        while seen.len() < 2 {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            if seen.iter().all(|(other, _)| *other != line) {
                seen.push((line, Instant::now()));
            }
            open.push(stream);
        }
        seen[1].1 - seen[0].1
    });
    let mut command =
        Person::new().wharf(&["tools", "-q", "--mcp", &format!("a={url}/a"), "--mcp", &format!("b={url}/b")]);
    command.env("MCP_TIMEOUT", CONNECT.as_millis().to_string()).env(variable.0, variable.1).current_dir("/");
    assert_eq!(ran(command).code, 4);
    accepting.join().unwrap()
}

#[test]
fn the_number_of_servers_that_connect_at_a_time_is_set_by_variables() {
    for variable in ["WHARF_LOCAL_GATE", "MCP_SERVER_CONNECTION_BATCH_SIZE"] {
        let alone = between_processes((variable, "1"));
        assert!(alone + START_SLACK >= CONNECT, "{variable}: {alone:?}");
    }
    for variable in ["WHARF_REMOTE_GATE", "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE"] {
        let alone = between_requests((variable, "1"));
        assert!(alone + START_SLACK >= CONNECT, "{variable}: {alone:?}");
    }
}

#[test]
fn the_timeout_of_a_call_is_set_by_a_variable() {
    let server = Server::new(&Script::good().any_tool("slow").on_call("slow", [Step::Hang]));
    let person = Person::new();
    let mut command = person.wharf(&["call", "s", "slow", "--mcp", &server.mcp()]);
    command.env("MCP_TOOL_TIMEOUT", "300");
    let ran = ran(command);
    assert!(ran.code != 0 && ran.err.contains("300 ms"), "{}", ran.err);
}

#[test]
fn the_length_of_outputs_for_a_model_is_set_by_a_variable() {
    let talk = Script::good().any_tool("talk").on_call("talk", [Step::Text("word ".repeat(2000))]);
    let server = Server::new(&talk);
    let person = Person::new();
    person.write("project/turns.yaml", "- tools: [{name: mcp__s__talk, arguments: {}}]\n- text: Done.\n");
    let length = |tokens: &str| {
        let mcp = server.mcp();
        let mut command = person.wharf(&["run", "-m", "scripted:turns.yaml", "--json", "--mcp", &mcp, "Talk"]);
        command.env("MAX_MCP_OUTPUT_TOKENS", tokens);
        let ran = ran(command);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
        report["trace_messages"][1]["content"].to_string().len()
    };
    assert!(length("100") < 2000, "it is truncated");
    assert!(length("9000") > 9000, "it is not");
}

#[test]
fn the_model_is_set_by_a_variable() {
    let person = Person::new();
    person.write("project/turns.yaml", "- text: From the variable.\n");
    person.write("project/other.yaml", "- text: From the option.\n");
    let answer = |arguments: &[&str]| {
        let mut command = person.wharf(&[&["run"], arguments, &["Hi"]].concat());
        command.env("WHARF_MODEL", "scripted:turns.yaml");
        ran(command).out
    };
    assert_eq!(answer(&[]), "From the variable.\n");
    assert_eq!(answer(&["-m", "scripted:other.yaml"]), "From the option.\n");
}

#[test]
fn the_provider_of_servers_is_set_by_a_variable() {
    let web = remote(Script::good());
    let listed = json!({"mcpServers": {"web": {"type": "http", "url": web.url()}}}).to_string();
    let (url, provider) = crate::config::provider(listed);
    let person = Person::new();
    let mut command = person.wharf(&["tools"]);
    command.env("WHARF_CLOUD_URL", url);
    let ran = ran(command);
    provider.join().unwrap();
    assert!(ran.code == 0 && ran.out.contains("add"), "{}", ran.err);
}

#[test]
fn the_user_file_applies_to_every_project() {
    let person = Person::new().with(USER, "mine", &demo_entry()).with(PROJECT, "ours", &demo_entry());
    person.write("other/.mcp.json", &json!({"mcpServers": {"theirs": demo_entry()}}).to_string());
    let listed = |project: &str| {
        let mut command = person.wharf(&["list", "--json", "--no-connect"]);
        command.current_dir(person.path(project));
        let ran = ran(command);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
        let names = report["servers"].as_array().unwrap().iter().map(|server| server["name"].to_string());
        names.collect::<Vec<_>>().join(" ").replace('"', "")
    };
    assert_eq!((listed("project"), listed("other")), ("mine ours".to_owned(), "mine theirs".to_owned()));
    for project in ["project", "other"] {
        let mut command = person.wharf(&["call", "mine", "now"]);
        command.current_dir(person.path(project));
        assert_eq!(ran(command).code, 0, "{project}");
    }
}

/// Returns the hint for a server that exits with a message, with variables of the user.
fn hint_for(message: &str, variables: &[(&str, &str)], more: &[&str]) -> Option<String> {
    let person = Person::new();
    let server = format!("s=sh -c 'echo \"{message}\" >&2; exit 3'");
    let mut command = person.wharf(&[&["tools", "s", "--mcp", &server], more].concat());
    command.envs(variables.iter().copied());
    let err = ran(command).err;
    assert!(err.contains("the server exited"), "{err}");
    err.lines().find(|line| line.starts_with("hint: ")).map(str::to_owned)
}

#[test]
fn a_server_that_exits_without_a_variable_gets_a_hint_that_names_it() {
    let key = [("API_KEY", "s3cr3t")];
    assert_eq!(
        hint_for("error: API_KEY is not set", &key, &[]).unwrap(),
        "hint: `API_KEY` is set here, but servers do not inherit it; if you trust this server with it, pass it: --env \
         API_KEY, or \"env\": {\"API_KEY\": \"${API_KEY}\"} in its entry"
    );
    let by_hand = "hint: run its command by hand to see why it exits";
    // The output says why already.
    assert_eq!(hint_for("error: API_KEY is not set", &[], &[]), None);
    assert_eq!(hint_for("error: API_KEY is not set", &key, &["--env", "API_KEY"]), None);
    assert_eq!(hint_for("error: no port", &key, &[]), None);
    assert_eq!(hint_for("", &key, &[]).unwrap(), by_hand);
    let hint = hint_for("MYTOKEN is required", &[("MYTOKEN", "s3cr3t"), ("PIP_DEFAULT_TIMEOUT", "9")], &[]).unwrap();
    assert!(hint.starts_with("hint: `MYTOKEN` is set here, but servers do not inherit it"), "{hint}");
    let proxy = "http://me:pw@proxy.test:1";
    let settings = [("HTTPS_PROXY", proxy), ("ALL_PROXY", proxy), ("UV_PUBLISH_TOKEN", "pw")];
    let hint = hint_for("error: 401", &settings, &[]).unwrap();
    assert!(hint.starts_with("hint: `ALL_PROXY`, `HTTPS_PROXY` are set here"), "{hint}");
    assert!(!hint.contains("pw") && !hint.contains("UV_"), "{hint}");
}

#[test]
fn servers_see_certificates_and_proxies_and_package_runners_their_indexes() {
    let person = Person::new();
    let folder = person.path("bin");
    std::fs::create_dir(&folder).unwrap();
    for name in ["uvx", "other"] {
        let program = folder.join(name);
        std::fs::write(&program, "#!/bin/sh\nenv >&2\nexit 3\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let seen = |program: &str| {
        let mut command = person.wharf(&["tools", "s", "--json", "--mcp", &format!("s={program} pkg")]);
        command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
        command.env("SSL_CERT_FILE", "/ca.pem").env("no_proxy", "corp.test").env("HTTPS_PROXY", "http://proxy.test:1");
        command.env("UV_DEFAULT_INDEX", "https://index.test/simple").env("UV_PUBLISH_TOKEN", "s3cr3t");
        let report: serde_json::Value = serde_json::from_str(&ran(command).out).unwrap();
        let lines = report["servers"][0]["stderr"].as_array().unwrap().clone();
        let names = lines.iter().filter_map(|line| Some(line.as_str()?.split_once('=')?.0.to_owned()));
        let known = ["SSL_CERT_FILE", "no_proxy", "HTTPS_PROXY", "UV_DEFAULT_INDEX", "UV_PUBLISH_TOKEN"];
        let mut names: Vec<String> = names.filter(|name| known.contains(&name.as_str())).collect();
        names.sort();
        names
    };
    assert_eq!(seen("uvx"), ["HTTPS_PROXY", "SSL_CERT_FILE", "UV_DEFAULT_INDEX", "no_proxy"]);
    assert_eq!(seen("other"), ["HTTPS_PROXY", "SSL_CERT_FILE", "no_proxy"]);
}
