//! Reads the entry of a single server, outside of a configuration file.

use std::path::Path;

use crate::cursor::Document;
use crate::entry::{self, Entry, EntryContext, ReadPurpose};
use crate::expand::Variables;
use crate::problem::{Problem, ProblemKind, Severity};
use crate::raw_entry::RawEntry;
use crate::server::{Scope, Server};

/// A server and its entry.
#[derive(Clone, Debug)]
pub struct ReadServer {
    /// The server to run.
    pub server: Server,
    /// The entry before variables are expanded.
    pub written: RawEntry,
    /// Warnings and notes.
    pub problems: Vec<Problem>,
}

/// Reads one entry, such as one from a command line; `text` is the JSON value of the entry.
///
/// Problems have no file: they begin with the path of the key.
///
/// # Errors
/// Returns all problems if one of them is an error.
pub fn read_server(name: &str, text: &str, scope: Scope, variables: &Variables) -> Result<ReadServer, Vec<Problem>> {
    read(name, text, EntryContext { scope, variables, base_dir: None, purpose: ReadPurpose::Run })
}

/// Like [`read_server`], for an entry that is only stored: an unset variable is a warning. The returned server must not
/// be run.
///
/// # Errors
/// Returns all problems if one of them is an error.
pub fn read_server_to_keep(
    name: &str,
    text: &str,
    scope: Scope,
    variables: &Variables,
) -> Result<ReadServer, Vec<Problem>> {
    read(name, text, EntryContext { scope, variables, base_dir: None, purpose: ReadPurpose::Store })
}

fn read(name: &str, text: &str, context: EntryContext<'_>) -> Result<ReadServer, Vec<Problem>> {
    let document = Document::parse(Path::new(""), text).map_err(|problem| vec![problem.of_server(name)])?;
    let mut entry = entry::read(name, &document.root().with_path(name), context);
    if context.purpose == ReadPurpose::Store {
        reject_ignored(&mut entry);
    }
    match entry.server {
        Some((server, written)) => {
            Ok(ReadServer { server: Server { origin: None, ..server }, written, problems: entry.problems })
        }
        None => Err(entry.problems),
    }
}

/// Rejects what is only ignored in existing files: the author of a new entry can still fix it.
fn reject_ignored(entry: &mut Entry) {
    for problem in entry.problems.iter_mut().filter(|problem| problem.kind == ProblemKind::IgnoredTimeout) {
        problem.severity = Severity::Error;
        entry.server = None;
    }
}
