//! The result of loading: servers, invalid entries, problems and settings.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use wharf_protocol::ServerName;

use crate::approval::Approval;
use crate::look_alike::skeleton;
use crate::problem::Problem;
use crate::raw_entry::RawEntry;
use crate::rules::Rules;
use crate::server::{Scope, Server, SourceLocation};

/// Everything that [`load`](crate::load()) found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All servers with a valid entry: highest scope first, in file order within a scope.
    pub servers: Vec<ConfiguredServer>,
    /// The invalid entries.
    pub broken: Vec<InvalidEntry>,
    /// All problems, in the order of the sources.
    pub problems: Vec<Problem>,
    /// Which servers may be used; also applies to servers that are added later.
    pub rules: Rules,
    /// Whether servers of a provider may be used.
    pub cloud_allowed: bool,
    /// Existing files that could not be read, by scope. Nothing is known about their content.
    pub lost: Vec<(Scope, PathBuf)>,
    /// The `policy` settings of the files.
    pub policy: Vec<RawSetting>,
    /// The `hooks` settings of the files.
    pub hooks: Vec<RawSetting>,
    /// The provider URLs of the files, highest scope first.
    pub cloud: Vec<RawSetting>,
    /// The registry URLs of the files, highest scope first.
    pub registry: Vec<RawSetting>,
}

/// A server with a valid entry, and whether it is used.
#[derive(Clone, Debug)]
pub struct ConfiguredServer {
    /// The server to run.
    pub server: Server,
    /// Whether it is used, and if not, why.
    pub eligibility: Eligibility,
    /// The entry before variables are expanded; this is what a person approves.
    pub written: RawEntry,
    /// Why a disabled server may not be enabled temporarily either.
    pub lock: Option<&'static str>,
}

/// Whether a server is used, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The server is used.
    Ready,
    /// A person must approve it first.
    NeedsApproval(Box<Approval>),
    /// The entry changed since it was approved; the approval lists the changes.
    ApprovalChanged(Box<Approval>),
    /// The server is disabled.
    Disabled(DisabledBy),
    /// The server may not be used, with the reason.
    Refused(String),
    /// A higher scope has a server with the same name.
    Shadowed {
        /// The higher scope.
        by: Scope,
    },
    /// Another server with the same URL or command is used.
    Duplicate {
        /// The name of the other server.
        of: ServerName,
    },
}

/// What disabled a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DisabledBy {
    /// Its own entry.
    Entry,
    /// The `disabledServers` of a scope's file.
    List(Scope),
}

/// A server whose entry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidEntry {
    /// The name as written.
    pub name: String,
    /// The scope of the file.
    pub scope: Scope,
    /// The position of the entry.
    pub origin: SourceLocation,
    /// All problems of the entry, including warnings.
    pub problems: Vec<Problem>,
    /// The command, the arguments and the URL as written, as far as they are readable.
    pub target: RawEntry,
    /// Whether the entry sets `required`, as far as it is readable.
    pub required: bool,
    /// What disabled it, if anything. The problems of a disabled entry are harmless.
    pub disabled: Option<DisabledBy>,
}

/// A setting that this crate passes on without interpreting it.
#[derive(Clone, PartialEq, Serialize)]
pub struct RawSetting {
    /// The scope of the file.
    pub scope: Scope,
    /// The position of the key.
    pub origin: SourceLocation,
    /// The value as JSON.
    pub value: Value,
}

/// Omits the value, which may contain a secret.
impl std::fmt::Debug for RawSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawSetting({} {:?})", self.scope, self.origin)
    }
}

impl Loaded {
    /// Returns the servers to run.
    pub fn ready(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|found| found.eligibility == Eligibility::Ready).map(|found| &found.server)
    }

    /// Returns the server with a name; of several, the one of the highest scope.
    pub fn find(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers.iter().find(|found| {
            found.server.name.as_str() == name && !matches!(found.eligibility, Eligibility::Shadowed { .. })
        })
    }

    /// Returns the invalid entry with a name, unless a valid one takes precedence.
    pub fn find_broken(&self, name: &str) -> Option<&InvalidEntry> {
        // An invalid entry in a lower scope must not hide a valid server.
        if self.find(name).is_some() {
            return None;
        }
        self.broken.iter().find(|found| found.name == name)
    }

    /// Returns the servers of all scopes whose name is the same as that of a new one, or looks like it. Invalid entries and
    /// servers that are not used count too: the user knows their names.
    pub fn similar_names(&self, name: &str) -> Vec<(&str, Scope)> {
        let valid = self.servers.iter().map(|found| (found.server.name.as_str(), found.server.scope));
        let broken = self.broken.iter().map(|found| (found.name.as_str(), found.scope));
        let wanted = skeleton(name);
        valid.chain(broken).filter(|(other, _)| skeleton(other) == wanted).collect()
    }

    /// Returns the problems that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_error())
    }
}

impl Eligibility {
    /// Returns a short label for lists.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NeedsApproval(_) => "needs approval",
            Self::ApprovalChanged(_) => "changed since it was approved",
            Self::Disabled(_) => "disabled",
            Self::Refused(_) => "refused",
            Self::Shadowed { .. } => "shadowed",
            Self::Duplicate { .. } => "duplicate",
        }
    }
}
