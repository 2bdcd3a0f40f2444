//! Changing configuration files: checked as loading would do it, then written, then told what came of it.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use wharf::config::{
    Approvals, ApprovalsError, ConfiguredServer, EditError, Editor, Eligibility, OnExisting, Problem, RawEntry,
    ReadServer, read_server_to_keep,
};
use wharf::fleet::Scope;
use wharf::{InvalidName, ServerName};

use crate::args::Globals;
use crate::describe;
use crate::exit::Exit;
use crate::places::{Places, homeless};
use crate::render;
use crate::servers::{Misuse, misuse};
use crate::setup::Setup;

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It makes no sense.
    Misuse(Misuse),
    /// It is not what a server's entry has to be, or a file is not what it has to be.
    Problems(Vec<Problem>),
    /// It could not be done.
    Failed(String),
}

impl From<Misuse> for Trouble {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl From<InvalidName> for Trouble {
    fn from(error: InvalidName) -> Self {
        Self::Misuse(misuse(error.to_string(), None))
    }
}

impl From<EditError> for Trouble {
    fn from(error: EditError) -> Self {
        let what = error.to_string();
        match error {
            EditError::Exists { .. } => Self::Misuse(misuse(what, Some("--force puts the new one in its place"))),
            EditError::Missing { .. } => Self::Misuse(misuse(what, None)),
            EditError::Unreadable(problem) => Self::Problems(vec![*problem]),
            EditError::Raced(_) | EditError::Io { .. } => Self::Failed(what),
        }
    }
}

impl From<ApprovalsError> for Trouble {
    fn from(error: ApprovalsError) -> Self {
        match error {
            ApprovalsError::Corrupt(problem) => Self::Problems(vec![*problem]),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Trouble {
    /// Tells it, and how the command ends.
    pub(crate) fn tell(&self) -> Exit {
        match self {
            Self::Misuse(misuse) => render::misuse(misuse),
            Self::Problems(problems) => problems.iter().for_each(render::problem),
            Self::Failed(what) => {
                render::error(what, &[], None);
                return Exit::Failed;
            }
        }
        Exit::Usage
    }
}

/// Reads an entry as loading would, and looks whether it may be used. A variable that is not set now may be by then.
pub(crate) fn check(setup: &Setup, name: &str, entry: &str, scope: Scope) -> Result<ReadServer, Trouble> {
    let read = read_server_to_keep(name, entry, scope, &setup.variables).map_err(Trouble::Problems)?;
    match setup.loaded.rules.permits(&read.server) {
        Ok(()) => Ok(read),
        Err(reason) => Err(misuse(format!("the server `{name}` may not be used: {reason}"), None).into()),
    }
}

/// Writes a server into the file of a scope, and says which file that is, and whether one of that name stood there.
pub(crate) fn write(
    places: &Places,
    scope: Scope,
    (name, entry): (&ServerName, &Value),
    force: bool,
) -> Result<(PathBuf, bool), Trouble> {
    let file = places.of(scope)?;
    let mut editor = Editor::open(file, scope)?;
    let replaced = editor.names().iter().any(|other| other == name.as_str());
    editor.add(name, entry, if force { OnExisting::Replace } else { OnExisting::Refuse })?;
    editor.save()?;
    Ok((file.to_owned(), replaced))
}

/// Notes that servers of this project are approved as they are written.
pub(crate) fn approve<'a>(
    places: &Places,
    servers: impl IntoIterator<Item = (&'a ServerName, &'a RawEntry)>,
) -> Result<(), Trouble> {
    let file = places.approvals.as_ref().ok_or_else(homeless)?;
    let mut approvals = Approvals::load(file)?;
    for (name, written) in servers {
        approvals.approve(&places.project.root, name, written);
    }
    Ok(approvals.save()?)
}

/// What became of a server that was written.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    version: u32,
    name: String,
    scope: Scope,
    transport: &'static str,
    file: PathBuf,
    /// Whether another one of that name stood there.
    replaced: bool,
    /// Whether it is used now, and if not, why.
    standing: &'static str,
    reason: Option<String>,
    /// Servers of the same name that are not used any more.
    hides: Vec<Scope>,
    /// Whether it was approved on the way.
    approved: bool,
}

/// Looks what became of a server that was just written. One that somebody writes into a project's file is approved by
/// the same hand.
pub(crate) fn outcome(globals: &Globals, read: &ReadServer, file: PathBuf, replaced: bool) -> Result<Outcome, Trouble> {
    let ReadServer { server, written, .. } = read;
    let scope = server.scope;
    let mut setup = Setup::read(globals)?;
    let mine = |found: &&ConfiguredServer| found.server.name == server.name && found.server.scope == scope;
    let waiting = setup
        .loaded
        .servers
        .iter()
        .find(mine)
        .filter(|found| matches!(found.standing, Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_)));
    let mut approved = false;
    let broken = setup.loaded.broken.iter().find(|broken| broken.name == server.name.as_str() && broken.scope == scope);
    let is_broken = broken.is_some();
    if waiting.is_some() || (is_broken && scope == Scope::Project) {
        approve(&setup.places, [(&server.name, written)])?;
        approved = true;
        setup = Setup::read(globals)?;
    }
    let servers = &setup.loaded.servers;
    let hidden = |found: &&ConfiguredServer| {
        found.server.name == server.name && found.standing == Eligibility::Shadowed { by: scope }
    };
    let found = servers.iter().find(mine);
    Ok(Outcome {
        version: 1,
        name: server.name.to_string(),
        scope,
        transport: server.reach.transport(),
        file,
        replaced,
        standing: match found {
            Some(found) => found.standing.as_str(),
            // What it lacks has been told already.
            None if is_broken => "broken",
            None => "ready",
        },
        reason: found.and_then(describe::reason),
        hides: servers.iter().filter(hidden).map(|found| found.server.scope).collect(),
        approved,
    })
}

impl Outcome {
    /// Tells it to a person.
    pub(crate) fn tell(&self, globals: &Globals) {
        if globals.quiet {
            return;
        }
        let Self { name, scope, transport, file, .. } = self;
        let file = file.display();
        render::note(&if self.replaced {
            format!("replaced `{name}` ({transport}) in the {scope} scope, in {file}")
        } else {
            format!("added `{name}` ({transport}) to the {scope} scope, in {file}")
        });
        if self.approved {
            render::note("it is approved for you; everybody else is asked first");
        }
        for other in &self.hides {
            render::note(&format!("it takes the place of the one in the {other} scope"));
        }
        if let Some(reason) = &self.reason {
            render::warning(&format!("`{name}` is not used: {reason}"));
        }
    }
}
