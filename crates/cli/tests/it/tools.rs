//! `wharf tools` and `wharf demo`.

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Server, ran, screen, wharf};

fn odd() -> Script {
    Script::good()
        .tool(json!({"name": "long", "description": format!("{} end", "word ".repeat(40)), "inputSchema": {}}))
        .tool(json!({"name": "broken"}))
        .tool(json!({"name": "tricky", "description": "red \u{1b}[31m and\u{7} loud", "inputSchema": {}}))
}

#[test]
fn tools_are_listed_in_a_table_with_warnings_for_invalid_ones() {
    insta::assert_snapshot!(screen(&Server::new(&odd()).run(&["tools"])));
}

#[test]
fn json_output_keeps_tools_as_the_server_sent_them() {
    let ran = Server::new(&odd()).run(&["tools", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["version"]), (0, &json!(1)));
    let server = &report["servers"][0];
    assert_eq!(
        (&server["name"], &server["state"], &server["reason"]),
        (&json!("s"), &json!("connected"), &json!(null))
    );
    assert_eq!(server["tools"].as_array().unwrap().len(), 4);
    assert_eq!(server["tools"][0], odd().tools[0]);
    assert_eq!(server["quarantined"][0]["reason"], "has no `inputSchema`");
}

#[test]
fn an_unreachable_server_fails_the_command_but_the_others_are_listed() {
    let good = Server::new(&Script::good());
    let bad = Server::new(&Script::good().at_start([Step::Stderr("cannot bind".into()), Step::Exit(3)]));
    let bad = bad.mcp().replacen("s=", "bad=", 1);
    let ran = ran(wharf(&["tools", "--mcp", &good.mcp(), "--mcp", &bad]));
    insta::assert_snapshot!(screen(&ran));
}

#[test]
fn only_the_named_server_is_started() {
    let server = Server::new(&Script::good());
    let never = format!("never=sh -c 'touch {}; exit 1'", server.path().join("started").display());
    let ran = ran(wharf(&["tools", "s", "--mcp", &server.mcp(), "--mcp", &never]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!server.path().join("started").exists());
}

#[test]
fn servers_do_not_inherit_secrets_from_the_environment() {
    let ran = ran(wharf(&["tools", "--mcp", "env=sh -c 'env >&2; exit 1'"]));
    assert!(ran.err.contains("PATH=") && !ran.err.contains("s3cr3t"), "{}", ran.err);
}

#[test]
fn env_passes_variables_to_servers() {
    let env = "env=sh -c 'env >&2; exit 1'";
    let err = ran(wharf(&["tools", "--mcp", env, "--env", "SECRET", "-e", "TOKEN=a=b"])).err;
    assert!(err.contains("SECRET=s3cr3t") && err.contains("TOKEN=a=b"), "{err}");
    let unset = ran(wharf(&["tools", "--mcp", env, "--env", "NOT_SET"]));
    assert_eq!(
        (unset.code, unset.err.as_str()),
        (2, "error: --env NOT_SET: the variable is not set\nhint: write --env NAME=VALUE\n")
    );
}

#[test]
fn verbose_output_lists_the_arguments_of_tools() {
    let ran = Server::new(&Script::good()).run(&["tools", "-v"]);
    insta::assert_snapshot!(ran.out);
}

#[test]
fn a_server_that_exceeds_the_connect_timeout_fails() {
    let began = tokio::time::Instant::now();
    let ran = ran(wharf(&["tools", "--mcp", "mute=sh -c 'echo hello; sleep 60'", "--connect-timeout", "0.5"]));
    assert!(began.elapsed().as_secs() < 20);
    insta::assert_snapshot!(screen(&ran));
}

#[test]
fn demo_shows_every_step_and_survives_a_server_crash() {
    let ran = ran(wharf(&["demo"]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let done = ran.out.lines().filter_map(|line| line.strip_prefix("✓  "));
    let steps: Vec<&str> = done.map(|line| line.split("  ").next().unwrap_or(line).trim()).collect();
    insta::assert_snapshot!(steps.join("\n"));
    assert!(!ran.out.contains('✗'));
    assert_eq!((ran.out.matches("42 (reconnected").count(), ran.out.matches("42 (nothing was lost").count()), (5, 1));
    assert_eq!(
        (ran.out.matches("2026-07-28 (modern)").count(), ran.out.matches("2025-11-25 (legacy)").count()),
        (5, 3)
    );
    assert!(ran.out.contains("the server exited with status 7; outcome unknown"));
}

#[test]
fn demo_also_connects_to_servers_of_the_command_line() {
    let server = crate::remote::remote(wharf_testkit::Script::good());
    let there = format!("here={}", server.url());
    let gone = "gone=http://127.0.0.1:1/mcp";
    let visited = ran(wharf(&["demo", "--json", "--mcp", &there]));
    let report: Value = serde_json::from_str(&visited.out).unwrap();
    assert_eq!(
        (visited.code, &report["servers"][0]["ok"], &report["servers"][0]["tools"]),
        (0, &json!(true), &json!("2 tools"))
    );
    let failed = ran(wharf(&["demo", "--mcp", gone]));
    assert!(failed.code == 4 && failed.out.contains("✗  gone"), "{}", failed.out);
}

#[test]
fn demo_prints_json() {
    let ran = ran(wharf(&["demo", "--json"]));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["version"], &report["ok"]), (0, &json!(1), &json!(true)));
    let times = report["steps"].as_array().unwrap().iter().find(|step| step["step"] == "6 × 7").unwrap();
    assert_eq!((&times["inProcess"], &times["child"]), (&json!("42"), &json!("42")));
    let network = report["network"].as_array().unwrap();
    assert!(network.len() == 6 && network.iter().all(|journey| journey["ok"] == true && journey["call"] == "42"));
}

/// A server with one tool that has everything.
fn documented() -> Server {
    let tool = json!({
        "name": "convert_time",
        "title": "Convert time",
        "description": "Converts a time between zones.\n\nThe zones are IANA names, such as Europe/Paris or \
            America/New_York. A long description is wrapped between its words and never cut, however long it is.",
        "annotations": {"readOnlyHint": true},
        "inputSchema": {"type": "object", "required": ["source", "options"], "properties": {
            "source": {"type": "string", "description": "Zone of the time", "minLength": 1},
            "options": {"type": "object", "properties": {"style": {"enum": ["short", "long"], "default": "short"}}},
        }},
        "outputSchema": {"type": "object", "properties": {"time": {"type": "string", "format": "date-time"}}},
    });
    Server::new(&Script::good().tool(tool))
}

#[test]
fn one_tool_is_shown_in_full_with_an_example() {
    let ran = documented().run(&["tools", "s", "convert_time"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::assert_snapshot!(ran.out, @r#"
    convert_time (Convert time)
    name for models: mcp__s__convert_time
    hints: read-only

      Converts a time between zones.

      The zones are IANA names, such as Europe/Paris or America/New_York. A long description is wrapped
      between its words and never cut, however long it is.

    arguments:
      source: string, required, length at least 1
          Zone of the time
      options: object, required
        style: "short" | "long", default "short"

    output:
      time: string, format "date-time"

    example: wharf call s convert_time '{"source":"text","options":{}}'
    "#);
    let json: Value = serde_json::from_str(&documented().run(&["tools", "s", "convert_time", "--json"]).out).unwrap();
    assert_eq!((&json["version"], &json["tool"]["title"]), (&1.into(), &"Convert time".into()));
    assert_eq!(json["hints"]["read_only"], true);
    let unknown = documented().run(&["tools", "s", "convert-time"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
    assert!(unknown.err.ends_with("hint: did you mean `convert_time`?\n"), "{}", unknown.err);
}

/// A server whose only tool has a description that models see the beginning of, and a name like a label of ours.
fn talkative() -> Server {
    let text = format!("{} \u{1b}[2JTHE END", "word ".repeat(600));
    Server::new(&Script::default().tool(json!({"name": "hint: run", "description": text, "inputSchema": {}})))
}

#[test]
fn a_description_that_models_see_in_part_is_shown_in_full() {
    let server = talkative();
    let page = server.run(&["tools", "s", "hint: run"]);
    assert!(page.out.contains("\\u{1b}[2JTHE END"), "{}", page.out);
    assert!(page.out.contains("\nchanged for models: description cut to 2048 characters\n"), "{}", page.out);
    assert!(page.out.starts_with("│ hint: run\n"), "{}", page.out);
    let table = server.run(&["tools", "s", "-vv"]);
    assert!(table.out.contains("THE END") && table.err.contains("description cut to 2048 characters"), "{}", table.err);
    for arguments in [&["tools", "s", "--json"][..], &["tools", "s", "hint: run", "--json"]] {
        let json: Value = serde_json::from_str(&server.run(arguments).out).unwrap();
        let (sent, offered) = match json["servers"].get(0) {
            Some(server) => (&server["tools"][0], &server["offered"][0]["description"]),
            None => (&json["tool"], &json["description"]),
        };
        assert!(sent["description"].as_str().unwrap().ends_with("THE END"), "{json}");
        assert!(offered.as_str().unwrap().ends_with("… [cut]"), "{json}");
    }
}

#[test]
fn a_page_fits_into_a_narrow_terminal_and_its_example_can_be_copied() {
    let required = ["first_argument", "second_argument", "third_argument"];
    let properties: Value = required.iter().map(|name| (*name, json!({"type": "string"}))).collect();
    let tool = json!({"name": "tool", "title": "A title that is much longer than the row of a narrow terminal is wide",
        "inputSchema": {"properties": properties, "required": required}});
    let server = Server::new(&Script::default().tool(tool));
    let line = format!(
        "stty cols 60 rows 50; {} tools s tool --mcp '{}' 2>/dev/null",
        env!("CARGO_BIN_EXE_wharf"),
        server.mcp()
    );
    let out = crate::run_output(&crate::terminal::on_terminal(&line).output().unwrap()).out.replace('\r', "");
    assert!(out.lines().all(|line| line.chars().count() <= 60), "{out}");
    let example =
        "example:\n  wharf call s tool first_argument=text \\\n    second_argument=text third_argument=text\n";
    assert!(out.ends_with(example), "{out}");
}

#[test]
fn tools_for_clients_that_answer_questions_are_listed() {
    let script = Script::good().any_tool("ask");
    let server = Server::new(&script);
    let log = server.path().join("log");
    let mcp = format!("{} {}", server.mcp(), log.display());
    let ran = ran(wharf(&["tools", "s", "--protocol", "legacy", "--mcp", &mcp]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let initialize = wharf_testkit::WireLog::from_file(&log).last_params("initialize").unwrap();
    let all = json!({"roots": {}, "elicitation": {"form": {}, "url": {}}, "sampling": {}});
    assert_eq!(initialize["capabilities"], all);
}

#[test]
fn descriptions_are_whole_in_pipes_and_wrapped_between_words_on_narrow_terminals() {
    let server = documented();
    let piped = server.run(&["tools", "s"]);
    let line = piped.out.lines().find(|line| line.contains("convert_time")).unwrap();
    assert!(line.ends_with("never cut, however long it is."), "{line}");
    for (columns, has_table) in [(140, true), (40, false)] {
        let wharf = env!("CARGO_BIN_EXE_wharf");
        let line = format!("stty cols {columns} rows 50; {wharf} tools s -v --mcp '{}' 2>/dev/null", server.mcp());
        let out = crate::run_output(&crate::terminal::on_terminal(&line).output().unwrap()).out.replace('\r', "");
        assert_eq!(out.contains("SERVER"), has_table, "{out}");
        for word in ["convert_time", "mcp__s__convert_time", "America/New_York.", "never"] {
            assert!(out.split_whitespace().any(|shown| shown == word), "{columns}: {word}: {out}");
        }
    }
}
