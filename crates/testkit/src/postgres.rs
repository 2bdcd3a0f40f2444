//! A PostgreSQL server of its own for a test: real, in a temporary folder, and gone when the test ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::{alive, descendants_of, free_port, until};

/// Where Debian installs the servers, one folder for each version.
const INSTALLED: &str = "/usr/lib/postgresql";
/// The user of all test databases.
const USER: &str = "wharf";
/// Their password. Connections over the unix socket need none.
const PASSWORD: &str = "not-in-any-output";
/// The server refuses to run as root.
const UNPRIVILEGED: [&str; 3] = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];

/// A running server. Dropping it ends the server, and so does the end of the thread that started it.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    port: u16,
    writes_to_disk: bool,
    server: Child,
}

impl Postgres {
    /// Starts a server that never waits for the disk.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    pub async fn start() -> Self {
        Self::start_with(false).await
    }

    /// Starts a server whose commits wait for the disk, for tests that kill it.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    pub async fn start_durable() -> Self {
        Self::start_with(true).await
    }

    async fn start_with(writes_to_disk: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("wharf-postgres-").tempdir().expect("a temporary folder");
        copy_cluster(folder.path());
        let port = free_port();
        let server = spawn(folder.path(), port, writes_to_disk);
        let mut started = Self { folder, port, writes_to_disk, server };
        started.ready().await;
        started
    }

    /// Creates a database. Returns its URL, with a password, over TCP.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn create_database(&self, name: &str) -> String {
        self.execute("postgres", &format!("CREATE DATABASE \"{name}\""));
        self.url(name)
    }

    /// Returns the URL of a database, with a password, over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the URL of a database over the unix socket, where no password is needed.
    pub fn socket_url(&self, database: &str) -> String {
        self.socket_url_of(USER, database)
    }

    /// Returns the URL of a database for another user.
    pub fn socket_url_of(&self, user: &str, database: &str) -> String {
        format!("postgres:///{database}?host={}&port={}&user={user}", self.folder.path().display(), self.port)
    }

    /// Returns the password of the URLs.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Returns the port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Executes SQL. Returns what it selects, a line for each row.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn execute(&self, database: &str, sql: &str) -> String {
        let socket = self.socket_url(database);
        let output = Command::new(programs().join("psql"))
            .args([
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                "-c",
                sql,
                &socket,
            ])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Kills all processes of the server, as a power failure would.
    ///
    /// # Panics
    /// If they stay.
    pub async fn crash(&mut self) {
        let mut processes = descendants_of(self.server.id());
        processes.push(self.server.id());
        for process in &processes {
            send(*process, Signal::KILL);
        }
        let _ = self.server.wait();
        until(async || !processes.iter().any(|process| alive(*process))).await;
    }

    /// Starts the server again after a crash, with what is on disk.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self) {
        self.server = spawn(self.folder.path(), self.port, self.writes_to_disk);
        self.ready().await;
    }

    async fn ready(&mut self) {
        let url = self.socket_url("postgres");
        until(async || {
            if let Ok(Some(status)) = self.server.try_wait() {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                panic!("PostgreSQL ended with {status}: {log}");
            }
            let ready = Command::new(programs().join("pg_isready")).args(["--quiet", "-d", &url]).status();
            ready.is_ok_and(|status| status.success())
        })
        .await;
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown: nothing of it is needed again.
        send(self.server.id(), Signal::QUIT);
        let _ = self.server.wait();
    }
}

fn send(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn spawn(folder: &Path, port: u16, writes_to_disk: bool) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut server = Command::new("setpriv");
    server.args(privileges());
    // The signal for an immediate shutdown, if this thread ends first.
    server.args(["--pdeathsig", "QUIT"]).arg(programs().join("postgres")).arg("-D").arg(folder.join("data"));
    let fsync = if writes_to_disk { "on" } else { "off" };
    for (name, value) in [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port.to_string()),
        ("unix_socket_directories", &folder.to_string_lossy()),
        ("fsync", fsync),
        ("shared_buffers", "16MB"),
        // Counts statements, for tests that limit them.
        ("shared_preload_libraries", "pg_stat_statements"),
        // In the folder, so that a killed server leaves nothing behind.
        ("dynamic_shared_memory_type", "mmap"),
    ] {
        server.arg("-c").arg(format!("{name}={value}"));
    }
    let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
    server.expect("`setpriv` of util-linux is installed")
}

/// Copies the files of an empty cluster into a folder. They are created once: that takes most of a second.
fn copy_cluster(folder: &Path) {
    let test = std::env::current_exe().expect("the path of the test binary");
    let version = programs().parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let template = test.parent().expect("a folder").join(format!("postgres-{version}-cluster"));
    if is_root() {
        // The server's user needs to reach its files.
        run(Command::new("chmod").arg("711").arg(folder));
        run(Command::new("chown").arg("nobody:nogroup").arg(folder));
    }
    let data = folder.join("data");
    if template.is_dir() {
        run(Command::new("cp").arg("-a").arg(&template).arg(&data));
        return;
    }
    let password = folder.join("password");
    std::fs::write(&password, PASSWORD).expect("a file");
    if is_root() {
        run(Command::new("chown").arg("nobody:nogroup").arg(&password));
    }
    let mut create = Command::new("setpriv");
    create.args(privileges()).arg(programs().join("initdb")).args(["--username", USER, "--no-sync", "--encoding=UTF8"]);
    create.args(["--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256", "--wal-segsize=1"]);
    run(create.arg("--pwfile").arg(&password).arg("-D").arg(&data));
    // Of several tests that do this at once, one succeeds. The others have their own copy already.
    let copy = template.with_extension(std::process::id().to_string());
    run(Command::new("cp").arg("-a").arg(&data).arg(&copy));
    if std::fs::rename(&copy, &template).is_err() {
        let _ = std::fs::remove_dir_all(&copy);
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn privileges() -> &'static [&'static str] {
    if is_root() { &UNPRIVILEGED } else { &[] }
}

/// Returns the folder with the programs of the newest version.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir(INSTALLED).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())));
    let installed =
        numbered.map(|(version, path)| (version, path.join("bin"))).filter(|(_, bin)| bin.join("initdb").is_file());
    let newest = installed.max().map(|(_, bin)| bin);
    newest.unwrap_or_else(|| panic!("PostgreSQL is not installed in {INSTALLED}; run scripts/peers"))
}
