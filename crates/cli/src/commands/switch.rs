//! `wharf enable` and `wharf disable`: stored in the local scope, so that other users are not affected.

use serde_json::json;
use wharf::ServerName;
use wharf::config::Editor;
use wharf::fleet::Scope;

use super::common::ServerArg;
use super::server_row::ServerRow;
use crate::config::writing::WriteError;
use crate::config::{Setup, describe};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

pub(crate) async fn run(globals: &Globals, server: ServerArg, switch: Switch) -> Exit {
    let name = &server.name;
    let (standing, reason) = match set(globals, name, switch) {
        Ok(state) => state,
        Err(error) => return error.report(),
    };
    if globals.json {
        let result = json!({ "version": 1, "name": name, "standing": standing, "reason": reason });
        return term::json(&result).await;
    }
    if !globals.quiet {
        let verb = if switch == Switch::On { "enabled" } else { "disabled" };
        term::note(&format!("{verb} `{name}` for you in this project"));
        match reason {
            Some(reason) if switch == Switch::On => term::warning(&format!("`{name}` is still not used: {reason}")),
            None if switch == Switch::Off => term::warning(&format!("`{name}` is still used")),
            _ => {}
        }
    }
    Exit::Done
}

/// Enables or disables a server, and returns its standing and why it is not used.
fn set(globals: &Globals, name: &str, switch: Switch) -> Result<(&'static str, Option<String>), WriteError> {
    let setup = Setup::read(globals)?;
    if !setup.names().contains(&name) {
        return Err(setup.unknown_server(name).into());
    }
    let parsed: ServerName = name.parse()?;
    let mut editor = Editor::open(setup.paths.of(Scope::Local)?, Scope::Local)?;
    match switch {
        Switch::On => editor.enable(&parsed),
        Switch::Off => editor.disable(&parsed),
    }?;
    editor.save()?;
    let setup = Setup::read(globals)?;
    if let Some(found) = setup.loaded.find(name) {
        return Ok((found.eligibility.as_str(), describe::reason(found)));
    }
    let row = setup.loaded.find_broken(name).map(ServerRow::invalid);
    Ok(row.map_or(("broken", None), |row| (row.standing, row.reason)))
}
