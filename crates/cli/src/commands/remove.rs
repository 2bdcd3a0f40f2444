//! `wharf remove`: a server out of a file.

use serde_json::json;
use wharf::auth::OAuthError;
use wharf::config::{Approvals, Editor, RemoteConfig};
use wharf::fleet::Scope;

use crate::args::{Globals, Place, Remove};
use crate::exit::Exit;
use crate::places::Places;
use crate::servers::{self, instead_of, misuse};
use crate::setup::Setup;
use crate::writing::Trouble;
use crate::{render, sign_ins};

pub(crate) async fn run(globals: &Globals, remove: Remove) -> Exit {
    let Removed { scope, file, approval, was_at } = match removed(globals, &remove) {
        Ok(removed) => removed,
        Err(trouble) => return trouble.tell(),
    };
    let mut exit = Exit::Done;
    if globals.json {
        exit = render::json(&json!({ "version": 1, "name": remove.name, "scope": scope, "file": file })).await;
    } else if !globals.quiet {
        render::note(&format!("removed `{}` from the {scope} scope, in {}", remove.name, file.display()));
    }
    if let Some(was_at) = was_at {
        forget_sign_in(globals, &remove.name, &was_at).await;
    }
    match approval {
        Ok(()) => exit,
        Err(trouble) => {
            render::warning("the server is gone, but its approval could not be forgotten");
            exit.max(trouble.tell())
        }
    }
}

/// What was done.
struct Removed {
    scope: Scope,
    file: std::path::PathBuf,
    /// Whether its approval is forgotten; what is added again is looked at again.
    approval: Result<(), Trouble>,
    /// Where the server is, if it is at a URL.
    was_at: Option<RemoteConfig>,
}

fn removed(globals: &Globals, remove: &Remove) -> Result<Removed, Trouble> {
    let setup = Setup::read(globals)?;
    let (name, places) = (&remove.name, &setup.places);
    let scope = match remove.scope {
        Some(place) => place.into(),
        None => only_scope(&setup, name)?,
    };
    let file = places.of(scope)?.to_owned();
    let here =
        setup.loaded.servers.iter().find(|found| found.server.name.as_str() == name && found.server.scope == scope);
    let was_at = here.and_then(|found| servers::remote(&found.server.reach)).cloned();
    let mut editor = Editor::open(&file, scope)?;
    editor.remove(name)?;
    editor.save()?;
    let approval = if scope == Scope::Project { forget(places, name) } else { Ok(()) };
    Ok(Removed { scope, file, approval, was_at })
}

/// Whoever is gone has no sign-in any more, unless another server is at the same address. The server is removed
/// whatever comes of it.
async fn forget_sign_in(globals: &Globals, name: &str, gone: &RemoteConfig) {
    // As it is now.
    let Ok(setup) = Setup::read(globals) else { return };
    match sign_ins::forget(&setup, gone).await {
        Ok(true) if !globals.quiet => render::note(&format!("signed out of {name}")),
        Ok(_) => {}
        Err(OAuthError::Store(error)) => render::warning(&format!("the sign-in could not be forgotten: {error}")),
        Err(error) => render::warning(&format!("the sign-in was forgotten, but could not be revoked: {error}")),
    }
}

fn forget(places: &Places, name: &str) -> Result<(), Trouble> {
    let Some(file) = &places.approvals else { return Ok(()) };
    let mut approvals = Approvals::load(file)?;
    if approvals.revoke(&places.project.root, name) {
        approvals.save()?;
    }
    Ok(())
}

/// The one scope whose file has the server.
fn only_scope(setup: &Setup, name: &str) -> Result<Scope, Trouble> {
    let mut scopes: Vec<Scope> = Vec::new();
    let mut unreadable = None;
    for place in [Place::Local, Place::User, Place::Project] {
        let scope = Scope::from(place);
        let Ok(file) = setup.places.of(scope) else { continue };
        // One file that cannot be understood does not stand in the way of another.
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
                    let hint = format!("switch it off instead: wharf disable {name}");
                    misuse(format!("the server `{name}` is of the {} scope", found.server.scope), Some(&hint))
                }
                None => misuse(format!("there is no server `{name}`"), Some(&instead_of(name, &setup.names()))),
            }
            .into())
        }
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|scope| scope.as_str()).collect();
            let hint = format!("say which: wharf remove {name} -s {}", names[0]);
            let what = format!("the server `{name}` is in several scopes: {}", names.join(", "));
            Err(misuse(what, Some(&hint)).into())
        }
    }
}
