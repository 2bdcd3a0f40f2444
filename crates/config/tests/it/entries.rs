//! Reading an entry: the server, or the problems.

use std::time::Duration;

use insta::assert_snapshot;
use wharf_config::Pattern;
use wharf_config::{
    AlwaysLoad, ManagedConfig, RemoteConfig, Scope, Server, Severity, StdioConfig, TransportConfig, Variables,
    read_server,
};
use wharf_protocol::Secret;

use super::{Machine, one};

/// Reads a valid entry.
fn server(entry: &str) -> Server {
    read_server("x", entry, Scope::User, &variables()).unwrap_or_else(|problems| panic!("{problems:?}")).server
}

fn variables() -> Variables {
    [("HOST", "example.com"), ("TOKEN", "s3cr3t"), ("NEWLINE", "a\n"), ("EMPTY", "")].into_iter().collect()
}

/// Returns all problems of an entry, one per line.
fn problems_of(entry: &str, scope: Scope) -> String {
    let problems = match read_server("x", entry, scope, &variables()) {
        Ok(read) => read.problems,
        Err(problems) => problems,
    };
    problems.iter().map(|problem| format!("{}: {problem}", problem.severity)).collect::<Vec<_>>().join("\n")
}

fn check(entry: &str, expected: &str) {
    assert_eq!(problems_of(entry, Scope::User), expected, "{entry}");
}

fn stdio(entry: &str) -> StdioConfig {
    match server(entry).transport {
        TransportConfig::Stdio(launch) => launch,
        other => panic!("{other:?}"),
    }
}

fn http(entry: &str) -> RemoteConfig {
    match server(entry).transport {
        TransportConfig::Http(remote) => remote,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_becomes_a_process() {
    let launch = stdio(r#"{"command": "node", "args": ["a b", "${HOST}"], "env": {"K": "${TOKEN}"}, "cwd": "/srv"}"#);
    assert_eq!(launch.command, "node");
    assert_eq!(launch.args, ["a b", "example.com"]);
    assert_eq!(launch.env["K"], Secret::new("s3cr3t"));
    assert_eq!(launch.cwd.unwrap().to_str(), Some("/srv"));
}

#[test]
fn a_url_without_a_type_means_http_whatever_it_ends_in() {
    assert_eq!(http(r#"{"url": "https://a.example/sse"}"#).url, "https://a.example/sse");
    assert_eq!(http(r#"{"httpUrl": "https://${HOST}/mcp"}"#).url, "https://example.com/mcp");
    assert_eq!(http(r#"{"serverUrl": "https://a.example"}"#).url, "https://a.example");
}

#[test]
fn all_names_of_a_transport_are_supported() {
    for (name, url, transport) in [
        ("http", "https://a", "http"),
        ("streamable-http", "https://a", "http"),
        ("streamableHttp", "https://a", "http"),
        ("streamable_http", "https://a", "http"),
        ("sse", "https://a", "sse"),
        ("ws", "wss://a", "ws"),
        ("websocket", "ws://a", "ws"),
    ] {
        for key in ["type", "transportType", "transport"] {
            let found = server(&format!(r#"{{"{key}": "{name}", "url": "{url}"}}"#)).transport.kind().as_str();
            assert_eq!(found, transport, "{key} {name}");
        }
    }
    assert_eq!(server(r#"{"type": "stdio", "command": "x"}"#).transport.kind().as_str(), "stdio");
}

#[test]
fn a_url_can_have_headers_and_a_helper() {
    let remote = http(
        r#"{"url": "https://a", "headers": {"Authorization": "Bearer ${TOKEN}"}, "headersHelper": "/bin/h 'a b' ${HOST}"}"#,
    );
    assert_eq!(remote.headers, [("Authorization".to_owned(), Secret::new("Bearer s3cr3t"))]);
    assert_eq!(remote.headers_helper.unwrap().words, ["/bin/h", "a b", "example.com"]);
}

#[test]
fn oauth_settings_are_read() {
    let oauth = http(
        r#"{"url": "https://a", "oauth": {"clientId": "me", "clientSecret": "${TOKEN}", "callbackPort": 8090,
            "scopes": "read write", "authServerMetadataUrl": "https://b/.well-known", "flow": "code"}}"#,
    )
    .oauth;
    assert_eq!((oauth.client_id.as_deref(), oauth.client_secret.clone()), (Some("me"), Some(Secret::new("s3cr3t"))));
    assert_eq!((oauth.callback_port, oauth.scopes.clone().unwrap()), (Some(8090), vec!["read".into(), "write".into()]));
    assert_eq!(oauth.metadata_url.as_deref(), Some("https://b/.well-known"));
    assert!(!format!("{oauth:?}").contains("s3cr3t"));
    assert_eq!(http(r#"{"url": "https://a", "oauth": {"scopes": ["a:b"]}}"#).oauth.scopes.unwrap(), ["a:b"]);
    assert_snapshot!(problems_of(
        r#"{"url": "https://a", "oauth": {"clientid": "x", "clientSecret": 5, "callbackPort": 0, "scopes": ["a b", 1],
            "authServerMetadataUrl": "b"}}"#, Scope::User), @r"
    note: x.oauth.clientid: ignored: unknown `oauth` key `clientid`; did you mean `clientId`?
    error: x.oauth.clientSecret: expected a string, found a number; put it in quotes
    error: x.oauth.clientSecret: `clientSecret` requires `clientId`; add the `clientId`
    error: x.oauth.callbackPort: invalid port 0; use a port from 1 to 65535
    error: x.oauth.scopes[1]: expected a string, found a number; put it in quotes
    error: x.oauth.scopes[0]: invalid OAuth scope; write each scope as a separate item
    error: x.oauth.authServerMetadataUrl: invalid URL: no scheme; start it with `https://`
    ");
    check(r#"{"url": "https://a", "oauth": true}"#, "error: x.oauth: expected an object, found a boolean");
    check(
        r#"{"url": "https://a", "oauth": {"clientId": "x", "clientSecret": "${NONE}"}}"#,
        "error: x.oauth.clientSecret: variable `NONE` is not set; set it, or add a default: `${NONE:-default}`",
    );
    check(
        r#"{"command": "x", "oauth": {"clientId": "x"}}"#,
        "note: x.oauth: ignored: OAuth applies to servers with a URL",
    );
}

#[test]
fn a_local_http_server_can_be_managed() {
    let TransportConfig::Managed(manage) = server(r#"{"command": "serve", "args": ["-q"], "manage": {}}"#).transport
    else {
        panic!()
    };
    let ManagedConfig { launch, host, port, path, log_path, startup_timeout, shutdown_timeout, headers } = manage;
    assert_eq!((launch.command.as_str(), launch.args.len()), ("serve", 1));
    assert_eq!((host.to_string().as_str(), port, path.as_str()), ("127.0.0.1", 8000, "/mcp"));
    assert_eq!((startup_timeout, shutdown_timeout), (Duration::from_secs(60), Duration::from_secs(10)));
    assert!(log_path.is_none() && headers.is_empty());
    check(
        r#"{"command": "serve", "manage": {"startupTimeout": 60}}"#,
        "note: x.manage.startupTimeout: 60 is less than 1000 milliseconds and has no effect; did you mean 60000?",
    );
    check(
        r#"{"command": "serve", "manage": {"port": 0, "prt": 1}}"#,
        "warning: x.manage.prt: unknown `manage` key `prt`; did you mean `port`?\nerror: x.manage.port: invalid port 0; use a port from 1 to 65535",
    );
}

#[test]
fn settings_are_read() {
    let settings = server(
        r#"{"command": "x", "enabled": false, "required": true, "timeout": 30000.0, "connectTimeout": 5000,
            "tools": {"allow": ["a"], "deny": ["b"], "descriptions": {"a": "A"}}, "excludeTools": ["c"],
            "bindings": {"a": {"k": 1}}, "maxOutputTokens": 10, "title": "T", "displayName": "D"}"#,
    )
    .settings;
    assert!(!settings.enabled && settings.required);
    assert_eq!(settings.timeout, Some(Duration::from_secs(30)));
    assert_eq!(settings.connect_timeout, Some(Duration::from_secs(5)));
    assert_eq!(settings.tools.allowed.unwrap(), [Pattern::new("a")]);
    assert_eq!(settings.tools.rejected, [Pattern::new("b"), Pattern::new("c")]);
    assert_eq!(settings.tools.descriptions["a"], "A");
    assert_eq!(settings.bindings["a"]["k"], 1);
    assert_eq!(settings.max_output_tokens, Some(10));
    assert_eq!(settings.display_name.unwrap(), "D");
    assert!(settings.instructions, "on, unless the entry says otherwise");
}

#[test]
fn instructions_are_switched_by_their_own_key() {
    assert!(!server(r#"{"command": "x", "instructions": false}"#).settings.instructions);
    check(r#"{"command": "x", "instructions": "no"}"#, "error: x.instructions: expected true or false, found a string");
}

#[test]
fn no_list_of_tools_means_all_and_an_empty_one_means_none() {
    assert_eq!(server(r#"{"command": "x"}"#).settings.tools.allowed, None);
    assert_eq!(server(r#"{"command": "x", "tools": {"allow": []}}"#).settings.tools.allowed, Some(vec![]));
    assert_eq!(server(r#"{"command": "x", "includeTools": []}"#).settings.tools.allowed, Some(vec![]));
    assert_eq!(server(r#"{"command": "x", "tools": ["*"]}"#).settings.tools.allowed.unwrap(), [Pattern::new("*")]);
}

#[test]
fn an_invalid_filter_is_an_error_with_its_position() {
    let tools = server(r#"{"command": "x", "excludeTools": ["/write_(file|dir)/"]}"#).settings.tools;
    assert_eq!(tools.rejected, [Pattern::read("/write_(file|dir)/").unwrap()]);
    let found = problems_of(r#"{"command": "x", "tools": {"deny": ["ok", "/write_(file/"]}}"#, Scope::User);
    assert_eq!(found, "error: x.tools.deny[1]: invalid regular expression `/write_(file/`: unclosed group");
}

#[test]
fn every_protocol_mode_has_a_name() {
    for name in wharf_client::ProtocolMode::NAMES {
        let entry = format!(r#"{{"command": "x", "protocol": "{name}"}}"#);
        assert_eq!(server(&entry).settings.protocol, name.parse().unwrap());
    }
    let found = problems_of(r#"{"command": "x", "protocol": "atuo"}"#, Scope::User);
    assert!(
        found.starts_with("error: x.protocol: invalid protocol mode \"atuo\"")
            && found.ends_with("did you mean `auto`?"),
        "{found}"
    );
}

#[test]
fn contradictions_are_errors_with_a_hint() {
    check(
        r#"{"command": "x", "url": "https://a"}"#,
        "error: x.url: `url` and `command` are mutually exclusive; keep one of them",
    );
    check(r#"{"args": ["x"]}"#, "error: x.args: `args` requires `command`; add `command`");
    check(r#"{"url": "https://a", "args": ["x"]}"#, "error: x.args: `args` requires `command`; remove it");
    check(
        r#"{"command": "x", "headers": {"A": "b"}}"#,
        "error: x.headers: `headers` requires a URL, but the entry has `command`; remove it",
    );
    check(
        r#"{"type": "stdio", "url": "https://a"}"#,
        "error: x.type: `type` is `stdio`, but the entry has a URL; set it to `http`, or remove it",
    );
    check(
        r#"{"type": "http", "command": "x"}"#,
        "error: x.type: `type` is `http`, but the entry has `command`; remove it, or add `manage` if the command starts an HTTP server",
    );
    check(
        r#"{"command": "x", "enabled": true, "disabled": false}"#,
        "error: x.disabled: `disabled` and `enabled` are mutually exclusive; keep one of them",
    );
    check(
        r#"{"url": "https://a", "httpUrl": "https://b"}"#,
        "error: x.httpUrl: `httpUrl` and `url` are mutually exclusive; keep one of them",
    );
    check(
        r#"{"url": "https://a", "manage": {}}"#,
        "error: x.manage: `manage` requires `command`, but the entry has a URL; add the `command` to start, or remove `manage`",
    );
    check(r#"{"command": "x", "command": "y"}"#, "error: x.command: duplicate key; keep one");
}

#[test]
fn an_entry_without_a_transport_is_an_error() {
    check("{}", "error: x: neither `command` nor `url` is set; add one of them");
    check(r#"{"type": "http"}"#, "error: x: no URL configured; add `url`");
    check(r#"{"type": "http", "url": ""}"#, "error: x.url: no URL configured; set the URL");
    check(r#"{"type": "stdio"}"#, "error: x: no command configured; add `command`");
    check(
        r#"{"type": "sdk", "name": "y"}"#,
        "note: x.name: ignored: only describes the server\nerror: x.type: an `sdk` server runs inside the host process; add it in code, or set `command` or `url` here",
    );
    check(
        r#"{"type": "htpp", "url": "https://a"}"#,
        "error: x.type: unknown transport `htpp`: expected stdio, http, sse or ws; did you mean `http`?",
    );
}

#[test]
fn wrong_types_are_errors_that_name_the_expected_type() {
    check(
        r#""https://a""#,
        r#"error: x: expected an object with `command` or `url`, found a string; write {"url": …}"#,
    );
    check(
        r#"{"command": "x", "args": "-y pkg"}"#,
        r#"error: x.args: expected a list of strings, found a string; write each word as a separate item: ["…", "…"]"#,
    );
    check(
        r#"{"command": "x", "args": ["-p", 80]}"#,
        "error: x.args[1]: expected a string, found a number; put it in quotes",
    );
    check(
        r#"{"command": "x", "env": {"DEBUG": true}}"#,
        r#"error: x.env.DEBUG: expected a string, found a boolean; write "true""#,
    );
    check(r#"{"command": "x", "required": "yes"}"#, "error: x.required: expected true or false, found a string");
    check(
        r#"{"command": "x", "tools": {"alow": []}}"#,
        "error: x.tools.alow: unknown `tools` key `alow`: expected `allow`, `deny` or `descriptions`; did you mean `allow`?",
    );
    check(
        r#"{"command": "npx -y pkg"}"#,
        r#"error: x.command: `command` contains spaces, but must be one program; set "command" to "npx", and put the other words into the list "args""#,
    );
}

#[test]
fn a_timeout_in_seconds_has_no_effect_and_is_a_note() {
    let entry = r#"{"command": "x", "timeout": 30}"#;
    check(entry, "note: x.timeout: 30 is less than 1000 milliseconds and has no effect; did you mean 30000?");
    assert_eq!(server(entry).settings.timeout, None);
    check(
        r#"{"command": "x", "connectTimeout": 999}"#,
        "note: x.connectTimeout: 999 is less than 1000 milliseconds and has no effect; did you mean 999000?",
    );
    check(
        r#"{"command": "x", "timeout": 0}"#,
        "note: x.timeout: 0 is less than 1000 milliseconds and has no effect; remove it to use the default",
    );
    check(
        r#"{"command": "x", "timeout": "30s"}"#,
        "error: x.timeout: expected a whole number of milliseconds, found a string",
    );
    check(
        r#"{"command": "x", "timeout": -1000}"#,
        "error: x.timeout: expected a whole number of milliseconds, found a number",
    );
    check(r#"{"command": "x", "timeout": 1000}"#, "");
}

#[test]
fn a_new_entry_with_a_timeout_in_seconds_is_refused() {
    let entry = r#"{"command": "x", "timeout": 30}"#;
    let problems = wharf_config::read_server_to_keep("x", entry, Scope::User, &Variables::none()).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "x.timeout: 30 is less than 1000 milliseconds and has no effect; did you mean 30000?"
    );
}

#[test]
fn always_load_is_a_switch_or_a_list_of_tools() {
    let read = |value: &str| {
        let entry = format!(r#"{{"command": "x", "alwaysLoad": {value}}}"#);
        wharf_config::read_server_to_keep("x", &entry, Scope::User, &Variables::none())
    };
    let setting = |value: &str| read(value).unwrap().server.settings.always_load.clone();
    assert_eq!(setting("true"), AlwaysLoad::All);
    assert_eq!(setting("false"), AlwaysLoad::None);
    assert!(matches!(setting(r#"["search_*"]"#), AlwaysLoad::Tools(patterns) if patterns.len() == 1));
    assert!(read("3").is_err());
}

#[test]
fn keys_of_other_hosts_are_ignored_and_unknown_ones_get_a_suggestion() {
    assert_snapshot!(problems_of(
        r#"{"command": "x", "description": "d", "envFile": ".env", "trust": true,
            "timout": 1, "working_dir": "/", "frobnicate": 1}"#, Scope::User), @r"
    note: x.description: ignored: only describes the server
    warning: x.envFile: ignored: put its variables into `env`
    note: x.trust: ignored: an entry cannot approve itself
    warning: x.timout: unknown key `timout`; did you mean `timeout`?
    warning: x.working_dir: unknown key `working_dir`; did you mean `cwd`?
    warning: x.frobnicate: unknown key `frobnicate`
    ");
}

#[test]
fn hidden_characters_are_reported() {
    check(r#"{"command": "node "}"#, "error: x.command: ends with a space; remove it");
    check(r#"{"url": "\u00a0https://a"}"#, "error: x.url: starts with a non-breaking space (U+00A0); remove it");
    check(
        r#"{"url": "https://a/\u200bmcp"}"#,
        "error: x.url: contains a zero-width space (U+200B) at character 11; remove it",
    );
    check(r#"{"url": "https://a", "headers": {"A": "b\n"}}"#, "error: x.headers.A: ends with a line break; remove it");
    check(r#"{"command": "x", "env": {"A": "b\t"}}"#, "error: x.env.A: ends with a tab; remove it");
    check(r#"{"command": "x", "env": {"A": "b\nc"}}"#, "warning: x.env.A: contains a line break at character 2");
    check(r#"{"command": "x", "env": {"A": "-----BEGIN KEY-----\nabc"}}"#, "");
    check(r#"{"command": "x", "args": [" a ", "b\nc"]}"#, "");
    check(r#"{"command": "x", "args": ["a\u0000"]}"#, "error: x.args[0]: contains a NUL character; remove it");
    check(
        r#"{"url": "https://a", "headers": {"A": "${NEWLINE}"}}"#,
        "error: x.headers.A: after variable expansion: ends with a line break; remove it",
    );
}

#[test]
fn an_invalid_url_or_header_is_an_error() {
    check(
        r#"{"url": "example.com/mcp"}"#,
        "error: x.url: invalid URL `example.com/mcp`: no scheme; start it with `https://`",
    );
    check(
        r#"{"type": "ws", "url": "https://a"}"#,
        "error: x.url: invalid URL `https://a`: not a WebSocket scheme; start it with `wss://`",
    );
    check(r#"{"url": "https://"}"#, "error: x.url: invalid URL `https://`: no host");
    // The values of variables are not shown.
    check(
        r#"{"url": "ftp://${TOKEN}"}"#,
        "error: x.url: invalid URL `ftp://${TOKEN}`: unsupported scheme; start it with `https://`",
    );
    check(
        r#"{"url": "https://a", "headers": {"a b": "c"}}"#,
        "error: x.headers.a b: invalid header name; use letters, digits and `-`",
    );
}

#[test]
fn an_unset_variable_is_an_error_with_a_hint() {
    check(
        r#"{"url": "https://${NOWHERE}/"}"#,
        "error: x.url: variable `NOWHERE` is not set; set it, or add a default: `${NOWHERE:-default}`",
    );
    check(
        r#"{"command": "x", "args": ["${input:key}"]}"#,
        "error: x.args[0]: `${input:…` needs a prompt of an editor; use a variable: `${NAME}`",
    );
    check(
        r#"{"command": "x", "args": ["${A"]}"#,
        "error: x.args[0]: invalid variable reference `${A…`; write `${NAME}` or `${NAME:-default}`, or `$${` for a literal `${`",
    );
    check(r#"{"command": "x", "args": ["${NOWHERE:-y}"]}"#, "");
    // Harmless while the server is disabled.
    check(r#"{"disabled": true, "url": "https://${NOWHERE}/"}"#, "warning: x.url: variable `NOWHERE` is not set");
}

#[test]
fn messages_and_debug_output_do_not_contain_values_of_variables() {
    let entry = r#"{"command": "x", "env": {"A": "${TOKEN}"}, "args": ["${NOWHERE}"], "url": "bad ${TOKEN}"}"#;
    assert!(!problems_of(entry, Scope::User).contains("s3cr3t"));
    let debug = format!("{:?} {:?}", server(r#"{"command": "x", "env": {"A": "${TOKEN}"}}"#), variables());
    assert!(!debug.contains("s3cr3t"), "{debug}");
}

#[test]
fn the_environment_of_another_server_is_not_expanded() {
    let machine = Machine::new().user(
        r#"{"mcpServers": {"a": {"command": "a", "env": {"SECRET": "s"}}, "b": {"command": "b", "args": ["${SECRET}"]}}}"#,
    );
    assert_eq!(machine.list(), "user a ready\nuser b broken");
}

#[test]
fn an_invalid_name_suggests_a_valid_one() {
    let found = |name: &str| {
        let problems = read_server(name, r#"{"command": "x"}"#, Scope::User, &variables()).unwrap_err();
        format!("{}; {}", problems[0].message, problems[0].hint.as_deref().unwrap_or_default())
    };
    assert_snapshot!(found("gіthub"), @"invalid server name `gіthub`: contains the character U+0456; use letters, digits, `_`, `.` and `-`; it looks like `github` but differs; rename it to `github`");
    assert!(found("my server ").ends_with("rename it to `my-server`"));
}

#[test]
fn an_invalid_entry_affects_one_server_only() {
    let machine = Machine::new().user(
        r#"{
  // A comment, and a comma too many.
  "mcpServers": {
    "good": {"command": "x"},
    "bad": {
      "command": "x",
      "timeout": "30s",
    },
    "fine": {"url": "https://a.example"},
  },
}"#,
    );
    assert_eq!(machine.list(), "user good ready\nuser fine ready\nuser bad broken");
    assert_snapshot!(machine.problems(Severity::Note), @"error: user.json:7: mcpServers.bad.timeout: expected a whole number of milliseconds, found a string");
    let problem = machine.load().problems.remove(0);
    assert_eq!((problem.line, problem.column, problem.server.as_deref()), (7, 7, Some("bad")));
}

#[test]
fn a_duplicate_server_is_an_error() {
    let machine =
        Machine::new().user("{\"mcpServers\": {\n\"x\": {\"command\": \"a\"},\n\"x\": {\"command\": \"b\"}}}");
    assert_eq!(machine.list(), "user x broken");
    assert_snapshot!(machine.problems(Severity::Note), @"error: user.json:3: mcpServers.x: duplicate server `x`: first defined in line 2; rename or remove one of them");
}

#[test]
fn dangerous_entries_are_errors_in_a_project_and_warnings_elsewhere() {
    let preload = r#"{"command": "x", "env": {"LD_PRELOAD": "/tmp/x.so"}}"#;
    assert_snapshot!(problems_of(preload, Scope::Project), @"error: x.env.LD_PRELOAD: `LD_PRELOAD` controls which code programs load; a project must not set it; set it in your user configuration if you need it");
    assert_snapshot!(problems_of(preload, Scope::User), @"warning: x.env.LD_PRELOAD: `LD_PRELOAD` controls which code programs load");
    for name in ["NODE_OPTIONS", "PYTHONSTARTUP", "PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ld_preload"] {
        let entry = format!(r#"{{"command": "x", "env": {{"{name}": "x"}}}}"#);
        assert!(problems_of(&entry, Scope::Project).starts_with("error"), "{name}");
    }
    for command in ["./npx", "bin/x", "../x", "${EMPTY}./x"] {
        let entry = format!(r#"{{"command": "{command}"}}"#);
        assert_eq!(problems_of(&entry, Scope::Project), "", "{command}: relative to the project");
        assert!(problems_of(&entry, Scope::User).starts_with("warning"), "{command}");
    }
    let secret = r#"{"command": "x", "env": {"API_TOKEN": "abcdefgh1234"}}"#;
    assert_snapshot!(problems_of(secret, Scope::Project), @"warning: x.env.API_TOKEN: looks like a plaintext secret; use a variable: `${API_TOKEN}`");
    assert_snapshot!(problems_of(r#"{"command": "npx", "args": ["-y", "pkg"]}"#, Scope::User), @"note: x.command: fetches the latest version of `pkg`; pin a version: `pkg@1.2.3`");
}

#[test]
fn a_relative_directory_is_resolved_against_the_project() {
    let machine = Machine::new().project(&one(r#"{"command": "x", "cwd": "sub"}"#));
    let loaded = machine.load();
    let TransportConfig::Stdio(launch) = &loaded.servers[0].server.transport else { panic!() };
    assert_eq!(launch.cwd, Some(machine.root().join("sub")));
}

#[test]
fn messages_do_not_contain_possible_secrets() {
    let check = |entry: &str| problems_of(entry, Scope::User);
    let fetched = check(r#"{"command": "npx", "args": ["-y", "${TOKEN}"]}"#);
    assert!(fetched.contains("the latest version of `${TOKEN}`") && !fetched.contains("s3cr3t"), "{fetched}");
    for entry in [
        r#"{"command": "x", "env": {"P": "pa${ss-w0rd"}}"#,
        r#"{"command": "x", "args": "--token pass-w0rd"}"#,
        r#"{"command": "x", "args": [731731]}"#,
        r#"{"command": "x --token pass-w0rd"}"#,
        r#""x --token pass-w0rd""#,
        r#"{"url": "ftp://a/?key=pass-w0rd"}"#,
    ] {
        let found = check(entry);
        assert!(!found.is_empty() && !found.contains("w0rd") && !found.contains("731731"), "{found}");
    }
}

#[test]
fn a_reserved_header_is_an_error() {
    check(
        r#"{"url": "https://a", "headers": {"content-type": "x", "Accept": "y", "Mcp-Session-Id": "z", "X": "fine"}}"#,
        "error: x.headers.content-type: the client sets this header; remove it\n\
         error: x.headers.Accept: the client sets this header; remove it\n\
         error: x.headers.Mcp-Session-Id: the client sets this header; remove it",
    );
}

#[test]
fn managed_hosts_are_loopback() {
    for host in ["10.0.0.1", "8.8.8.8", "example.com"] {
        let found = problems_of(&format!(r#"{{"command": "x", "manage": {{"host": "{host}"}}}}"#), Scope::User);
        assert!(found.contains("is not a loopback address"), "{found}");
    }
    for host in ["127.0.0.2", "::1", "0.0.0.0", "localhost"] {
        check(&format!(r#"{{"command": "x", "manage": {{"host": "{host}"}}}}"#), "");
    }
}

#[test]
fn a_long_key_is_truncated_and_not_compared() {
    let found = problems_of(&format!(r#"{{"command": "x", "{}": 1}}"#, "k".repeat(5000)), Scope::User);
    assert!(found.contains(&format!("unknown key `{}…`", "k".repeat(64))), "{found}");
}
