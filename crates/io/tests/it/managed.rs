//! Managed servers: real processes on real ports.

use std::net::TcpListener;
use std::time::Duration;

use wharf_io::{ChildSpec, Environment, Exit, ManageError, Managed, ManagedSpec, stop_all};

/// Listens on a port from the next full second on, writes to its log, and exits cleanly on SIGTERM.
const SERVER: &str = "import signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(5)))
print('starting', flush=True)
server = socket.create_server(('127.0.0.1', int(sys.argv[1])))
time.sleep(600)";

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn python(folder: &tempfile::TempDir, name: &str, program: &str) -> ManagedSpec {
    let port = free_port();
    let child = ChildSpec {
        command: "python3".into(),
        args: ["-c", program, &port.to_string()].map(Into::into).to_vec(),
        environment: Environment::default().with("PATH", "/usr/local/bin:/usr/bin:/bin"),
        cwd: None,
        watcher: None,
    };
    let log = folder.path().join(name);
    ManagedSpec { port, startup_timeout: Duration::from_secs(20), ..ManagedSpec::new(name, child, log) }
}

#[tokio::test]
async fn servers_are_waited_for_and_stopped_in_reverse_order() {
    let folder = tempfile::tempdir().unwrap();
    let one = python(&folder, "one", SERVER);
    let two = python(&folder, "two", SERVER);
    let port = one.port;
    let servers = vec![Managed::start(one).await.unwrap(), Managed::start(two).await.unwrap()];
    assert_eq!(servers[0].url(), format!("http://127.0.0.1:{port}/mcp"));
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let ended = stop_all(servers).await;
    assert_eq!(ended, [("two".to_owned(), Exit::Status(5)), ("one".to_owned(), Exit::Status(5))]);
    assert_eq!(std::fs::read_to_string(folder.path().join("one")).unwrap(), "starting\nbye\n");
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap_err();
}

#[tokio::test]
async fn an_early_exit_reports_the_status_and_the_log_path() {
    let folder = tempfile::tempdir().unwrap();
    let spec = python(&folder, "short", "import sys; print('no config', file=sys.stderr); sys.exit(3)");
    let log = spec.log_path.clone();
    let error = Managed::start(spec).await.unwrap_err().to_string();
    assert!(error.starts_with("short: the server exited with status 3 before it listened on 127.0.0.1:"), "{error}");
    assert!(error.ends_with(log.to_str().unwrap()), "{error}");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "no config\n");
}

#[tokio::test]
async fn a_server_that_never_listens_is_killed_after_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let spec = python(&folder, "mute", "import time; time.sleep(600)");
    let spec = ManagedSpec { startup_timeout: Duration::from_millis(300), ..spec };
    assert!(matches!(Managed::start(spec).await.unwrap_err(), ManageError::Timeout { .. }));
}

#[tokio::test]
async fn a_port_in_use_is_reported_before_the_server_starts() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = ManagedSpec { port: taken.local_addr().unwrap().port(), ..python(&folder, "late", SERVER) };
    let log = spec.log_path.clone();
    assert!(matches!(Managed::start(spec).await.unwrap_err(), ManageError::Taken { .. }));
    assert!(!log.exists());
}
