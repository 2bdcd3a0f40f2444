//! The protocol's conformance suite, run against the example server and client in both eras.

mod suite;

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use wharf_testkit::soon;

use suite::{Subject, run};

/// A running server. It ends with its input, at the latest with the test.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance_server"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = soon(output.next_line()).await.unwrap().expect("a URL");
        Self { process, url }
    }

    async fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(soon(self.process.wait()).await.unwrap().success());
    }
}

/// Checks that all scenarios pass, including unscored ones. A warning is a failure here.
async fn check_server(revision: &str, scenarios: usize) {
    let server = Server::start().await;
    let report = run(&Subject::Server { url: &server.url }, revision).await;
    report.assert_conforms();
    assert_eq!((report.scenarios, report.complaints.as_slice()), (scenarios, &[][..]));
    server.stop().await;
}

#[tokio::test]
async fn the_server_conforms_to_the_last_legacy_revision() {
    check_server("2025-11-25", 33).await;
}

#[tokio::test]
async fn the_server_conforms_to_the_first_modern_revision() {
    check_server("2026-07-28", 50).await;
}

/// Checks that all scenarios pass, including unscored ones.
async fn check_client(revision: &str, scenarios: usize) {
    let program = Path::new(env!("CARGO_BIN_EXE_conformance_client"));
    let report = run(&Subject::Client { program }, revision).await;
    report.assert_conforms();
    assert_eq!((report.scenarios, report.complaints.as_slice()), (scenarios, &[][..]));
}

#[tokio::test]
async fn the_client_conforms_to_the_last_legacy_revision() {
    check_client("2025-11-25", 25).await;
}

#[tokio::test]
async fn the_client_conforms_to_the_first_modern_revision() {
    check_client("2026-07-28", 39).await;
}
