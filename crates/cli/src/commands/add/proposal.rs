//! Adding a server that someone else describes: shown in full and confirmed before it is written.

use serde_json::{Map, Value};
use wharf::ServerName;
use wharf::config::{Approval, OnExisting};
use wharf::fleet::Scope;

use super::write;
use crate::config::Setup;
use crate::config::writing::{self, NewEntry, WriteError};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;
use crate::term::prompt::is_interactive;
use crate::term::review::{Detail, ask_to_add, show};

/// An entry to add after the user has seen it.
pub(super) struct Proposal {
    pub(super) name: ServerName,
    pub(super) entry: Map<String, Value>,
    /// Where it comes from and what is known about it, a line each.
    pub(super) origin: Vec<String>,
    /// What the user should know about the entry.
    pub(super) notes: Vec<String>,
}

/// How a proposal is added.
pub(super) struct AddOptions {
    pub(super) scope: Scope,
    pub(super) on_existing: OnExisting,
    /// Whether the user has agreed beforehand.
    pub(super) yes: bool,
}

/// Shows an entry, asks, and writes it.
pub(super) async fn add(globals: &Globals, proposal: Proposal, options: &AddOptions) -> Exit {
    match confirmed(globals, &proposal, options) {
        Ok(true) => {}
        Ok(false) => {
            if !globals.quiet {
                term::note(&format!("not added: {}", proposal.name));
            }
            return Exit::Failed;
        }
        Err(error) => return error.report(),
    }
    let entry = Value::Object(proposal.entry);
    let AddOptions { scope, on_existing, .. } = *options;
    write(globals, &NewEntry { name: &proposal.name, entry: &entry, scope, on_existing }).await
}

fn confirmed(globals: &Globals, proposal: &Proposal, options: &AddOptions) -> Result<bool, WriteError> {
    let setup = Setup::read(globals)?;
    let entry = Value::Object(proposal.entry.clone()).to_string();
    // An entry that may not be added is not worth a question.
    let read = writing::check(&setup, proposal.name.as_str(), &entry, options.scope)?;
    let review = Approval::new(&setup.paths.project.root, &proposal.name, &read.written, Vec::new());
    // Without a terminal no question is seen, so everything is shown even with --quiet, unless it is agreed to.
    if !globals.quiet || !options.yes {
        proposal.origin.iter().for_each(|line| term::line(line));
        let detail = if options.yes || !is_interactive() { Detail::Whole } else { Detail::Short };
        show(&review, detail);
        proposal.notes.iter().for_each(|note| term::note(note));
    }
    Ok(options.yes || ask_to_add(&review, "if you have reviewed it, pass --yes")?)
}
