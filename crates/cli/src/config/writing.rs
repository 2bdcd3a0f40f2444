//! Edits of configuration files: check an entry as loading would, write it, and report the result.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use wharf::config::{
    Approvals, ApprovalsError, ConfiguredServer, EditError, Editor, Eligibility, OnExisting, Problem, RawEntry,
    ReadServer, TransportKind, read_server_to_keep,
};
use wharf::fleet::Scope;
use wharf::{InvalidName, ServerName};

use super::describe;
use super::paths::{Paths, no_home};
use super::setup::Setup;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;

/// Why nothing was written.
#[derive(Debug)]
pub(crate) enum WriteError {
    Usage(UsageError),
    /// The entry or a file is invalid.
    Problems(Vec<Problem>),
    /// The file could not be written.
    Failed(String),
}

impl From<UsageError> for WriteError {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl From<InvalidName> for WriteError {
    fn from(error: InvalidName) -> Self {
        Self::Usage(usage_error(error.to_string(), None))
    }
}

impl From<EditError> for WriteError {
    fn from(error: EditError) -> Self {
        let what = error.to_string();
        match error {
            EditError::Exists { .. } => Self::Usage(usage_error(what, Some("replace it with --force"))),
            EditError::Missing { .. } => Self::Usage(usage_error(what, None)),
            EditError::Unreadable(problem) => Self::Problems(vec![*problem]),
            EditError::Raced(_) | EditError::Io { .. } => Self::Failed(what),
        }
    }
}

impl From<ApprovalsError> for WriteError {
    fn from(error: ApprovalsError) -> Self {
        match error {
            ApprovalsError::Corrupt(problem) => Self::Problems(vec![*problem]),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl WriteError {
    /// Prints the error and returns its exit code.
    pub(crate) fn report(&self) -> Exit {
        match self {
            Self::Usage(error) => term::usage_error(error),
            Self::Problems(problems) => {
                problems.iter().for_each(term::problem);
                Exit::Usage
            }
            Self::Failed(message) => {
                term::error(message, &[], None);
                Exit::Failed
            }
        }
    }
}

/// Reads an entry as loading would, and checks the rules. Variables may be unset: they may be set when the server starts.
pub(crate) fn check(setup: &Setup, name: &str, entry: &str, scope: Scope) -> Result<ReadServer, WriteError> {
    let read = read_server_to_keep(name, entry, scope, &setup.variables).map_err(WriteError::Problems)?;
    match setup.loaded.rules.permits(&read.server) {
        Ok(()) => Ok(read),
        Err(reason) => Err(usage_error(format!("server `{name}` is not allowed: {reason}"), None).into()),
    }
}

/// A server for a file.
pub(crate) struct NewEntry<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) entry: &'a Value,
    pub(crate) scope: Scope,
    pub(crate) on_existing: OnExisting,
}

/// The file that got an entry.
pub(crate) struct WrittenFile {
    path: PathBuf,
    /// Whether the entry replaced another one.
    replaced: bool,
}

/// Writes a server into the file of its scope.
pub(crate) fn write(paths: &Paths, new: &NewEntry<'_>) -> Result<WrittenFile, WriteError> {
    let path = paths.of(new.scope)?;
    let mut editor = Editor::open(path, new.scope)?;
    let replaced = editor.names().iter().any(|other| other == new.name.as_str());
    editor.add(new.name, new.entry, new.on_existing)?;
    editor.save()?;
    Ok(WrittenFile { path: path.to_owned(), replaced })
}

/// Approves servers of this project as they are written.
pub(crate) fn approve<'a>(
    paths: &Paths,
    servers: impl IntoIterator<Item = (&'a ServerName, &'a RawEntry)>,
) -> Result<(), WriteError> {
    let file = paths.approvals.as_ref().ok_or_else(no_home)?;
    let mut approvals = Approvals::load(file)?;
    for (name, written) in servers {
        approvals.approve(&paths.project.root, name, written);
    }
    Ok(approvals.save()?)
}

/// The state of a server after it was written. `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct WriteOutcome {
    version: u32,
    name: String,
    scope: Scope,
    transport: TransportKind,
    file: PathBuf,
    /// Whether the entry replaced another one.
    replaced: bool,
    /// Whether the server is used.
    standing: &'static str,
    reason: Option<String>,
    /// Scopes whose server of the same name is now shadowed.
    hides: Vec<Scope>,
    /// Whether writing approved it.
    approved: bool,
}

/// Returns the state of a server that was just written. Adding a server to a project approves it for the user.
pub(crate) fn outcome(globals: &Globals, read: &ReadServer, file: WrittenFile) -> Result<WriteOutcome, WriteError> {
    let ReadServer { server, written, .. } = read;
    let scope = server.scope;
    let mut setup = Setup::read(globals)?;
    let mine = |found: &&ConfiguredServer| found.server.name == server.name && found.server.scope == scope;
    let waiting =
        setup.loaded.servers.iter().find(mine).filter(|found| {
            matches!(found.eligibility, Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_))
        });
    let mut approved = false;
    let broken = setup.loaded.broken.iter().find(|broken| broken.name == server.name.as_str() && broken.scope == scope);
    let is_broken = broken.is_some();
    if waiting.is_some() || (is_broken && scope == Scope::Project) {
        approve(&setup.paths, [(&server.name, written)])?;
        approved = true;
        setup = Setup::read(globals)?;
    }
    let servers = &setup.loaded.servers;
    let hidden = |found: &&ConfiguredServer| {
        found.server.name == server.name && found.eligibility == Eligibility::Shadowed { by: scope }
    };
    let found = servers.iter().find(mine);
    Ok(WriteOutcome {
        version: 1,
        name: server.name.to_string(),
        scope,
        transport: server.transport.kind(),
        file: file.path,
        replaced: file.replaced,
        standing: match found {
            Some(found) => found.eligibility.as_str(),
            // Its problems were printed before.
            None if is_broken => "broken",
            None => "ready",
        },
        reason: found.and_then(describe::reason),
        hides: servers.iter().filter(hidden).map(|found| found.server.scope).collect(),
        approved,
    })
}

impl WriteOutcome {
    pub(crate) fn print(&self, globals: &Globals) {
        if globals.quiet {
            return;
        }
        let Self { name, scope, transport, file, .. } = self;
        let file = file.display();
        term::note(&if self.replaced {
            format!("replaced `{name}` ({transport}) in the {scope} scope, in {file}")
        } else {
            format!("added `{name}` ({transport}) to the {scope} scope, in {file}")
        });
        if self.approved {
            term::note("approved for you; other users must approve it first");
        }
        for other in &self.hides {
            term::note(&format!("it shadows the one of the {other} scope"));
        }
        if let Some(reason) = &self.reason {
            term::warning(&format!("`{name}` is not used: {reason}"));
        }
    }
}
