//! A server as a child process that communicates over stdin and stdout.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use wharf_io::{Child, ChildSpec, Environment, Grace, GroupWatcher, LineObserver};

use super::{ExitInfo, Link, OpenError, PeerHandle, Transport};

/// Starts a server as a child process.
///
/// The process leads its own process group, which is killed at the latest when the session is dropped. No shell is
/// involved. On macOS and Linux a Python tool is usually started as
/// `Stdio::new("uvx", ["some-server@latest"], env)`; the Windows form, with `--from` and an `.exe`, looks the same,
/// although Wharf does not run on Windows yet.
#[derive(Clone, Debug)]
pub struct Stdio {
    spec: ChildSpec,
    grace: Grace,
    stderr: Option<LineObserver>,
}

impl Stdio {
    /// Creates a transport that runs `command` with `args`. The process gets exactly the given environment.
    pub fn new<A>(command: impl Into<std::ffi::OsString>, args: A, environment: Environment) -> Self
    where
        A: IntoIterator,
        A::Item: Into<std::ffi::OsString>,
    {
        let args = args.into_iter().map(Into::into).collect();
        Self {
            spec: ChildSpec { command: command.into(), args, environment, cwd: None, watcher: None },
            grace: Grace::default(),
            stderr: None,
        }
    }

    /// Sets the working directory of the process.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.spec.cwd = Some(cwd.into());
        self
    }

    /// Sets a watcher that is notified of the process group.
    #[must_use]
    pub fn watched_by(mut self, watcher: Arc<dyn GroupWatcher>) -> Self {
        self.spec.watcher = Some(watcher);
        self
    }

    /// Sets an observer of the lines that the process writes to stderr.
    #[must_use]
    pub fn with_stderr(mut self, observer: LineObserver) -> Self {
        self.stderr = Some(observer);
        self
    }

    /// Sets how long closing waits before it sends signals.
    #[must_use]
    pub fn with_grace(mut self, grace: Grace) -> Self {
        self.grace = grace;
        self
    }
}

/// Environment variables that depend on the terminal and do not identify a server.
const TERMINAL_VARIABLES: [&str; 9] =
    ["LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

impl Transport for Stdio {
    /// Returns the command, its arguments and its environment, without the terminal's variables.
    fn identity(&self) -> Option<String> {
        let ChildSpec { command, args, environment, cwd, watcher: _ } = &self.spec;
        let environment: Vec<_> =
            environment.iter().filter(|(name, _)| !TERMINAL_VARIABLES.iter().any(|it| name == it)).collect();
        Some(format!("{:?}", (command, args, cwd, environment)))
    }

    /// Returns an empty audience: the user is part of the identity.
    fn audience(&self) -> Option<String> {
        Some(String::new())
    }

    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async {
            let (child, pipes) = Child::spawn(&self.spec).await.map_err(Arc::new)?;
            if let Some(observer) = &self.stderr {
                child.stderr().observe(observer.clone());
            }
            Ok(Link::from_bytes(pipes.stdout, pipes.stdin).with_peer(Process {
                child,
                grace: self.grace,
                hurried: Notify::new(),
                environment: self.spec.environment.clone(),
            }))
        })
    }
}

struct Process {
    child: Child,
    grace: Grace,
    hurried: Notify,
    environment: Environment,
}

impl PeerHandle for Process {
    fn ended(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async {
            self.child.exited().await;
        }))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.child.stop_hurried(self.grace, self.hurried.notified()).await;
        })
    }

    fn hurry(&self) {
        self.hurried.notify_one();
    }

    fn abandon(&self) {
        self.child.kill();
    }

    fn exit_info(&self) -> ExitInfo {
        let exit = self.child.exit();
        let stderr = self.child.stderr().lines();
        let missing_variables = self.environment.missing(&stderr);
        ExitInfo { exit, stderr, reason: None, missing_variables }
    }
}
