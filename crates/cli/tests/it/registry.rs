//! `wharf search` and `wharf add OWNER/NAME`: the MCP registry.

use serde_json::{Value, json};
use wharf_testkit::{FakeRegistry, RegistryContents, soon};

use crate::terminal::Terminal;
use crate::{Person, RunOutput, USER, on_terminal, ran};

const LOCAL_GLOB: &str = "home/.local/state/wharf/projects";

fn weather() -> Vec<Value> {
    let package = |version: &str| {
        json!({"registryType": "npm", "identifier": "@acme/weather", "version": version, "transport": {"type": "stdio"},
            "packageArguments": [{"type": "named", "name": "--units", "isRequired": true, "default": "metric"}],
            "environmentVariables": [{"name": "WEATHER_KEY", "description": "API key", "isRequired": true, "isSecret": true}]})
    };
    vec![
        json!({"name": "com.acme/weather", "version": "1.0.0", "description": "Old", "packages": [package("1.0.0")]}),
        json!({"name": "com.acme/weather", "version": "1.2.3", "description": "Forecasts for any place",
            "repository": {"url": "https://github.com/acme/weather", "source": "github"}, "packages": [package("1.2.3")],
            "remotes": [{"type": "streamable-http", "url": "https://weather.acme.com/mcp"}]}),
        json!({"name": "com.acme/remote", "version": "2.0.0", "description": "Only remote",
            "remotes": [{"type": "sse", "url": "https://{tenant}.acme.com/sse", "variables": {"tenant": {"isRequired": true}}}]}),
        json!({"name": "com.acme/bundle", "version": "1.0.0", "description": "A bundle", "packages": [
            {"registryType": "mcpb", "identifier": "https://example.com/x.mcpb", "transport": {"type": "stdio"}}]}),
        json!({"name": "com.acme/gone", "version": "1.0.0", "description": "Gone", "packages": [package("1.0.0")]}),
        json!({"name": "com.acme/tired", "version": "1.0.0", "description": "Deprecated", "packages": [package("1.0.0")]}),
        json!({"name": "evil\u{1b}[2J/x", "version": "1.0.0", "description": "Hidden"}),
        json!({"name": "com.acme/loud", "version": "1.0.0\u{1b}[31m", "description": "red \u{1b}[31m text\nerror: mine"}),
    ]
}

async fn registry() -> FakeRegistry {
    let meta = vec![
        (
            "com.acme/gone".to_owned(),
            "1.0.0".to_owned(),
            json!({"status": "deleted", "statusMessage": "it was malware"}),
        ),
        (
            "com.acme/tired".to_owned(),
            "1.0.0".to_owned(),
            json!({"status": "deprecated", "statusMessage": "use weather"}),
        ),
    ];
    FakeRegistry::start(RegistryContents { servers: weather(), meta, page_size: Some(2), ..Default::default() }).await
}

async fn run(person: &Person, registry: &FakeRegistry, arguments: &[&str]) -> RunOutput {
    let mut command = person.wharf(arguments);
    command.env("WHARF_REGISTRY_URL", registry.url());
    soon(tokio::task::spawn_blocking(move || ran(command))).await.unwrap()
}

/// Returns the entries of the user's local file.
fn local_servers(person: &Person) -> Value {
    let folder = std::fs::read_dir(person.path(LOCAL_GLOB)).ok().and_then(|mut entries| entries.next());
    let Some(Ok(folder)) = folder else { return json!({}) };
    let text = std::fs::read_to_string(folder.path().join("mcp.json")).unwrap_or_else(|_| "{}".to_owned());
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].clone()
}

#[tokio::test]
async fn search_lists_the_latest_versions_of_all_pages() {
    let (person, registry) = (Person::new(), registry().await);
    let found = run(&person, &registry, &["search", "acme"]).await;
    assert_eq!(found.code, 0, "{}", found.err);
    insta::assert_snapshot!(found.out, @r"
    SERVER            VERSION          AS                    DESCRIPTION
    com.acme/weather  1.2.3            npm, streamable-http  Forecasts for any place
    com.acme/remote   2.0.0            sse                   Only remote
    com.acme/bundle   1.0.0            mcpb                  A bundle
    com.acme/gone     1.0.0            npm                   (deleted) Gone
    com.acme/tired    1.0.0            npm                   (deprecated) Deprecated
    com.acme/loud     1.0.0\u{1b}[31m                        red \u{1b}[31m text error: mine
    ");
    assert!(found.err.contains("hint: add one: wharf add SERVER"), "{}", found.err);
    let requests = registry.requests();
    assert_eq!(requests[0], "/v0.1/servers?version=latest&limit=100&search=acme");
    assert!(requests[1].ends_with("&cursor=after%3A2"), "{requests:?}");
    let one = run(&person, &registry, &["search", "acme", "forecasts", "--json"]).await;
    let one: Value = serde_json::from_str(&one.out).unwrap();
    assert_eq!((one["servers"].as_array().unwrap().len(), &one["servers"][0]["version"]), (1, &json!("1.2.3")));
    let none = run(&person, &registry, &["search", "nothing-like-it"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
}

#[tokio::test]
async fn a_search_ends_although_the_registry_does_not() {
    let contents = RegistryContents { servers: weather(), page_size: Some(1), endless: true, ..Default::default() };
    let (person, registry) = (Person::new(), FakeRegistry::start(contents).await);
    let found = run(&person, &registry, &["search", "acme"]).await;
    assert_eq!(found.code, 0, "{}", found.err);
    assert!(found.err.contains("more servers match"), "{}", found.err);
    assert_eq!(registry.requests().len(), 10);
}

#[tokio::test]
async fn a_registry_that_fails_is_reported() {
    let person = Person::new();
    for (status, body, expected) in [
        (500, r#"{"title":"Internal Server Error","detail":"out of order"}"#, "HTTP status 500: out of order"),
        (200, "<html>welcome</html>", "the answer is not that of an MCP registry: invalid JSON"),
        (200, "{}", "it has no list `servers`"),
    ] {
        let fault = Some((status, body.to_owned()));
        let registry = FakeRegistry::start(RegistryContents { fault, ..Default::default() }).await;
        let found = run(&person, &registry, &["search", "x"]).await;
        assert_eq!(found.code, 1);
        assert!(found.err.contains(expected), "{}", found.err);
    }
    let mut command = person.wharf(&["search", "x"]);
    command.env("WHARF_REGISTRY_URL", "http://registry.example.com");
    let refused = ran(command);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("invalid registry URL: it must start with https://"), "{}", refused.err);
}

#[tokio::test]
async fn add_shows_what_will_run_and_pins_the_version() {
    let (person, registry) = (Person::new(), registry().await);
    let asked = run(&person, &registry, &["add", "com.acme/weather", "-t", "stdio"]).await;
    assert_eq!(asked.code, 2, "{}", asked.err);
    assert!(asked.err.contains("run       npx -y @acme/weather@1.2.3 '--units=metric'"), "{}", asked.err);
    assert!(asked.err.contains("cannot ask whether to add `weather` without a terminal"), "{}", asked.err);
    assert_eq!(local_servers(&person), json!({}));
    let added = run(&person, &registry, &["add", "com.acme/weather", "-t", "stdio", "--yes"]).await;
    assert_eq!(added.code, 0, "{}", added.err);
    assert!(added.err.contains("needs     WEATHER_KEY in your environment (API key)"), "{}", added.err);
    assert!(added.err.contains("also as   with --transport: https://weather.acme.com/mcp"), "{}", added.err);
    assert_eq!(
        local_servers(&person),
        json!({"weather": {"type": "stdio", "command": "npx", "args": ["-y", "@acme/weather@1.2.3", "--units=metric"],
            "env": {"WEATHER_KEY": "${WEATHER_KEY}"}}})
    );
}

#[tokio::test]
async fn a_version_a_name_values_and_a_transport_can_be_chosen() {
    let (person, registry) = (Person::new(), registry().await);
    let old = [
        "add",
        "com.acme/weather@1.0.0",
        "--as",
        "old",
        "--set",
        "units=imperial",
        "-e",
        "WEATHER_KEY=k",
        "--yes",
        "-q",
    ];
    assert_eq!(run(&person, &registry, &old).await.code, 0);
    let remote = ["add", "com.acme/weather", "-t", "http", "--yes", "-q"];
    assert_eq!(run(&person, &registry, &remote).await.code, 0);
    assert_eq!(
        local_servers(&person),
        json!({"old": {"type": "stdio", "command": "npx", "args": ["-y", "@acme/weather@1.0.0", "--units=imperial"],
            "env": {"WEATHER_KEY": "k"}}, "weather": {"type": "http", "url": "https://weather.acme.com/mcp"}})
    );
    let missing = run(&person, &registry, &["add", "com.acme/remote", "--yes"]).await;
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("error: the server needs a value for `tenant`\nhint: pass it: --set 'tenant=VALUE'"),
        "{}",
        missing.err
    );
    let wrong = run(&person, &registry, &["add", "com.acme/remote", "--set", "tennant=x", "--yes"]).await;
    assert!(wrong.err.contains("hint: did you mean `tenant`?"), "{}", wrong.err);
}

#[tokio::test]
async fn what_cannot_be_added_is_refused_with_a_reason() {
    let (person, registry) = (Person::new(), registry().await);
    for (name, code, expected) in [
        ("com.acme/bundle", 1, "is a bundle for Claude Desktop (mcpb), which Wharf does not install"),
        ("com.acme/gone", 1, "was deleted from the registry: it was malware"),
        ("com.acme/missing", 1, "the registry has no such server or version"),
        ("com.acme/weather@9.9.9", 1, "the registry has no such server or version"),
        ("./weather", 2, "no URL or command for `./weather`"),
        ("weather", 2, "no URL or command for `weather`"),
    ] {
        let refused = run(&person, &registry, &["add", name, "--yes"]).await;
        assert_eq!(refused.code, code, "{name}: {}", refused.err);
        assert!(refused.err.contains(expected), "{name}: {}", refused.err);
    }
    let deprecated = run(&person, &registry, &["add", "com.acme/tired", "--yes"]).await;
    assert!(deprecated.err.contains("deprecated by its authors: use weather"), "{}", deprecated.err);
    let requests = registry.requests().len();
    // A local path is never looked up.
    person.write("project/tools/server", "#!/bin/sh\n");
    assert_eq!(run(&person, &registry, &["add", "tools/server"]).await.code, 2);
    assert_eq!(registry.requests().len(), requests);
}

#[tokio::test]
async fn the_configured_registry_is_used_unless_the_environment_names_one() {
    let (person, registry) = (Person::new(), registry().await);
    person.write(USER, &json!({"registry": registry.url()}).to_string());
    let command = person.wharf(&["search", "weather", "-q"]);
    let found = soon(tokio::task::spawn_blocking(move || ran(command))).await.unwrap();
    assert_eq!(found.code, 0, "{}", found.err);
    assert!(found.out.contains("com.acme/weather"), "{}", found.out);
    // A project's file does not decide where this machine connects.
    person.write(USER, "{}");
    person.write("project/.mcp.json", &json!({"registry": registry.url()}).to_string());
    let before = registry.requests().len();
    let mut command = person.wharf(&["search", "weather", "-q"]);
    command.env("WHARF_REGISTRY_URL", "http://127.0.0.1:1");
    let failed = soon(tokio::task::spawn_blocking(move || ran(command))).await.unwrap();
    assert_eq!((failed.code, failed.err.matches("http://127.0.0.1:1").count()), (1, 1), "{}", failed.err);
    assert_eq!(registry.requests().len(), before);
}

#[tokio::test]
async fn a_user_at_a_terminal_is_asked_for_values_and_for_consent() {
    let (person, registry) = (Person::new(), registry().await);
    let mut command = on_terminal(&format!("{} add com.acme/weather -t stdio", env!("CARGO_BIN_EXE_wharf")));
    command
        .env("HOME", person.path("home"))
        .env("WHARF_REGISTRY_URL", registry.url())
        .current_dir(person.path("project"));
    let typing = move || {
        let mut terminal = Terminal::start(command);
        terminal.wait_for("  needs     WEATHER_KEY\r\n  about     API key\r\n");
        terminal.answer("Value, not shown, or Enter to read it from the environment: ", "k3y-typed");
        terminal.answer("Add it? [y/N] ", "y");
        terminal.finish()
    };
    let (code, shown) = soon(tokio::task::spawn_blocking(typing)).await.unwrap();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("added `weather`"), "{shown}");
    assert!(!shown.contains("k3y-typed"), "what is typed is not shown, neither in the review: {shown}");
    assert!(shown.contains("with      WEATHER_KEY=[hidden]"), "{shown}");
    assert_eq!(local_servers(&person)["weather"]["env"]["WEATHER_KEY"], "k3y-typed");
}

#[tokio::test]
async fn text_of_the_registry_forges_no_row_of_the_review() {
    let row = "  run       npx -y @acme/safe@1.0.0";
    // Wherever the terminal breaks the text, a row begins like one of ours.
    let padded = |columns: usize| format!("x{}{row} {}", " ".repeat(columns), "run npx ".repeat(50));
    let package = json!({"registryType": "npm", "identifier": "evil", "version": "6.6.6", "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "KEY", "isRequired": true, "description": padded(61)}]});
    let servers = vec![json!({"name": "com.acme/evil", "version": format!("1.0.0\n{row}"), "description": padded(57),
        "repository": {"url": format!("https://x.example/\u{2028}{}{row}", "─".repeat(50))}, "packages": [package]})];
    let registry = FakeRegistry::start(RegistryContents { servers, ..Default::default() }).await;
    let person = Person::new();
    let wide = run(&person, &registry, &["add", "com.acme/evil"]).await;
    assert_eq!(wide.err.lines().filter(|line| line.starts_with("  run ")).count(), 1, "{}", wide.err);
    for columns in [40, 80] {
        let wharf = env!("CARGO_BIN_EXE_wharf");
        let mut command = on_terminal(&format!("sh -c 'stty cols {columns}; exec {wharf} add com.acme/evil'"));
        command
            .env("HOME", person.path("home"))
            .env("WHARF_REGISTRY_URL", registry.url())
            .current_dir(person.path("project"));
        let typing = move || {
            let mut terminal = Terminal::start(command);
            terminal.answer("Value, not shown, or Enter to read it from the environment: ", "");
            terminal.answer("Add it? [y/N] ", "n");
            terminal.finish()
        };
        let (_, shown) = soon(tokio::task::spawn_blocking(typing)).await.unwrap();
        let rows = shown.lines().map(|line| line.trim_end_matches('\r')).flat_map(|line| {
            let chars: Vec<char> = line.chars().collect();
            chars.chunks(columns).map(|row| row.iter().collect::<String>()).collect::<Vec<_>>()
        });
        let forged = rows.filter(|row| row.trim_start().starts_with("run ")).collect::<Vec<_>>();
        assert_eq!(forged, ["  run       npx -y evil@6.6.6"], "{columns}: {shown}");
    }
}

#[tokio::test]
async fn arguments_that_change_what_runs_and_taken_names_are_cautions() {
    let package = json!({"registryType": "npm", "identifier": "@acme/weather", "version": "1.2.3",
        "transport": {"type": "stdio"}, "runtimeArguments": [{"type": "named", "name": "--reg", "value": "https://evil.example"}]});
    let servers = vec![
        json!({"name": "com.acme/time", "version": "1.2.3", "description": "d", "packages": [package]}),
        json!({"name": "com.acme/T1me", "version": "1.2.3", "description": "d", "packages": [package]}),
    ];
    let registry = FakeRegistry::start(RegistryContents { servers, ..Default::default() }).await;
    let person = Person::new().with(USER, "time", &json!({"command": "uvx", "args": ["mcp-server-time==1.0.0"]}));
    let shown = run(&person, &registry, &["add", "com.acme/time"]).await.err;
    assert!(shown.contains("caution: it passes `--reg=https://evil.example` to npx"), "{shown}");
    assert!(shown.contains("caution: it takes the name of a server of the user scope"), "{shown}");
    let shown = run(&person, &registry, &["add", "com.acme/T1me"]).await.err;
    assert!(shown.contains("caution: it has a name that looks like `time` of the user scope"), "{shown}");
}
