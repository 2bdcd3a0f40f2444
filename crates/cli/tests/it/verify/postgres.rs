//! `wharf verify` with a store in PostgreSQL, on a real server.

use serde_json::json;
use wharf_testkit::Postgres;

use super::{json_of, quickstart};
use crate::{Person, RunOutput, ran};

fn assert_hidden(ran: &RunOutput, password: &str) {
    assert!(!ran.out.contains(password) && !ran.err.contains(password), "{} {}", ran.out, ran.err);
}

#[tokio::test]
async fn every_command_accepts_a_url_and_prints_it_without_the_password() {
    let (postgres, person) = (Postgres::start().await, Person::new());
    let url = postgres.create_database("runs");
    let shown = format!("postgres://wharf@127.0.0.1:{}/runs", postgres.port());
    let run = quickstart(&person, &["--store", &url, "--limit", "2", "--json"]);
    let report = json_of(&run);
    assert_eq!((run.code, &report["store"], &report["state"]), (0, &json!(shown), &json!("finished")), "{}", run.err);
    let id = report["run"].as_str().unwrap();
    let second = quickstart(&person, &["--limit", "3", &format!("--store={url}")]);
    assert!(second.err.contains(&format!("is stored in {shown}")), "{}", second.err);
    let status = person.run(&["verify", "status", "--store", &url, "--json"]);
    let runs = json_of(&status);
    assert_eq!((&runs["store"], runs["runs"].as_array().unwrap().len()), (&json!(shown), 2));
    let one = person.run(&["verify", "status", id, "--store", &url]);
    assert!(one.out.contains("finished"), "{} {}", one.out, one.err);
    let compared = person.run(&["verify", "compare", id, id, "--store", &url, "--store-b", &url]);
    assert_eq!(compared.code, 0, "{}", compared.err);
    let written = person.run(&["verify", "report", id, "--store", &url, "--output", "report.html"]);
    assert_eq!((written.code, person.path("project/report.html").exists()), (0, true), "{}", written.err);
    let unknown = person.run(&["verify", "status", "nosuch", "--store", &url]);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
    for ran in [&run, &second, &status, &one, &compared, &written, &unknown] {
        assert_hidden(ran, postgres.password());
    }
    // Nothing was stored in the user's file.
    assert!(!person.path("home/.local/state/wharf/verify.db").exists());
}

#[tokio::test]
async fn what_the_url_does_not_say_comes_from_the_pg_variables() {
    let (postgres, person) = (Postgres::start().await, Person::new());
    postgres.create_database("runs");
    let port = postgres.port().to_string();
    let shown = format!("postgres://wharf@127.0.0.1:{port}/runs");
    let server = [("PGHOST", "127.0.0.1"), ("PGPORT", port.as_str()), ("PGUSER", "wharf"), ("PGDATABASE", "runs")];
    let status = |store: &str, more: &[(&str, &str)]| {
        let mut command = person.wharf(&["verify", "status", "--store", store]);
        command.envs(server).envs(more.iter().copied());
        ran(command)
    };
    let password = postgres.password();
    let open = status("postgres://", &[("PGPASSWORD", password)]);
    assert_eq!((open.code, open.err.contains("no runs in postgres://")), (0, true), "{}", open.err);
    let file = person.path("pgpass");
    person.write("pgpass", &format!("127.0.0.1:{port}:runs:wharf:{password}\n"));
    std::process::Command::new("chmod").arg("600").arg(&file).status().unwrap();
    let open = status("postgres://", &[("PGPASSFILE", file.to_str().unwrap())]);
    assert_eq!(open.code, 0, "{}", open.err);
    // The URL wins.
    let wrong = status("postgres://wharf:hush-hush@127.0.0.1/runs", &[("PGPASSWORD", password)]);
    let refused = format!("cannot open the store {shown}: password authentication failed for user \"wharf\"");
    assert_eq!((wrong.code, wrong.err.contains(&refused)), (2, true), "{}", wrong.err);
    assert_hidden(&wrong, "hush-hush");
    // The server has no TLS.
    let plain = status("postgres://", &[("PGPASSWORD", password), ("PGSSLMODE", "verify-full")]);
    assert!(plain.err.contains("server does not support TLS"), "{}", plain.err);
    let misspelled = status("postgres://", &[("PGPASSWORD", password), ("PGSSLMODE", "verify_full")]);
    assert_eq!(misspelled.code, 2);
    assert!(misspelled.err.contains("invalid PGSSLMODE \"verify_full\": expected disable,"), "{}", misspelled.err);
}

#[test]
fn invalid_locations_are_refused_without_repeating_them() {
    let person = Person::new();
    for (location, expected) in [
        ("mysql://db/runs", "--store: unsupported scheme `mysql`"),
        ("postgres://me:hu/sh@db/runs", "--store: invalid URL"),
        ("postgres://me:hush@db/runs?sslmod=require", "--store: unsupported parameter `sslmod`"),
    ] {
        let refused = person.run(&["verify", "status", "--store", location]);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains(expected), "{}", refused.err);
        assert!(refused.err.contains("hint: write a path or postgres://USER@HOST/DATABASE"), "{}", refused.err);
        assert_hidden(&refused, "hush");
        assert_hidden(&refused, "sh@db");
    }
}
