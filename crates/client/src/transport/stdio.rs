//! A server as a child process that talks over stdin and stdout.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use wharf_io::{Child, ChildSpec, Environment, Grace, GroupWatcher};

use super::{ExitInfo, Link, OpenError, PeerHandle, Transport};

/// Starts a process and talks to it. The process leads a group of its own, which never outlives the session.
///
/// Nothing goes through a shell. On macOS and Linux a Python tool is usually started as
/// `Stdio::new("uvx", ["some-server@latest"], env)`; its authors' Windows form, with `--from` and an `.exe`, takes the
/// same shape, though Wharf itself does not run there yet.
#[derive(Clone, Debug)]
pub struct Stdio {
    spec: ChildSpec,
    grace: Grace,
}

impl Stdio {
    /// `command` with `args`, and no more of our environment than `environment` holds.
    pub fn new<A>(command: impl Into<std::ffi::OsString>, args: A, environment: Environment) -> Self
    where
        A: IntoIterator,
        A::Item: Into<std::ffi::OsString>,
    {
        let args = args.into_iter().map(Into::into).collect();
        Self {
            spec: ChildSpec { command: command.into(), args, environment, cwd: None, watcher: None },
            grace: Grace::default(),
        }
    }

    /// Where the process runs.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.spec.cwd = Some(cwd.into());
        self
    }

    /// Who hears of the process group, see [`GroupWatcher`].
    #[must_use]
    pub fn watched_by(mut self, watcher: Arc<dyn GroupWatcher>) -> Self {
        self.spec.watcher = Some(watcher);
        self
    }

    /// How patient closing is.
    #[must_use]
    pub fn with_grace(mut self, grace: Grace) -> Self {
        self.grace = grace;
        self
    }
}

/// What differs from one terminal to the next and says nothing about a server.
const PASSING: [&str; 9] = ["LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

impl Transport for Stdio {
    /// The command and everything it is given, but for what is the terminal's.
    fn identity(&self) -> Option<String> {
        let ChildSpec { command, args, environment, cwd, watcher: _ } = &self.spec;
        let environment: Vec<_> = environment.iter().filter(|(name, _)| !PASSING.iter().any(|it| name == it)).collect();
        Some(format!("{:?}", (command, args, cwd, environment)))
    }

    /// Who we are to it is part of what it is given.
    fn audience(&self) -> Option<String> {
        Some(String::new())
    }

    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async {
            let (child, pipes) = Child::spawn(&self.spec).await.map_err(Arc::new)?;
            Ok(Link::from_bytes(pipes.stdout, pipes.stdin).kept_by(Process { child, grace: self.grace }))
        })
    }
}

struct Process {
    child: Child,
    grace: Grace,
}

impl PeerHandle for Process {
    fn ended(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async {
            self.child.exited().await;
        }))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.child.stop(self.grace).await;
        })
    }

    fn abandon(&self) {
        self.child.kill();
    }

    fn last_words(&self) -> ExitInfo {
        ExitInfo { exit: self.child.exit(), stderr: self.child.stderr().lines(), reason: None }
    }
}
