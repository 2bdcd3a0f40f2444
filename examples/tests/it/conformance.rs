//! The conformance suite of the protocol, run against our own programs: an outside judge for both eras.

mod suite;

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use wharf_testkit::soon;

use suite::{Subject, run};

/// A running server; it ends when its input does, and with the test at the latest.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance_server"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = soon(said.next_line()).await.unwrap().expect("an address");
        Self { process, url }
    }

    async fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(soon(self.process.wait()).await.unwrap().success());
    }
}

/// All scenarios pass, those that are not scored too: a warning is a failure here.
async fn a_server_conforms_to(revision: &str, scenarios: usize) {
    let server = Server::start().await;
    let report = run(&Subject::Server { url: &server.url }, revision).await;
    report.assert_conforms();
    assert_eq!((report.scenarios, report.complaints.as_slice()), (scenarios, &[][..]));
    server.stop().await;
}

#[tokio::test]
async fn our_server_conforms_to_the_last_revision_of_the_legacy_era() {
    a_server_conforms_to("2025-11-25", 33).await;
}

#[tokio::test]
async fn our_server_conforms_to_the_first_revision_of_the_modern_era() {
    a_server_conforms_to("2026-07-28", 50).await;
}

/// All scenarios pass, those that are not scored too, but for tokens that are bound to a key (`DPoP`), which we do not have.
async fn a_client_conforms_to(revision: &str, scenarios: usize) {
    let program = Path::new(env!("CARGO_BIN_EXE_conformance_client"));
    let report = run(&Subject::Client { program }, revision).await;
    report.assert_conforms();
    let complaints: Vec<_> = report.complaints.iter().filter(|complaint| !complaint.starts_with("auth/dpop")).collect();
    assert_eq!((report.scenarios, complaints.as_slice()), (scenarios, &[][..]));
}

#[tokio::test]
async fn our_client_conforms_to_the_last_revision_of_the_legacy_era() {
    a_client_conforms_to("2025-11-25", 25).await;
}

#[tokio::test]
async fn our_client_conforms_to_the_first_revision_of_the_modern_era() {
    a_client_conforms_to("2026-07-28", 39).await;
}
