//! Where configuration comes from.

use std::path::{Path, PathBuf};

use crate::project::ProjectFile;
use crate::server::{Scope, Server};

/// The sources that [`load`](crate::load()) reads. Files need not exist.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The system-wide enterprise files; all of them apply.
    pub enterprise: Vec<PathBuf>,
    /// Additional files to read as enterprise files. If a system-wide one exists, these can only restrict: otherwise
    /// users could give their own servers the enterprise scope.
    pub named_enterprise: Vec<PathBuf>,
    /// The user's file for this project.
    pub local: Option<PathBuf>,
    /// The user's file for all projects.
    pub user: Option<PathBuf>,
    /// The project's file.
    pub project: Option<ProjectFile>,
    /// Servers for this run only.
    pub dynamic: Vec<Server>,
    /// The response of a provider; [`cloud_allowed`] says whether one may be requested.
    pub cloud: Option<CloudText>,
    /// The precedence of scopes, highest first.
    pub order: Vec<Scope>,
    /// Whether to use only the dynamic servers. Rules, policy and hooks of the files still apply to them.
    pub only_dynamic: bool,
}

/// A configuration that a provider sent, in the format of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudText {
    /// The URL it came from, for messages.
    pub from: String,
    /// The content.
    pub text: String,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            enterprise: Vec::new(),
            named_enterprise: Vec::new(),
            local: None,
            user: None,
            project: None,
            dynamic: Vec::new(),
            cloud: None,
            order: Scope::ALL.to_vec(),
            only_dynamic: false,
        }
    }
}

/// Returns whether servers may be requested from a provider: not if an enterprise file exists. Checks nothing else.
pub fn cloud_allowed(sources: &Sources) -> bool {
    !sources.enterprise.iter().chain(&sources.named_enterprise).any(|file| may_exist(file))
}

/// Returns whether a file exists. A file that cannot be inspected counts as existing.
pub(crate) fn may_exist(file: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match file.symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), NotFound | NotADirectory),
    }
}
