//! `wharf remove`: remove a server from a configuration file.

use clap_complete::ArgValueCandidates;
use serde_json::json;
use wharf::auth::OAuthError;
use wharf::config::{Approvals, Editor, RemoteConfig};
use wharf::fleet::Scope;

use super::common::WriteScope;
use crate::config::writing::WriteError;
use crate::config::{Paths, Setup, servers};
use crate::error::usage_error;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::{complete, term};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  wharf remove time -s user")]
pub(crate) struct Remove {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    name: String,
    /// Scope to remove it from; needed if several scopes have it
    #[arg(short, long, value_enum)]
    scope: Option<WriteScope>,
}

pub(crate) async fn run(globals: &Globals, remove: Remove) -> Exit {
    let Removed { scope, file, approval, remote } = match remove_server(globals, &remove) {
        Ok(removed) => removed,
        Err(error) => return error.report(),
    };
    let mut exit = Exit::Done;
    if globals.json {
        exit = term::json(&json!({ "version": 1, "name": remove.name, "scope": scope, "file": file })).await;
    } else if !globals.quiet {
        term::note(&format!("removed `{}` from the {scope} scope, in {}", remove.name, file.display()));
    }
    if let Some(remote) = remote {
        sign_out(globals, &remove.name, &remote).await;
    }
    match approval {
        Ok(()) => exit,
        Err(error) => {
            term::warning("the server was removed, but its approval was not");
            exit.max(error.report())
        }
    }
}

struct Removed {
    scope: Scope,
    file: std::path::PathBuf,
    /// Whether its approval was removed: a server that is added again must be approved again.
    approval: Result<(), WriteError>,
    /// Its settings, if it is remote.
    remote: Option<RemoteConfig>,
}

fn remove_server(globals: &Globals, remove: &Remove) -> Result<Removed, WriteError> {
    let setup = Setup::read(globals)?;
    let name = &remove.name;
    let paths = &setup.paths;
    let scope = match remove.scope {
        Some(scope) => scope.into(),
        None => only_scope(&setup, name)?,
    };
    let file = paths.of(scope)?.to_owned();
    let here =
        setup.loaded.servers.iter().find(|found| found.server.name.as_str() == name && found.server.scope == scope);
    let config = here.and_then(|found| servers::remote(&found.server.transport)).cloned();
    let mut editor = Editor::open(&file, scope)?;
    editor.remove(name)?;
    editor.save()?;
    let approval = if scope == Scope::Project { revoke_approval(paths, name) } else { Ok(()) };
    Ok(Removed { scope, file, approval, remote: config })
}

/// Signs out of a removed server, unless another server shares its URL. A failure does not undo the removal.
async fn sign_out(globals: &Globals, name: &str, removed: &RemoteConfig) {
    // The configuration without the server.
    let Ok(setup) = Setup::read(globals) else { return };
    match setup.sign_out_of_removed(removed).await {
        Ok(true) if !globals.quiet => term::note(&format!("signed out of {name}")),
        Ok(_) => {}
        Err(OAuthError::Store(error)) => term::warning(&format!("cannot delete the stored credentials: {error}")),
        Err(error) => term::warning(&format!("deleted the stored credentials, but could not revoke them: {error}")),
    }
}

fn revoke_approval(paths: &Paths, name: &str) -> Result<(), WriteError> {
    let Some(file) = &paths.approvals else { return Ok(()) };
    let mut approvals = Approvals::load(file)?;
    if approvals.revoke(&paths.project.root, name) {
        approvals.save()?;
    }
    Ok(())
}

/// Returns the only scope whose file has the server.
fn only_scope(setup: &Setup, name: &str) -> Result<Scope, WriteError> {
    let mut scopes: Vec<Scope> = Vec::new();
    let mut unreadable = None;
    for scope in [WriteScope::Local, WriteScope::User, WriteScope::Project] {
        let scope = Scope::from(scope);
        let Ok(file) = setup.paths.of(scope) else { continue };
        // An invalid file does not affect another one.
        match Editor::open(file, scope) {
            Ok(editor) if editor.names().iter().any(|other| other == name) => scopes.push(scope),
            Ok(_) => {}
            Err(error) => unreadable = Some(error),
        }
    }
    match (&scopes[..], unreadable) {
        ([scope], _) => Ok(*scope),
        ([], Some(error)) => Err(error.into()),
        ([], None) => {
            let elsewhere = setup.loaded.servers.iter().find(|found| found.server.name.as_str() == name);
            Err(match elsewhere {
                Some(found) => {
                    let hint = format!("disable it instead: wharf disable {name}");
                    usage_error(format!("server `{name}` belongs to the {} scope", found.server.scope), Some(&hint))
                }
                None => setup.unknown_server(name),
            }
            .into())
        }
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|scope| scope.as_str()).collect();
            let hint = format!("choose one: wharf remove {name} -s {}", names[0]);
            let message = format!("server `{name}` is in several scopes: {}", names.join(", "));
            Err(usage_error(message, Some(&hint)).into())
        }
    }
}
