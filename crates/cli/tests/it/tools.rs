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
fn tools_are_a_table_and_what_was_left_out_is_told() {
    insta::assert_snapshot!(screen(&Server::new(&odd()).run(&["tools"])));
}

#[test]
fn tools_as_json_keep_everything_the_server_said() {
    let ran = Server::new(&odd()).run(&["tools", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["version"]), (0, &json!(1)));
    let server = &told["servers"][0];
    assert_eq!(
        (&server["name"], &server["state"], &server["reason"]),
        (&json!("s"), &json!("connected"), &json!(null))
    );
    assert_eq!(server["tools"].as_array().unwrap().len(), 4);
    assert_eq!(server["tools"][0], odd().tools[0]);
    assert_eq!(server["quarantined"][0]["reason"], "has no `inputSchema`");
}

#[test]
fn one_unreachable_server_does_not_hide_the_others_and_the_exit_code_tells() {
    let good = Server::new(&Script::good());
    let bad = Server::new(&Script::good().at_start([Step::Stderr("cannot bind".into()), Step::Exit(3)]));
    let bad = bad.mcp().replacen("s=", "bad=", 1);
    let ran = ran(wharf(&["tools", "--mcp", &good.mcp(), "--mcp", &bad]));
    insta::assert_snapshot!(screen(&ran));
}

#[test]
fn only_the_wanted_server_is_started() {
    let server = Server::new(&Script::good());
    let never = format!("never=sh -c 'touch {}; exit 1'", server.path().join("started").display());
    let ran = ran(wharf(&["tools", "s", "--mcp", &server.mcp(), "--mcp", &never]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!server.path().join("started").exists());
}

#[test]
fn the_server_does_not_see_our_secrets() {
    let ran = ran(wharf(&["tools", "--mcp", "env=sh -c 'env >&2; exit 1'"]));
    assert!(ran.err.contains("PATH=") && !ran.err.contains("s3cr3t"), "{}", ran.err);
}

#[test]
fn the_server_sees_the_variables_that_are_named() {
    let env = "env=sh -c 'env >&2; exit 1'";
    let said = ran(wharf(&["tools", "--mcp", env, "--env", "SECRET", "-e", "TOKEN=a=b"])).err;
    assert!(said.contains("SECRET=s3cr3t") && said.contains("TOKEN=a=b"), "{said}");
    let unset = ran(wharf(&["tools", "--mcp", env, "--env", "NOT_SET"]));
    assert_eq!(
        (unset.code, unset.err.as_str()),
        (2, "error: --env NOT_SET: the variable is not set\nhint: write --env NAME=VALUE\n")
    );
}

#[test]
fn with_v_the_tools_say_what_they_take() {
    let ran = Server::new(&Script::good()).run(&["tools", "-v"]);
    insta::assert_snapshot!(ran.out);
}

#[test]
fn a_server_that_is_not_ready_in_its_time_has_failed() {
    let began = tokio::time::Instant::now();
    let ran = ran(wharf(&["tools", "--mcp", "mute=sh -c 'echo hello; sleep 60'", "--connect-timeout", "0.5"]));
    assert!(began.elapsed().as_secs() < 20);
    insta::assert_snapshot!(screen(&ran));
}

#[test]
fn the_demo_shows_every_step_and_survives_its_crash() {
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
fn the_demo_visits_the_servers_that_are_named_too() {
    let server = crate::remote::remote(wharf_testkit::Script::good());
    let (there, gone) = (format!("here={}", server.url()), "gone=http://127.0.0.1:1/mcp");
    let visited = ran(wharf(&["demo", "--json", "--mcp", &there]));
    let told: Value = serde_json::from_str(&visited.out).unwrap();
    assert_eq!(
        (visited.code, &told["servers"][0]["ok"], &told["servers"][0]["tools"]),
        (0, &json!(true), &json!("2 tools"))
    );
    let failed = ran(wharf(&["demo", "--mcp", gone]));
    assert!(failed.code == 4 && failed.out.contains("✗  gone"), "{}", failed.out);
}

#[test]
fn the_demo_can_be_read_by_a_program() {
    let ran = ran(wharf(&["demo", "--json"]));
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["version"], &told["ok"]), (0, &json!(1), &json!(true)));
    let times = told["steps"].as_array().unwrap().iter().find(|step| step["step"] == "6 × 7").unwrap();
    assert_eq!((&times["inProcess"], &times["child"]), (&json!("42"), &json!("42")));
    let network = told["network"].as_array().unwrap();
    assert!(network.len() == 6 && network.iter().all(|journey| journey["ok"] == true && journey["call"] == "42"));
}
