//! Managed servers: local HTTP servers that the fleet starts and stops.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::json;
use wharf_config::{ManagedConfig, Scope, Server, StdioConfig, TransportConfig};
use wharf_fleet::{Fleet, FleetOptions, HostEnvironment, ServerSpec, ServerState};
use wharf_io::Environment;
use wharf_testkit::{children_of, free_port, kill, peers, soon, until};

use super::{LONG, call, entry, name, reaches, summary};

fn managed(text: &str, command: &str, args: &[&str], port: u16) -> Server {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let launch = StdioConfig { command: command.to_owned(), args, env: [].into(), cwd: None };
    let manage = ManagedConfig {
        launch,
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port,
        path: "/mcp".to_owned(),
        log_path: None,
        startup_timeout: Duration::from_secs(20),
        shutdown_timeout: Duration::from_secs(5),
        headers: Vec::new(),
    };
    Server::new(name(text), Scope::User, TransportConfig::Managed(manage))
}

fn open(servers: Vec<Server>, logs: &std::path::Path) -> Fleet {
    let environment = Environment::default().with("PATH", "/usr/local/bin:/usr/bin:/bin");
    let host_environment = HostEnvironment { environment, logs: logs.to_owned(), ..HostEnvironment::default() };
    Fleet::open(servers.into_iter().map(ServerSpec::from), FleetOptions { host_environment, ..FleetOptions::default() })
}

#[tokio::test]
async fn a_managed_server_is_started_restarted_after_a_crash_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let root = peers();
    let python = root.join(".peers/py1/bin/python");
    let script = root.join("peers/mcp1_server.py");
    let args = [script.to_str().unwrap(), "http", &port.to_string()];
    let fleet = open(vec![managed("local", python.to_str().unwrap(), &args, port)], folder.path());
    soon(fleet.settled(LONG)).await;
    assert!(summary(&fleet).starts_with("local connected"), "{}", summary(&fleet));
    assert_eq!(soon(call(&entry(&fleet, "mcp__local__add"), json!({"a": 20, "b": 22}))).await.unwrap().text(), "42");
    assert!(folder.path().join("local.log").exists());

    let before = children_of(std::process::id());
    assert_eq!(before.len(), 1);
    kill(before[0]);
    // A new process starts only after the end of the old one was noticed.
    until(async || children_of(std::process::id()).iter().any(|child| !before.contains(child))).await;
    soon(reaches(&fleet, "local", ServerState::Connected)).await;
    assert_eq!(soon(call(&entry(&fleet, "mcp__local__add"), json!({"a": 1, "b": 2}))).await.unwrap().text(), "3");
    soon(fleet.close()).await;
    until(async || children_of(std::process::id()).is_empty()).await;
}

#[tokio::test]
async fn a_managed_server_that_exits_early_reports_status_and_log() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let fleet = open(vec![managed("short", "sh", &["-c", "echo no licence; exit 7"], port)], folder.path());
    soon(fleet.settled(LONG)).await;
    let said = summary(&fleet);
    assert!(said.contains("exited with status 7 before it listened") && said.contains("short.log"), "{said}");
    let log = std::fs::read_to_string(folder.path().join("short.log")).unwrap();
    assert_eq!(log, "no licence\n");
    soon(fleet.close()).await;
}

#[tokio::test]
async fn an_occupied_port_is_reported_and_retried() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = taken.local_addr().unwrap().port();
    let fleet = open(vec![managed("second", "sleep", &["60"], port)], folder.path());
    soon(fleet.settled(LONG)).await;
    assert!(
        summary(&fleet).starts_with("second pending") && summary(&fleet).contains("already in use"),
        "{}",
        summary(&fleet)
    );
    assert!(fleet.status(&name("second")).unwrap().next_try.is_some());
    assert!(children_of(std::process::id()).is_empty());
    soon(fleet.close()).await;
}
