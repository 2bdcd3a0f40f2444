//! What a log receives of the servers.

use std::sync::{Arc, Mutex};

use wharf_fleet::{Fleet, FleetOptions, HostEnvironment, ServerLog, ServerSpec, ServerStatus};
use wharf_protocol::ServerName;
use wharf_testkit::{Script, Step, soon, until};

use super::{LONG, child};

#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn lines(&self, kind: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter_map(|line| line.strip_prefix(kind)).map(str::to_owned).collect()
    }
}

impl ServerLog for Recorder {
    fn state_changed(&self, status: &ServerStatus) {
        let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.0.lock().unwrap().push(format!("state {}{reason}", status.state));
    }

    fn stderr(&self, server: &ServerName, line: &str) {
        self.0.lock().unwrap().push(format!("stderr {server}: {line}"));
    }
}

fn open(script: &Script, folder: &std::path::Path) -> (Fleet, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let log: Arc<dyn ServerLog> = recorder.clone();
    let host_environment = HostEnvironment { log: Some(log), ..HostEnvironment::default() };
    let options =
        FleetOptions { host_environment, reconnection: wharf_fleet::Reconnection::NONE, ..FleetOptions::default() };
    (Fleet::open([ServerSpec::from(child("noisy", script, folder))], options), recorder)
}

#[tokio::test]
async fn a_log_receives_every_state_and_every_line_of_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let lines = (0..100).map(|number| Step::Stderr(format!("line {number}")));
    let script = Script { at_start: lines.collect(), ..Script::good() };
    let (fleet, recorder) = open(&script, folder.path());
    soon(fleet.settled(LONG)).await;
    until(async || recorder.lines("stderr ").len() == 100).await;
    let expected: Vec<String> = (0..100).map(|number| format!("noisy: line {number}")).collect();
    assert_eq!(recorder.lines("stderr "), expected, "more lines than the ring buffer holds, in order");
    soon(fleet.close()).await;
    assert_eq!(recorder.lines("state "), ["pending: connecting", "connected", "disabled: closed"]);
}

#[tokio::test]
async fn a_log_receives_why_a_server_failed() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script { at_start: vec![Step::Stderr("no database".into()), Step::Exit(7)], ..Script::good() };
    let (fleet, recorder) = open(&script, folder.path());
    soon(fleet.settled(LONG)).await;
    let states = recorder.lines("state ");
    assert_eq!(states[0], "pending: connecting");
    assert!(states[1].starts_with("failed: ") && states[1].contains('7'), "{states:?}");
    assert!(recorder.lines("stderr ").contains(&"noisy: no database".to_owned()));
    soon(fleet.close()).await;
}
