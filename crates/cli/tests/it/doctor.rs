//! `wharf doctor`: output and exit code of every class of problem.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::fixtures::Sandbox;
use crate::remote::{refuse, remote};
use crate::terminal::on_terminal;

/// Returns the exit code and one line for each finding: verdict, class and check.
fn findings(sandbox: &Sandbox, arguments: &[&str]) -> (i32, Vec<String>) {
    let ran = sandbox.run(&[&["doctor", "--json"], arguments].concat());
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    assert_eq!((&report["version"], report["exit"].as_i64()), (&json!(1), Some(i64::from(ran.code))));
    assert_eq!(report["ok"], ran.code == 0);
    let line = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap_or("–").to_owned();
        format!("{} {}/{}", text("verdict"), text("class"), text("check"))
    };
    (ran.code, report["findings"].as_array().unwrap().iter().map(line).collect())
}

/// Formats a run for snapshots: exit code, stdout, stderr.
fn screen(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let ran = sandbox.run(&[&["doctor"], arguments].concat());
    format!("exit {}\n{}{}", ran.code, sandbox.normalized(&ran.out), sandbox.normalized(&ran.err))
}

fn invalid_tools() -> Script {
    Script::good()
        .tool(json!({"name": "essay", "description": "word ".repeat(12_000), "inputSchema": {"type": "object"}}))
        .tool(json!({"name": "rows", "description": "Takes rows", "inputSchema": {"type": "array"}}))
        .tool(json!({"name": "nothing"}))
        .tool(json!({"name": "guess", "description": "Guesses",
            "inputSchema": {"type": "object", "properties": {"x": {"description": "?"}, "y": {"enum": [1]}}}}))
}

#[test]
fn a_working_server_has_no_problems() {
    let described = json!({"descriptions": {"add": "Adds two numbers"}});
    let sandbox = Sandbox::new().server_with("good", &Script::good(), "tools", described);
    insta::assert_snapshot!(screen(&sandbox, &[]), @"
    exit 0
    good (stdio)
      ✓ start and scope  user scope, ~/root/mcp.json:3
      ✓ start and scope  `server` exists
      ✓ connection       scripted 1.0, protocol 2025-11-25 (legacy), ready in N ms
      ✓ tool discovery   2 tools
      ✓ tool execution   3 pings answered, N ms each

    1 server: 5 ok, 0 suggestions, 0 problems
    ");
}

#[test]
fn a_missing_command_is_reported_with_how_to_install_it() {
    let sandbox = Sandbox::new()
        .entry("ghost", json!({"command": "uvx", "args": ["mcp-server-time"]}))
        .entry("script", json!({"command": "/etc/passwd"}));
    insta::assert_snapshot!(screen(&sandbox, &[]), @"
    exit 4
    ghost (stdio)
      ✓ start and scope  user scope, ~/root/mcp.json:3
      ✗ start and scope  command `uvx` not found
                         fix: install uv, which includes `uvx`: https://docs.astral.sh/uv

    script (stdio)
      ✓ start and scope  user scope, ~/root/mcp.json:9
      ✗ start and scope  `/etc/passwd` is not executable
                         fix: is it a program? A script needs a `#!` line and `chmod +x`

    2 servers: 3 ok, 0 suggestions, 2 problems
    ");
}

#[test]
fn the_cause_on_stderr_is_whole_and_marked_in_every_row_of_a_narrow_terminal() {
    let cause = format!("error: {} THE-END", "no port is free ".repeat(8));
    let exits = Script::good().at_start([Step::Stderr(cause), Step::Exit(3)]);
    let sandbox = Sandbox::new().server("exits", &exits);
    sandbox.command(&[]);
    let mut command = on_terminal(&format!("stty cols 60 rows 50; {} doctor", env!("CARGO_BIN_EXE_wharf")));
    command.env("WHARF_CONFIG_ROOT", sandbox.path("root")).current_dir(sandbox.path("project"));
    let out = crate::run_output(&command.output().unwrap()).out.replace('\r', "");
    let rows: Vec<&str> = out.lines().skip_while(|row| !row.contains("error: no port")).collect();
    let end = rows.iter().position(|row| row.ends_with("THE-END")).unwrap_or_else(|| panic!("{out}"));
    assert!(end > 2 && rows[..=end].iter().all(|row| row.trim_start().starts_with("stderr │ ")), "{out}");
}

#[test]
fn an_exited_or_silent_server_is_reported_with_its_stderr() {
    let exits = Script::good().at_start([Step::Stderr("API_KEY is not set".into()), Step::Exit(3)]);
    let sandbox = Sandbox::new().server("exits", &exits).server("silent", &Script::good().at_start([Step::Hang]));
    insta::assert_snapshot!(screen(&sandbox, &["--connect-timeout", "0.5"]), @"
    exit 4
    exits (stdio)
      ✓ start and scope  user scope, ~/root/mcp.json:3
      ✓ start and scope  `server` exists
      ✗ start and scope  the server exited with status 3 before it was ready
                         stderr │ API_KEY is not set

    silent (stdio)
      ✓ start and scope  user scope, ~/root/mcp.json:9
      ✓ start and scope  `server` exists
      ✗ connection       the server was not ready within N ms
                         fix: a first start may download packages; start it once by hand, or raise the limit with --connect-timeout SECONDS

    2 servers: 4 ok, 0 suggestions, 2 problems
    ");
}

#[test]
fn invalid_lines_on_stdout_are_ignored_and_reported() {
    let noisy = Script::good().at_start([Step::Line("Welcome!".into()), Step::Stderr("listening".into())]);
    let sandbox = Sandbox::new().server("noisy", &noisy);
    insta::assert_snapshot!(screen(&sandbox, &["-v"]), @r#"
    exit 0
    noisy (stdio)
      ✓ start and scope  user scope, ~/root/mcp.json:3
      ✓ start and scope  `server` exists
      ✓ connection       scripted 1.0, protocol 2025-11-25 (legacy), ready in N ms
      ! connection       ignored 1 line on stdout, where only messages belong
                         stdout │ Welcome!
                         fix: make the server log to stderr
      ✓ connection       last lines on stderr
                         stderr │ listening
      ✓ tool discovery   2 tools
      ! tool discovery   no description: add
                         fix: describe each tool in the server, or in its entry with "tools": {"descriptions": {…}}
      ✓ tool execution   3 pings answered, N ms each

    1 server: 6 ok, 2 suggestions, 0 problems
    "#);
}

#[test]
fn unusable_tools_are_problems_and_poor_ones_get_suggestions() {
    let sandbox = Sandbox::new().server("odd", &invalid_tools());
    insta::assert_snapshot!(screen(&sandbox, &["-q"]), @r#"
    exit 1
    odd (stdio)
      ✗ tool discovery   tool `nothing` left out: has no `inputSchema`
                         fix: this is a bug in the server; report it to its authors. Its other tools work
      ✗ tool discovery   tool `rows` left out: invalid schema: its type is "array", but arguments are an object
                         fix: this is a bug in the server; report it to its authors. Its other tools work
      ! tool discovery   no description: add
                         fix: describe each tool in the server, or in its entry with "tools": {"descriptions": {…}}
      ! tool discovery   arguments without a type: guess.x
                         fix: give each a `type` in the server's schema, so that models need not guess
      ! tool discovery   descriptions cut because they are too long: essay (60000 characters)
                         fix: put the important part first; see what descriptions cost with `wharf context`

    1 server: 5 ok, 3 suggestions, 2 problems
    "#);
}

#[test]
fn a_filter_that_matches_no_tool_is_reported() {
    let sandbox = Sandbox::new().server_with("s", &Script::good(), "tools", json!({"allow": ["ecko"]}));
    let out = screen(&sandbox, &[]);
    assert!(out.contains("none of its 2 tools is offered") && out.contains("did you mean `echo`?"), "{out}");
}

#[test]
fn invalid_entries_and_unset_variables_are_reported_with_their_lines() {
    let sandbox = Sandbox::new()
        .entry("broken", json!({"command": "a", "url": "http://b"}))
        .entry("unset", json!({"command": "a", "env": {"TOKEN": "${NOT_SET_HERE}"}}));
    insta::assert_snapshot!(screen(&sandbox, &[]), @r"
    exit 2
    broken
      ✗ start and scope  ~/root/mcp.json:5: mcpServers.broken.url: `url` and `command` are mutually exclusive
                         fix: keep one of them

    unset
      ✗ start and scope  ~/root/mcp.json:10: mcpServers.unset.env.TOKEN: variable `NOT_SET_HERE` is not set
                         fix: set it, or add a default: `${NOT_SET_HERE:-default}`

    2 servers: 0 ok, 0 suggestions, 2 problems
    ");
    assert_eq!(findings(&sandbox, &["unset"]).1, ["problem start and scope/configuration"]);
}

#[test]
fn an_unapproved_project_server_is_reported_and_not_started() {
    let sandbox = Sandbox::new().project_server("ours", &Script::good().at_start([Step::Touch("$/started".into())]));
    insta::assert_snapshot!(screen(&sandbox, &[]), @"
    exit 2
    ours (stdio)
      ✗ start and scope  it belongs to this project and needs your approval; not started
                         fix: review and approve it: wharf approve ours

    1 server: 0 ok, 0 suggestions, 1 problem
    ");
    assert_eq!(findings(&sandbox, &["ours"]), (2, vec!["problem start and scope/approval".to_owned()]));
    assert!(!sandbox.path("started").exists());
}

#[test]
fn a_disabled_server_is_not_a_problem_and_not_started() {
    let script = Script::good().at_start([Step::Touch("$/started".into())]);
    let sandbox = Sandbox::new().server_with("off", &script, "disabled", json!(true));
    assert_eq!(findings(&sandbox, &[]), (0, vec!["ok start and scope/scope".to_owned()]));
    assert!(screen(&sandbox, &["off"]).contains("fix: wharf enable off"));
    assert!(!sandbox.path("started").exists());
}

#[test]
fn a_server_that_requires_a_login_exits_with_3() {
    let remote = remote(Script::good().on("initialize", [refuse(401, &[("www-authenticate", "Bearer")], "")]));
    let sandbox = Sandbox::new().entry("private", json!({"url": remote.url()}));
    let (code, found) = findings(&sandbox, &[]);
    assert_eq!((code, found.last().unwrap().as_str()), (3, "problem connection/login"), "{found:?}");
}

#[test]
fn connection_problems_name_the_failed_step() {
    let remote = remote(Script::good().on("initialize", [refuse(404, &[], "nothing here")]));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cases = [
        (format!("http://127.0.0.1:{port}/mcp"), "problem connection/port"),
        ("http://no-such-host.invalid/mcp".to_owned(), "problem connection/name"),
        (remote.url(), "problem connection/http"),
    ];
    for (url, expected) in cases {
        let sandbox = Sandbox::new().entry("s", json!({"url": url}));
        let (code, found) = findings(&sandbox, &[]);
        assert_eq!((code, found.last().unwrap().as_str()), (4, expected), "{found:?}");
    }
}

#[test]
fn a_working_http_server_passes_all_checks() {
    let remote = remote(Script::good());
    let sandbox = Sandbox::new().entry("web", json!({"url": remote.url()}));
    let (code, found) = findings(&sandbox, &["web", "--call", "add", "a=1", "b=2"]);
    assert_eq!((code, found.last().unwrap().as_str()), (0, "ok tool execution/call"), "{found:?}");
}

#[test]
fn the_tool_list_is_subject_to_the_timeout() {
    let sandbox = Sandbox::new().server("s", &Script::good().on("tools/list", [Step::Hang]));
    let (code, found) = findings(&sandbox, &["--timeout", "0.5"]);
    assert_eq!((code, found.last().unwrap().as_str()), (1, "problem tool discovery/list"), "{found:?}");
    let refused = Sandbox::new().server("s", &Script::good().on("tools/list", [Step::Error(-32601, "no".into())]));
    assert_eq!(findings(&refused, &[]).1.last().unwrap(), "problem tool discovery/list");
}

#[test]
fn schemas_that_take_long_to_compile_are_subject_to_the_timeout() {
    let pattern =
        |tool: usize, number: usize| json!({"type": "string", "pattern": format!(".{{{}}}{number}", 600 + tool)});
    let tool = |tool: usize| {
        let arguments: serde_json::Map<_, _> =
            (0..60).map(|number| (format!("p{number}"), pattern(tool, number))).collect();
        json!({"name": format!("t{tool}"), "description": "d", "inputSchema": {"type": "object", "properties": arguments}})
    };
    let script = (0..60).fold(Script::good(), |script, number| script.tool(tool(number)));
    let sandbox = Sandbox::new().server("s", &script);
    let shown = screen(&sandbox, &["--timeout", "2"]);
    assert!(shown.contains("schemas not compiled: all schemas together took longer than"), "{shown}");
}

#[test]
fn only_a_named_tool_is_called_and_its_result_is_reported() {
    let script = Script::good()
        .any_tool("fail")
        .on_call("fail", [Step::Result(json!({"content": [{"type": "text", "text": "disk full"}], "isError": true}))])
        .on_call("add", [Step::Touch("$/called".into()), Step::Normally]);
    let sandbox = Sandbox::new().server("s", &script);
    let last = |arguments: &[&str]| {
        let out = screen(&sandbox, arguments);
        let code = out.lines().next().unwrap().to_owned();
        let call: Vec<&str> = out.lines().skip_while(|line| !line.contains("pings")).skip(1).collect();
        format!("{code}\n{}", call[..call.len() - 2].join("\n"))
    };
    assert_eq!(findings(&sandbox, &[]).0, 0);
    assert!(!sandbox.path("called").exists());
    let runs = [
        last(&["s", "--call", "add", "a=40", "b=2"]),
        last(&["s", "--call", "mcp__s__add", "{\"a\": 40, \"b\": \"two\"}"]),
        last(&["s", "--call", "ad"]),
        last(&["s", "--call", "fail"]),
    ];
    assert!(sandbox.path("called").exists());
    insta::assert_snapshot!(runs.join("\n"), @r#"
    exit 0
      ✓ tool execution   `add` answered in N ms: 42
    exit 2
      ✗ tool execution   the arguments of `add` do not match its schema: at `/b`: "two" is not of type "integer"
                         fix: add accepts a: integer, b: integer
    exit 2
      ✗ tool execution   unknown tool `ad`
                         fix: did you mean `add`?
    exit 1
      ✗ tool execution   `fail` reported an error after N ms: disk full
                         fix: fail accepts no arguments; the server's log may say more
    "#);
    assert_eq!(sandbox.run(&["doctor", "--call", "add"]).code, 2);
}

#[test]
fn servers_are_checked_concurrently_and_the_worst_sets_the_exit_code() {
    let silent = Script::good().at_start([Step::Hang]);
    let sandbox = Sandbox::new().server("a", &silent).server("b", &silent).server("c", &silent);
    let began = tokio::time::Instant::now();
    assert_eq!(findings(&sandbox, &["--connect-timeout", "4"]).0, 4);
    assert!(began.elapsed().as_secs() < 11, "one after the other: {:?}", began.elapsed());

    let sandbox = Sandbox::new()
        .server("good", &Script::good())
        .server("odd", &invalid_tools())
        .entry("broken", json!({"command": 7}))
        .entry("gone", json!({"url": "http://127.0.0.1:1/mcp"}));
    let (code, found) = findings(&sandbox, &[]);
    assert_eq!(code, 4, "{found:?}");
    let (code, _) = findings(&sandbox, &["odd"]);
    assert_eq!(code, 1);
}

#[test]
fn an_unpinned_package_is_advice() {
    let off = |package: &str| json!({"command": "npx", "args": ["-y", package], "enabled": false});
    let sandbox = Sandbox::new().entry("latest", off("pkg")).entry("pinned", off("pkg@1.0.0"));
    let ran = sandbox.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    let unpinned: Vec<&Value> = all.filter(|one| one["message"].to_string().contains("latest version")).collect();
    let [finding] = unpinned[..] else { panic!("{}", ran.out) };
    assert_eq!((&finding["server"], &finding["verdict"]), (&json!("latest"), &json!("advice")));
    assert_eq!(finding["fix"], "pin a version: `pkg@1.2.3`");
}

#[test]
fn environment_problems_affect_only_servers_that_depend_on_them() {
    let sandbox =
        Sandbox::new().server("good", &Script::good()).entry("tls", json!({"url": "https://127.0.0.1:1/mcp"}));
    let mut command = crate::wharf(&["doctor", "--config-root", sandbox.path("root").to_str().unwrap()]);
    sandbox.run(&["list"]);
    command.env("SSL_CERT_FILE", "/no/such/file").current_dir(sandbox.path("project"));
    let ran = crate::ran(command);
    assert!(
        ran.out.contains("cannot read SSL_CERT_FILE `/no/such/file`") && ran.out.contains("3 pings answered"),
        "{}",
        ran.out
    );
    assert_eq!(ran.code, 2);
}

#[test]
fn no_servers_and_unknown_servers_are_usage_errors() {
    let none = Sandbox::new().run(&["doctor"]);
    assert!(none.code == 2 && none.err.starts_with("error: no servers configured"), "{}", none.err);
    let unknown = Sandbox::new().server("time", &Script::good()).run(&["doctor", "tme"]);
    assert!(unknown.code == 2 && unknown.err.contains("did you mean `time`?"), "{}", unknown.err);
}

/// The command prints every example in the guide verbatim.
#[test]
fn the_examples_in_the_troubleshooting_guide_are_accurate() {
    let guide = include_str!("../../../../docs/troubleshooting.md");
    let examples: Vec<&str> = guide.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let exits = Script::good().at_start([Step::Stderr("API_KEY is not set".into()), Step::Exit(3)]);
    let sandbox = Sandbox::new()
        .server("notes", &exits)
        .entry("time", json!({"command": "uvx", "args": ["mcp-server-time"]}))
        .entry("docs", json!({"url": "http://127.0.0.1:1/mcp"}))
        .server("files", &invalid_tools())
        .server("sums", &Script::good());
    let out = [
        sandbox.run(&["doctor", "-q"]).out,
        sandbox.run(&["doctor", "sums", "-q", "--call", "add", "a=1", "b=two"]).out,
    ];
    let out = sandbox.normalized(&out.join("\n"));
    assert_eq!(examples.len(), 5);
    for example in examples {
        assert!(out.contains(example), "not printed:\n{example}\nin:\n{out}");
    }
}
