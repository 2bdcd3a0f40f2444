//! `wharf verify work`, and the commands that operate runs: several processes, one store.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

use serde_json::json;
use wharf_testkit::Postgres;

use super::{example, json_of, quickstart};
use crate::{Person, RunOutput, USER, demo_entry, run_output};

/// Starts a worker that ends when nothing is left for it.
fn worker(person: &Person, store: &str, more: &[&str]) -> Child {
    let mut command = person.wharf(&[&["verify", "work", "--stop-when-empty", "--store", store], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> RunOutput {
    run_output(&child.wait_with_output().unwrap())
}

fn models() -> String {
    example("quickstart").join("models.yaml").to_str().unwrap().to_owned()
}

/// Creates the quickstart for workers. Returns its id.
fn submitted(person: &Person, store: &str) -> String {
    let run = quickstart(person, &["--store", store, "--submit-only", "--json"]);
    let report = json_of(&run);
    assert_eq!((run.code, &report["state"]), (0, &json!("running")), "{}", run.err);
    report["run"].as_str().unwrap().to_owned()
}

fn status(person: &Person, store: &str, run: &str) -> serde_json::Value {
    json_of(&person.run(&["verify", "status", run, "--store", store, "--json"]))
}

#[tokio::test]
async fn workers_of_several_processes_finish_a_submitted_run() {
    let (postgres, person) = (Postgres::start().await, Person::new());
    let url = postgres.create_database("runs");
    let run = submitted(&person, &url);
    let before = status(&person, &url, &run);
    assert_eq!(before["activity"]["stuck_units"], before["run"]["progress"]["units"], "no worker is running");
    let workers = [0; 3].map(|_| worker(&person, &url, &["--models", &models(), "--slots", "2"]));
    for worker in workers.map(ended) {
        assert_eq!(worker.code, 0, "{}", worker.err);
        assert!(!worker.err.contains("left to other workers"), "{}", worker.err);
    }
    let after = status(&person, &url, &run);
    let progress = &after["run"]["progress"];
    assert_eq!((&after["run"]["state"], &progress["done"]), (&json!("finished"), &progress["units"]), "{after}");
    assert_eq!(after["workers"], json!([]), "workers that end remove themselves");
    // One process gets the same verdicts.
    let alone = json_of(&quickstart(&person, &["--json", "--store", "alone.db"]));
    for (shared, alone) in after["models"].as_array().unwrap().iter().zip(alone["models"].as_array().unwrap()) {
        assert_eq!((&shared["model"], &shared["passed"]), (&alone["model"], &alone["passed"]));
    }
}

#[tokio::test]
async fn processes_that_start_the_same_run_create_it_once_and_share_it() {
    let (postgres, person) = (Postgres::start().await, Person::new());
    let url = postgres.create_database("runs");
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml").to_str().unwrap().to_owned();
    let start = || {
        let run = ["verify", "run", &benchmark, "--models", &models(), "--judge", "judge", "--run-id", "nightly"];
        let mut command = person.wharf(&[&run[..], &["--store", &url]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for coordinator in [start(), start()].map(ended) {
        assert_eq!(coordinator.code, 0, "{} {}", coordinator.out, coordinator.err);
    }
    let listed = json_of(&person.run(&["verify", "status", "--store", &url, "--json"]));
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["id"], &runs[0]["state"]), (1, &json!("nightly"), &json!("finished")));
    let other = quickstart(&person, &["--run-id", "nightly", "--limit", "1", "--store", &url]);
    assert!(other.err.contains("the run `nightly` exists with other settings"), "{}", other.err);
}

#[test]
fn a_worker_without_a_model_says_so_once_and_leaves_its_trials_to_others() {
    let person = Person::new();
    let run = submitted(&person, "runs.db");
    let lacking = ended(worker(&person, "runs.db", &[]));
    assert_eq!(lacking.code, 0, "{}", lacking.err);
    for label in ["model `careful`", "model `hasty`", "judge `judge`"] {
        let said = format!("trials are left to other workers: {label}:");
        assert_eq!(lacking.err.matches(&said).count(), 1, "{label} {}", lacking.err);
    }
    assert_eq!(status(&person, "runs.db", &run)["run"]["progress"]["done"], json!(0));
    let able = ended(worker(&person, "runs.db", &["--models", &models()]));
    assert!(able.err.contains(&format!("run {run} is finished")), "{}", able.err);
}

/// The record has no command. A worker starts what its own files or its own configuration say.
#[tokio::test]
async fn a_worker_takes_server_entries_from_its_own_machine_only() {
    let (postgres, person) = (Postgres::start().await, Person::new());
    let url = postgres.create_database("runs");
    let write = |person: &Person| {
        let server = demo_entry();
        let benchmark = json!({"name": "notes", "servers": {"demo": server}, "defaults": {"required_servers": ["demo"]},
            "questions": [{"id": "note", "question": "Write a note.", "trace": [{"called": "write_note"}]}]});
        person.write("project/benchmark.json", &benchmark.to_string());
        let call = "{name: mcp__demo__write_note, arguments: {text: docked}}";
        let model = format!("prompts:\n  Write a note.: [{{tools: [{call}]}}, {{text: Done.}}]\n");
        person.write("project/model.yaml", &model);
    };
    write(&person);
    let submit = || {
        let submit = ["verify", "run", "benchmark.json", "-m", "scripted:model.yaml", "--submit-only", "--trust"];
        let submitted = person.run(&[&submit[..], &["--store", &url]].concat());
        assert_eq!(submitted.code, 0, "{}", submitted.err);
        submitted.out.trim().to_owned()
    };
    let run = submit();
    let program = demo_entry()["command"].as_str().unwrap().to_owned();
    let stored = "SELECT COUNT(*) FROM wharf.run_settings WHERE settings LIKE '%' || '";
    assert_eq!(postgres.execute("runs", &format!("{stored}{program}' || '%'")), "0", "the record has no command");
    let other = Person::new();
    write(&other);
    let lacking = ended(worker(&other, &url, &[]));
    assert!(lacking.err.contains("server `demo` is not configured: add it with `wharf add demo"), "{}", lacking.err);
    let unapproved = ended(worker(&other, &url, &["--benchmark", "benchmark.json"]));
    assert!(unapproved.err.contains("runs a command that you have not approved"), "{}", unapproved.err);
    assert_eq!(status(&person, &url, &run)["run"]["progress"]["done"], json!(0));
    let able = ended(worker(&other, &url, &["--benchmark", "benchmark.json", "--trust"]));
    assert!(able.err.contains("is finished"), "{}", able.err);
    assert_eq!(status(&person, &url, &run)["models"][0]["passed"], json!(1));
    // A configured server of the same name, with the same tools.
    let run = submit();
    let configured = Person::new().with(USER, "demo", &demo_entry());
    write(&configured);
    let able = ended(worker(&configured, &url, &[]));
    assert!(able.err.contains(&format!("run {run} is finished")), "{}", able.err);
}

#[test]
fn runs_are_paused_resumed_canceled_and_deleted() {
    let person = Person::new();
    let run = submitted(&person, "runs.db");
    let operate = |arguments: &[&str]| {
        let done = person.run(&[&["verify"], arguments, &["--store", "runs.db", "--json"]].concat());
        assert_eq!(done.code, 0, "{arguments:?} {}", done.err);
        json_of(&done)
    };
    let work = || ended(worker(&person, "runs.db", &["--models", &models()]));
    assert_eq!(operate(&["priority", &run, "-3"])["priority"], json!(-3));
    for (command, state) in [("pause", "paused"), ("cancel", "canceled")] {
        assert_eq!(operate(&[command, &run])["state"], json!(state));
        assert_eq!(work().code, 0);
        let shown = person.run(&["verify", "status", &run, "--store", "runs.db"]);
        assert!(shown.out.contains(state) && shown.out.lines().all(|line| line.chars().count() <= 80), "{}", shown.out);
        assert_eq!(status(&person, "runs.db", &run)["run"]["progress"]["done"], json!(0), "nothing was claimed");
    }
    operate(&["resume", &run]);
    assert!(work().err.contains(&format!("run {run} is finished")));
    assert_eq!(status(&person, "runs.db", &run)["activity"]["priority"], json!(-3));
    let finished = person.run(&["verify", "pause", &run, "--store", "runs.db"]);
    assert_eq!((finished.code, finished.err.contains("is finished")), (2, true), "{}", finished.err);
    assert_eq!(operate(&["vacuum", "--older-than", "1"]), json!({"version": 1, "deleted": [], "contents": 0}));
    let deleted = operate(&["delete", &run]);
    assert!(deleted["deleted"] == json!([run]) && deleted["contents"].as_u64().unwrap() > 0, "{deleted}");
    assert_eq!(operate(&["status"])["runs"], json!([]));
}

/// It waits for new runs, and SIGTERM is how it ends.
#[tokio::test]
async fn an_idle_worker_serves_new_runs_and_exits_with_0_on_sigterm() {
    let (postgres, person) = (Postgres::start().await, Person::new());
    let url = postgres.create_database("runs");
    let mut command = person.wharf(&["verify", "work", "--models", &models(), "--store", &url]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    let mut until = |text: &str| {
        while !seen.contains(text) {
            assert!(lines.read_line(&mut seen).unwrap() > 0, "{seen}");
        }
    };
    until("serves postgres://");
    let run = submitted(&person, &url);
    until(&format!("run {run} is finished"));
    let listed = json_of(&person.run(&["verify", "status", "--store", &url, "--json"]));
    let workers = listed["workers"].as_array().unwrap();
    assert_eq!((workers.len(), &workers[0]["pid"], &workers[0]["is_alive"]), (1, &json!(child.id()), &json!(true)));
    assert!(std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let status = child.wait().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(status.code(), Some(0), "{seen}{rest}");
    assert!(rest.contains("draining"), "{rest}");
}
