//! Arguments that several commands share.

use clap::ValueEnum;
use clap_complete::ArgValueCandidates;
use wharf::fleet::Scope;

use crate::complete;

/// A scope whose file users edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WriteScope {
    /// You, in this project
    Local,
    /// You, in every project
    User,
    /// Everyone who works on this project (.mcp.json)
    Project,
}

impl From<WriteScope> for Scope {
    fn from(scope: WriteScope) -> Self {
        match scope {
            WriteScope::Local => Self::Local,
            WriteScope::User => Self::User,
            WriteScope::Project => Self::Project,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServerArg {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServersArg {
    /// Server names
    #[arg(value_name = "NAME", required = true, add = ArgValueCandidates::new(complete::servers))]
    pub(crate) names: Vec<String>,
}
