//! From an entry to a server, or to a message that says what to do.

use std::time::Duration;

use insta::assert_snapshot;
use wharf_config::Pattern;
use wharf_config::{
    ManagedConfig, RemoteConfig, Scope, Server, Severity, StdioConfig, TransportConfig, Variables, read_server,
};
use wharf_protocol::Secret;

use super::{Machine, one};

/// The server of an entry that nothing is wrong with.
fn server(entry: &str) -> Server {
    read_server("x", entry, Scope::User, &variables()).unwrap_or_else(|problems| panic!("{problems:?}")).server
}

fn variables() -> Variables {
    [("HOST", "example.com"), ("TOKEN", "s3cr3t"), ("NEWLINE", "a\n"), ("EMPTY", "")].into_iter().collect()
}

/// Everything that is said about an entry, one line each.
fn said(entry: &str, scope: Scope) -> String {
    let problems = match read_server("x", entry, scope, &variables()) {
        Ok(read) => read.problems,
        Err(problems) => problems,
    };
    problems.iter().map(|problem| format!("{}: {problem}", problem.severity)).collect::<Vec<_>>().join("\n")
}

fn check(entry: &str, expected: &str) {
    assert_eq!(said(entry, Scope::User), expected, "{entry}");
}

fn stdio(entry: &str) -> StdioConfig {
    match server(entry).reach {
        TransportConfig::Stdio(launch) => launch,
        other => panic!("{other:?}"),
    }
}

fn http(entry: &str) -> RemoteConfig {
    match server(entry).reach {
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
fn every_word_for_a_transport_is_understood() {
    for (word, url, transport) in [
        ("http", "https://a", "http"),
        ("streamable-http", "https://a", "http"),
        ("streamableHttp", "https://a", "http"),
        ("streamable_http", "https://a", "http"),
        ("sse", "https://a", "sse"),
        ("ws", "wss://a", "ws"),
        ("websocket", "ws://a", "ws"),
    ] {
        for key in ["type", "transportType", "transport"] {
            let found = server(&format!(r#"{{"{key}": "{word}", "url": "{url}"}}"#)).reach.kind().as_str();
            assert_eq!(found, transport, "{key} {word}");
        }
    }
    assert_eq!(server(r#"{"type": "stdio", "command": "x"}"#).reach.kind().as_str(), "stdio");
}

#[test]
fn headers_and_a_helper_go_with_a_url() {
    let remote = http(
        r#"{"url": "https://a", "headers": {"Authorization": "Bearer ${TOKEN}"}, "headersHelper": "/bin/h 'a b' ${HOST}"}"#,
    );
    assert_eq!(remote.headers, [("Authorization".to_owned(), Secret::new("Bearer s3cr3t"))]);
    assert_eq!(remote.headers_helper.unwrap().words, ["/bin/h", "a b", "example.com"]);
}

#[test]
fn what_is_known_about_signing_in_is_read() {
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
    assert_snapshot!(said(
        r#"{"url": "https://a", "oauth": {"clientid": "x", "clientSecret": 5, "callbackPort": 0, "scopes": ["a b", 1],
            "authServerMetadataUrl": "b"}}"#, Scope::User), @r"
    note: x.oauth.clientid: is passed over: `clientid` is no key of `oauth`; did you mean `clientId`?
    error: x.oauth.clientSecret: is a number, but has to be a text; put it into quotes
    error: x.oauth.clientSecret: stands there without `clientId`; add the `clientId` it belongs to
    error: x.oauth.callbackPort: 0 is no port; ports are 1 to 65535
    error: x.oauth.scopes[1]: is a number, but has to be a text; put it into quotes
    error: x.oauth.scopes[0]: has something in it that is no scope; write each scope as an item of its own
    error: x.oauth.authServerMetadataUrl: is no URL: it has no scheme; begin it with `https://`
    ");
    check(r#"{"url": "https://a", "oauth": true}"#, "error: x.oauth: is true or false, but has to be an object");
    check(
        r#"{"url": "https://a", "oauth": {"clientId": "x", "clientSecret": "${NONE}"}}"#,
        "error: x.oauth.clientSecret: the variable NONE is not set; set it, or give a default: `${NONE:-default}`",
    );
    check(
        r#"{"command": "x", "oauth": {"clientId": "x"}}"#,
        "note: x.oauth: is passed over: one signs in to servers at a URL",
    );
}

#[test]
fn a_local_server_that_listens_can_be_managed() {
    let TransportConfig::Managed(manage) = server(r#"{"command": "serve", "args": ["-q"], "manage": {}}"#).reach else {
        panic!()
    };
    let ManagedConfig { launch, host, port, path, log_path, startup_timeout, shutdown_timeout, headers } = manage;
    assert_eq!((launch.command.as_str(), launch.args.len()), ("serve", 1));
    assert_eq!((host.to_string().as_str(), port, path.as_str()), ("127.0.0.1", 8000, "/mcp"));
    assert_eq!((startup_timeout, shutdown_timeout), (Duration::from_secs(60), Duration::from_secs(10)));
    assert!(log_path.is_none() && headers.is_empty());
    check(
        r#"{"command": "serve", "manage": {"startupTimeout": 60}}"#,
        "error: x.manage.startupTimeout: 60 is under 1000 milliseconds; did you mean 60000?",
    );
    check(
        r#"{"command": "serve", "manage": {"port": 0, "prt": 1}}"#,
        "warning: x.manage.prt: `prt` is no key of `manage`; did you mean `port`?\nerror: x.manage.port: 0 is no port; ports are 1 to 65535",
    );
}

#[test]
fn everything_else_is_set_as_written() {
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
}

#[test]
fn no_list_of_tools_means_all_and_an_empty_one_means_none() {
    assert_eq!(server(r#"{"command": "x"}"#).settings.tools.allowed, None);
    assert_eq!(server(r#"{"command": "x", "tools": {"allow": []}}"#).settings.tools.allowed, Some(vec![]));
    assert_eq!(server(r#"{"command": "x", "includeTools": []}"#).settings.tools.allowed, Some(vec![]));
    assert_eq!(server(r#"{"command": "x", "tools": ["*"]}"#).settings.tools.allowed.unwrap(), [Pattern::new("*")]);
}

#[test]
fn a_filter_that_is_no_expression_costs_the_server_and_is_told_where_it_stands() {
    let tools = server(r#"{"command": "x", "excludeTools": ["/write_(file|dir)/"]}"#).settings.tools;
    assert_eq!(tools.rejected, [Pattern::read("/write_(file|dir)/").unwrap()]);
    let said = said(r#"{"command": "x", "tools": {"deny": ["ok", "/write_(file/"]}}"#, Scope::User);
    assert_eq!(said, "error: x.tools.deny[1]: `/write_(file/` is no regular expression: unclosed group");
}

#[test]
fn every_way_to_speak_has_its_name() {
    for name in wharf_client::ProtocolMode::NAMES {
        let entry = format!(r#"{{"command": "x", "protocol": "{name}"}}"#);
        assert_eq!(server(&entry).settings.protocol, name.parse().unwrap());
    }
    let said = said(r#"{"command": "x", "protocol": "atuo"}"#, Scope::User);
    assert!(said.starts_with("error: x.protocol: `atuo`") && said.ends_with("did you mean `auto`?"), "{said}");
}

#[test]
fn contradictions_are_errors_with_the_way_out() {
    check(r#"{"command": "x", "url": "https://a"}"#, "error: x.url: stands beside `command`; keep one of them");
    check(r#"{"args": ["x"]}"#, "error: x.args: stands there without `command`; add the `command`");
    check(r#"{"url": "https://a", "args": ["x"]}"#, "error: x.args: stands there without `command`; remove it");
    check(
        r#"{"command": "x", "headers": {"A": "b"}}"#,
        "error: x.headers: means nothing beside `command`: there is nothing to send it to; remove it",
    );
    check(
        r#"{"type": "stdio", "url": "https://a"}"#,
        "error: x.type: is `stdio`, but the entry has a URL; set it to `http`, or leave it out",
    );
    check(
        r#"{"type": "http", "command": "x"}"#,
        "error: x.type: is `http`, but the entry has `command`; leave it out, or add `manage` if the command starts a server that listens",
    );
    check(
        r#"{"command": "x", "enabled": true, "disabled": false}"#,
        "error: x.disabled: stands beside `enabled`; keep one of them",
    );
    check(r#"{"url": "https://a", "httpUrl": "https://b"}"#, "error: x.httpUrl: stands beside `url`; keep one of them");
    check(
        r#"{"url": "https://a", "manage": {}}"#,
        "error: x.manage: stands beside a URL, but only what is started here can be managed; give the `command` to start, or leave `manage` out",
    );
    check(r#"{"command": "x", "command": "y"}"#, "error: x.command: is there twice; keep one");
}

#[test]
fn a_server_that_is_nowhere_is_an_error() {
    check("{}", "error: x: says neither what to start nor where to connect; add `command` or `url`");
    check(r#"{"type": "http"}"#, "error: x: the server has no URL configured; add `url`");
    check(r#"{"type": "http", "url": ""}"#, "error: x.url: the server has no URL configured; write its URL");
    check(r#"{"type": "stdio"}"#, "error: x: the server has no command configured; add `command`");
    check(
        r#"{"type": "sdk", "name": "y"}"#,
        "note: x.name: is passed over: it only describes the server\nerror: x.type: `sdk` is a server in the host's own process; such a server is added in code; give `command` or `url` here",
    );
    check(
        r#"{"type": "htpp", "url": "https://a"}"#,
        "error: x.type: `htpp` is no transport; there are stdio, http, sse and ws; did you mean `http`?",
    );
}

#[test]
fn wrong_types_say_what_is_wanted() {
    check(
        r#""https://a""#,
        r#"error: x: is a text, but has to be an object with `command` or `url`; write it as {"url": …}"#,
    );
    check(
        r#"{"command": "x", "args": "-y pkg"}"#,
        r#"error: x.args: is a text, but has to be a list of texts; write each word as an item of its own: ["…", "…"]"#,
    );
    check(
        r#"{"command": "x", "args": ["-p", 80]}"#,
        "error: x.args[1]: is a number, but has to be a text; put it into quotes",
    );
    check(
        r#"{"command": "x", "env": {"DEBUG": true}}"#,
        r#"error: x.env.DEBUG: is true or false, but has to be a text; write "true""#,
    );
    check(r#"{"command": "x", "required": "yes"}"#, "error: x.required: is a text, but has to be true or false");
    check(
        r#"{"command": "x", "tools": {"alow": []}}"#,
        "error: x.tools.alow: `alow` is none of `allow`, `deny` and `descriptions`; did you mean `allow`?",
    );
    check(
        r#"{"command": "npx -y pkg"}"#,
        r#"error: x.command: has blanks in it, but is the name of one program; write "command": "npx", and the other words as the list "args""#,
    );
}

#[test]
fn a_time_that_was_meant_in_seconds_is_an_error() {
    check(r#"{"command": "x", "timeout": 30}"#, "error: x.timeout: 30 is under 1000 milliseconds; did you mean 30000?");
    check(
        r#"{"command": "x", "connectTimeout": 999}"#,
        "error: x.connectTimeout: 999 is under 1000 milliseconds; did you mean 999000?",
    );
    check(r#"{"command": "x", "timeout": 0}"#, "error: x.timeout: 0 is no time; leave it out for the usual limit");
    check(
        r#"{"command": "x", "timeout": "30s"}"#,
        "error: x.timeout: is a text, but has to be a whole number of milliseconds",
    );
    check(
        r#"{"command": "x", "timeout": -1000}"#,
        "error: x.timeout: is a number, but has to be a whole number of milliseconds",
    );
    check(r#"{"command": "x", "timeout": 1000}"#, "");
}

#[test]
fn keys_of_other_hosts_are_passed_over_and_unknown_ones_are_guessed() {
    assert_snapshot!(said(
        r#"{"command": "x", "alwaysLoad": true, "description": "d", "envFile": ".env", "trust": true,
            "timout": 1, "working_dir": "/", "frobnicate": 1}"#, Scope::User), @r"
    note: x.alwaysLoad: is passed over: which tools are always shown is set for the model, not for a server
    note: x.description: is passed over: it only describes the server
    warning: x.envFile: is not read: put its variables into `env`
    note: x.trust: is passed over: an entry does not approve itself
    warning: x.timout: `timout` is no key of a server; did you mean `timeout`?
    warning: x.working_dir: `working_dir` is no key of a server; did you mean `cwd`?
    warning: x.frobnicate: `frobnicate` is no key of a server
    ");
}

#[test]
fn what_the_eye_does_not_see_is_shown() {
    check(r#"{"command": "node "}"#, "error: x.command: ends with a blank; remove it");
    check(r#"{"url": "\u00a0https://a"}"#, "error: x.url: begins with a non-breaking blank (U+00A0); remove it");
    check(
        r#"{"url": "https://a/\u200bmcp"}"#,
        "error: x.url: has a blank without width (U+200B) as character 11; remove it",
    );
    check(r#"{"url": "https://a", "headers": {"A": "b\n"}}"#, "error: x.headers.A: ends with a line break; remove it");
    check(r#"{"command": "x", "env": {"A": "b\t"}}"#, "error: x.env.A: ends with a tab; remove it");
    check(r#"{"command": "x", "env": {"A": "b\nc"}}"#, "warning: x.env.A: has a line break as character 2");
    check(r#"{"command": "x", "env": {"A": "-----BEGIN KEY-----\nabc"}}"#, "");
    check(r#"{"command": "x", "args": [" a ", "b\nc"]}"#, "");
    check(
        r#"{"command": "x", "args": ["a\u0000"]}"#,
        "error: x.args[0]: has a NUL character; no program can be given one; remove it",
    );
    check(
        r#"{"url": "https://a", "headers": {"A": "${NEWLINE}"}}"#,
        "error: x.headers.A: with what its variables hold, it ends with a line break; remove it",
    );
}

#[test]
fn an_address_that_cannot_work_is_an_error() {
    check(
        r#"{"url": "example.com/mcp"}"#,
        "error: x.url: `example.com/mcp` is no URL: it has no scheme; begin it with `https://`",
    );
    check(
        r#"{"type": "ws", "url": "https://a"}"#,
        "error: x.url: `https://a` is no URL of a web socket; begin it with `wss://`",
    );
    check(r#"{"url": "https://"}"#, "error: x.url: `https://` is no URL: it has no host");
    // What a variable holds is not shown.
    check(
        r#"{"url": "ftp://${TOKEN}"}"#,
        "error: x.url: `ftp://${TOKEN}` has a scheme that no server is reached by; begin it with `https://`",
    );
    check(
        r#"{"url": "https://a", "headers": {"a b": "c"}}"#,
        "error: x.headers.a b: is no name of a header; use letters, digits and `-`",
    );
}

#[test]
fn a_variable_that_is_not_set_costs_the_server_and_says_how_to_set_it() {
    check(
        r#"{"url": "https://${NOWHERE}/"}"#,
        "error: x.url: the variable NOWHERE is not set; set it, or give a default: `${NOWHERE:-default}`",
    );
    check(
        r#"{"command": "x", "args": ["${input:key}"]}"#,
        "error: x.args[0]: `${input:…` asks a question, which only an editor can; take it from a variable: `${NAME}`",
    );
    check(
        r#"{"command": "x", "args": ["${A"]}"#,
        "error: x.args[0]: `${A…` is no variable; write `${NAME}` or `${NAME:-default}`, or `$${` for a plain `${`",
    );
    check(r#"{"command": "x", "args": ["${NOWHERE:-y}"]}"#, "");
    // Nobody is harmed while it is switched off.
    check(r#"{"disabled": true, "url": "https://${NOWHERE}/"}"#, "warning: x.url: the variable NOWHERE is not set");
}

#[test]
fn no_message_and_no_debug_output_shows_what_a_variable_holds() {
    let entry = r#"{"command": "x", "env": {"A": "${TOKEN}"}, "args": ["${NOWHERE}"], "url": "bad ${TOKEN}"}"#;
    assert!(!said(entry, Scope::User).contains("s3cr3t"));
    let debug = format!("{:?} {:?}", server(r#"{"command": "x", "env": {"A": "${TOKEN}"}}"#), variables());
    assert!(!debug.contains("s3cr3t"), "{debug}");
}

#[test]
fn a_variable_of_another_server_is_not_seen() {
    let machine = Machine::new().user(
        r#"{"mcpServers": {"a": {"command": "a", "env": {"SECRET": "s"}}, "b": {"command": "b", "args": ["${SECRET}"]}}}"#,
    );
    assert_eq!(machine.list(), "user a ready\nuser b broken");
}

#[test]
fn a_name_that_is_none_leads_to_one_that_is() {
    let said = |name: &str| {
        let problems = read_server(name, r#"{"command": "x"}"#, Scope::User, &variables()).unwrap_err();
        format!("{}; {}", problems[0].message, problems[0].hint.as_deref().unwrap_or_default())
    };
    assert_snapshot!(said("gіthub"), @"the server name `gіthub` has the character U+0456 in it; use letters, digits, `_`, `.` and `-`; it looks like `github` and is not; call it `github`");
    assert!(said("my server").ends_with("call it `my-server`"));
}

#[test]
fn one_bad_entry_costs_one_server() {
    let machine = Machine::new().user(
        r#"{
  // A comment, and a comma too many.
  "mcpServers": {
    "good": {"command": "x"},
    "bad": {
      "command": "x",
      "timeout": 30,
    },
    "fine": {"url": "https://a.example"},
  },
}"#,
    );
    assert_eq!(machine.list(), "user good ready\nuser fine ready\nuser bad broken");
    assert_snapshot!(machine.problems(Severity::Note), @"error: user.json:7: mcpServers.bad.timeout: 30 is under 1000 milliseconds; did you mean 30000?");
    let problem = machine.load().problems.remove(0);
    assert_eq!((problem.line, problem.column, problem.server.as_deref()), (7, 7, Some("bad")));
}

#[test]
fn a_server_that_is_there_twice_is_not_guessed() {
    let machine =
        Machine::new().user("{\"mcpServers\": {\n\"x\": {\"command\": \"a\"},\n\"x\": {\"command\": \"b\"}}}");
    assert_eq!(machine.list(), "user x broken");
    assert_snapshot!(machine.problems(Severity::Note), @"error: user.json:3: mcpServers.x: there is a server `x` already, in line 2; rename or remove one of them");
}

#[test]
fn what_is_dangerous_in_a_project_is_refused_and_elsewhere_told() {
    let preload = r#"{"command": "x", "env": {"LD_PRELOAD": "/tmp/x.so"}}"#;
    assert_snapshot!(said(preload, Scope::Project), @"error: x.env.LD_PRELOAD: LD_PRELOAD decides what code is loaded, whatever the command is; a project may not set it; set it in your own configuration if you need it");
    assert_snapshot!(said(preload, Scope::User), @"warning: x.env.LD_PRELOAD: LD_PRELOAD decides what code is loaded, whatever the command is");
    for name in ["NODE_OPTIONS", "PYTHONSTARTUP", "PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ld_preload"] {
        let entry = format!(r#"{{"command": "x", "env": {{"{name}": "x"}}}}"#);
        assert!(said(&entry, Scope::Project).starts_with("error"), "{name}");
    }
    for command in ["./npx", "bin/x", "../x", "${EMPTY}./x"] {
        let entry = format!(r#"{{"command": "{command}"}}"#);
        assert!(said(&entry, Scope::Project).contains("a project may not start"), "{command}");
        assert!(said(&entry, Scope::User).starts_with("warning"), "{command}");
    }
    let secret = r#"{"command": "x", "env": {"API_TOKEN": "abcdefgh1234"}}"#;
    assert_snapshot!(said(secret, Scope::Project), @"warning: x.env.API_TOKEN: looks like a secret in plain sight; take it from a variable: `${API_TOKEN}`");
    assert_snapshot!(said(r#"{"command": "npx", "args": ["-y", "pkg"]}"#, Scope::User), @"note: x.command: fetches `pkg` in whatever version is the newest; name a version: `pkg@1.2.3`");
}

#[test]
fn a_relative_folder_is_one_of_the_project() {
    let machine = Machine::new().project(&one(r#"{"command": "x", "cwd": "sub"}"#));
    let loaded = machine.load();
    let TransportConfig::Stdio(launch) = &loaded.servers[0].server.reach else { panic!() };
    assert_eq!(launch.cwd, Some(machine.root().join("sub")));
}

#[test]
fn no_message_shows_what_a_variable_holds_or_what_may_be_a_secret() {
    let said = |entry: &str| said(entry, Scope::User);
    let fetched = said(r#"{"command": "npx", "args": ["-y", "${TOKEN}"]}"#);
    assert!(fetched.contains("fetches `${TOKEN}`") && !fetched.contains("s3cr3t"), "{fetched}");
    for entry in [
        r#"{"command": "x", "env": {"P": "pa${ss-w0rd"}}"#,
        r#"{"command": "x", "args": "--token pass-w0rd"}"#,
        r#"{"command": "x", "args": [731731]}"#,
        r#"{"command": "x --token pass-w0rd"}"#,
        r#""x --token pass-w0rd""#,
        r#"{"url": "ftp://a/?key=pass-w0rd"}"#,
    ] {
        let told = said(entry);
        assert!(!told.is_empty() && !told.contains("w0rd") && !told.contains("731731"), "{told}");
    }
}

#[test]
fn a_header_that_is_always_set_here_costs_that_server_only() {
    check(
        r#"{"url": "https://a", "headers": {"content-type": "x", "Accept": "y", "Mcp-Session-Id": "z", "X": "fine"}}"#,
        "error: x.headers.content-type: is a header that is always set here, and cannot be another one; remove it\n\
         error: x.headers.Accept: is a header that is always set here, and cannot be another one; remove it\n\
         error: x.headers.Mcp-Session-Id: is a header that is always set here, and cannot be another one; remove it",
    );
}

#[test]
fn a_path_with_a_drive_is_no_whole_path_here_and_managed_servers_listen_here() {
    assert!(said(r#"{"command": "C:/evil"}"#, Scope::Project).contains("which a project may not start"));
    for host in ["10.0.0.1", "8.8.8.8", "example.com"] {
        let told = said(&format!(r#"{{"command": "x", "manage": {{"host": "{host}"}}}}"#), Scope::User);
        assert!(told.contains("is no address of this machine"), "{told}");
    }
    for host in ["127.0.0.2", "::1", "0.0.0.0", "localhost"] {
        check(&format!(r#"{{"command": "x", "manage": {{"host": "{host}"}}}}"#), "");
    }
}

#[test]
fn a_long_word_is_neither_compared_nor_repeated() {
    let told = said(&format!(r#"{{"command": "x", "{}": 1}}"#, "k".repeat(5000)), Scope::User);
    assert!(told.contains(&format!("`{}…` is no key", "k".repeat(64))), "{told}");
}
