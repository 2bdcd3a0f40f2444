//! `wharf remove`: a server out of a file.

use serde_json::json;
use wharf::fleet::Scope;
use wharf::fleet::config::{Approvals, Editor};

use crate::args::{Globals, Place, Remove};
use crate::exit::Exit;
use crate::render;
use crate::servers::{instead_of, misuse};
use crate::setup::Setup;
use crate::writing::Trouble;

pub(crate) async fn run(globals: &Globals, remove: Remove) -> Exit {
    let (scope, file) = match removed(globals, &remove) {
        Ok(removed) => removed,
        Err(trouble) => return trouble.tell(),
    };
    if globals.json {
        return render::json(&json!({ "version": 1, "name": remove.name, "scope": scope, "file": file })).await;
    }
    if !globals.quiet {
        render::note(&format!("removed `{}` from the {scope} scope, in {}", remove.name, file.display()));
    }
    Exit::Done
}

fn removed(globals: &Globals, remove: &Remove) -> Result<(Scope, std::path::PathBuf), Trouble> {
    let setup = Setup::read(globals)?;
    let (name, places) = (&remove.name, &setup.places);
    let scope = match remove.scope {
        Some(place) => place.into(),
        None => only_scope(&setup, name)?,
    };
    let file = places.of(scope)?.to_owned();
    let mut editor = Editor::open(&file, scope)?;
    editor.remove(name)?;
    editor.save()?;
    if let (Scope::Project, Some(approvals)) = (scope, &places.approvals) {
        // What is added again is looked at again.
        let mut approvals = Approvals::load(approvals)?;
        if approvals.revoke(&places.project.root, name) {
            approvals.save()?;
        }
    }
    Ok((scope, file))
}

/// The one scope whose file has the server.
fn only_scope(setup: &Setup, name: &str) -> Result<Scope, Trouble> {
    let mut scopes: Vec<Scope> = Vec::new();
    for place in [Place::Local, Place::User, Place::Project] {
        let scope = Scope::from(place);
        let Ok(file) = setup.places.of(scope) else { continue };
        if file.exists() && Editor::open(file, scope)?.names().iter().any(|other| other == name) {
            scopes.push(scope);
        }
    }
    match &scopes[..] {
        [scope] => Ok(*scope),
        [] => {
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
        several => {
            let names: Vec<&str> = several.iter().map(|scope| scope.as_str()).collect();
            let hint = format!("say which: wharf remove {name} -s {}", names[0]);
            let what = format!("the server `{name}` is in several scopes: {}", names.join(", "));
            Err(misuse(what, Some(&hint)).into())
        }
    }
}
