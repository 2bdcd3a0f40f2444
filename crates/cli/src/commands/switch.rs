//! `wharf enable` and `wharf disable`: kept in the local file, so that nobody else is concerned.

use serde_json::json;
use wharf::ServerName;
use wharf::config::Editor;
use wharf::fleet::Scope;

use super::list;
use crate::args::{Globals, Named};
use crate::describe;
use crate::exit::Exit;
use crate::render;
use crate::servers::{instead_of, misuse};
use crate::setup::Setup;
use crate::writing::Trouble;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

pub(crate) async fn run(globals: &Globals, named: Named, switch: Switch) -> Exit {
    let told = match switched(globals, &named.name, switch) {
        Ok(told) => told,
        Err(trouble) => return trouble.tell(),
    };
    let (standing, reason) = told;
    if globals.json {
        let shown = json!({ "version": 1, "name": named.name, "standing": standing, "reason": reason });
        return render::json(&shown).await;
    }
    if !globals.quiet {
        let now = if switch == Switch::On { "on" } else { "off" };
        render::note(&format!("`{}` is switched {now}, for you in this project", named.name));
        match reason {
            Some(reason) if switch == Switch::On => {
                render::warning(&format!("`{}` is still not used: {reason}", named.name));
            }
            None if switch == Switch::Off => render::warning(&format!("`{}` is used all the same", named.name)),
            _ => {}
        }
    }
    Exit::Done
}

/// Switches a server, and tells how it stands now.
fn switched(globals: &Globals, name: &str, switch: Switch) -> Result<(&'static str, Option<String>), Trouble> {
    let setup = Setup::read(globals)?;
    if !setup.names().contains(&name) {
        let hint = instead_of(name, &setup.names());
        return Err(misuse(format!("there is no server `{name}`"), Some(&hint)).into());
    }
    let parsed: ServerName = name.parse()?;
    let mut editor = Editor::open(setup.places.of(Scope::Local)?, Scope::Local)?;
    match switch {
        Switch::On => editor.enable(&parsed),
        Switch::Off => editor.disable(&parsed),
    }?;
    editor.save()?;
    let setup = Setup::read(globals)?;
    Ok(match setup.loaded.find(name) {
        Some(found) => (found.standing.as_str(), describe::reason(found)),
        None => {
            setup.loaded.find_broken(name).map(list::broken).map_or(("broken", None), |row| (row.standing, row.reason))
        }
    })
}
