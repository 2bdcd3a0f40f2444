//! Adding a server that someone else describes: shown in full and confirmed before it is written.

use serde_json::{Map, Value};
use wharf::ServerName;
use wharf::config::{Approval, OnExisting, ReadServer};
use wharf::fleet::Scope;

use super::write;
use crate::config::Setup;
use crate::config::writing::{self, NewEntry, WriteError};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term::heading;
use crate::term::prompt::is_interactive;
use crate::term::review::{Detail, Reviewed, ask_to_add, show, show_values};
use crate::{env, term};

/// An entry to add after the user has seen it.
pub(super) struct Proposal {
    pub(super) name: ServerName,
    pub(super) entry: Map<String, Value>,
    /// The entry without the secrets that the user provided, if there are any.
    pub(super) without_secrets: Option<Map<String, Value>>,
    /// Where it comes from.
    pub(super) title: String,
    /// What its authors say, and what the user should know about the entry.
    pub(super) about: Vec<Reviewed>,
    /// Risks that the entry alone does not show, as predicates of the server.
    pub(super) dangers: Vec<String>,
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
    let review = review(&setup, proposal, options)?;
    // Without a terminal no question is seen, so everything is shown even with --quiet, unless it is agreed to.
    if !globals.quiet || !options.yes {
        heading(&proposal.title);
        show_values(&proposal.about);
        let detail = if options.yes || !is_interactive() { Detail::Whole } else { Detail::Short };
        show(&review, detail);
    }
    Ok(options.yes || ask_to_add(&review, "if you have reviewed it, pass --yes")?)
}

/// Returns what the user reviews. An entry that may not be added is not worth a question.
fn review(setup: &Setup, proposal: &Proposal, options: &AddOptions) -> Result<Approval, WriteError> {
    let Proposal { name, .. } = proposal;
    let checked = |entry: &Map<String, Value>| -> Result<Approval, WriteError> {
        let entry = Value::Object(entry.clone()).to_string();
        let ReadServer { written, .. } = writing::check(setup, name.as_str(), &entry, options.scope)?;
        Ok(Approval::new(&setup.paths.project.root, name, &written, Vec::new()))
    };
    let mut review = checked(&proposal.entry)?;
    if let Some(entry) = &proposal.without_secrets {
        review = checked(entry)?;
    }
    for (other, scope) in setup.loaded.similar_names(name.as_str()) {
        review.dangers.push(if other == name.as_str() {
            format!("takes the name of a server of the {scope} scope")
        } else {
            format!("has a name that looks like `{other}` of the {scope} scope")
        });
    }
    // A name that the author chose may be that of a variable which holds something else.
    let is_set = |variable: &&String| env::variable(&[variable.as_str()]).is_some();
    let read = review.reads.iter().filter(is_set).map(|variable| format!("reads your {variable}, which is set"));
    let read: Vec<String> = read.collect();
    review.dangers.extend(read.into_iter().chain(proposal.dangers.iter().cloned()));
    Ok(review)
}
