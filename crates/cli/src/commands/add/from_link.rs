//! `wharf add LINK`: the one-click links of web pages for VS Code and Cursor.

use wharf::config::import::{LinkedServer, read_link};

use super::Add;
use super::proposal::{AddOptions, Proposal, add};
use crate::config::Setup;
use crate::error::usage_error;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;
use crate::term::review::Reviewed;

pub(super) async fn run(globals: &Globals, args: &Add, options: &AddOptions) -> Exit {
    let proposal = Setup::read(globals).and_then(|setup| {
        let project = &setup.paths.project.root;
        let LinkedServer { host, server } =
            read_link(&args.name, Some(project)).map_err(|error| usage_error(error.to_string(), None))?;
        let name = match &args.name_as {
            Some(name) => name.parse().map_err(|error: wharf::InvalidName| usage_error(error.to_string(), None))?,
            None => server.name,
        };
        Ok(Proposal {
            name,
            entry: server.entry,
            without_secrets: None,
            title: format!("a link for {host}"),
            about: server.notes.iter().map(|note| Reviewed::new("note", note)).collect(),
            dangers: Vec::new(),
        })
    });
    match proposal {
        Ok(proposal) => add(globals, proposal, options).await,
        Err(error) => term::usage_error(&error),
    }
}
