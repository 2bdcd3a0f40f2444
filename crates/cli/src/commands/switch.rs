//! `wharf enable` and `wharf disable`: stored in the local scope, so that other users are not affected.

use serde::Serialize;
use wharf::ServerName;
use wharf::config::Editor;
use wharf::fleet::Scope;

use super::common::ServersArg;
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

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonSwitched {
    version: u32,
    servers: Vec<Switched>,
}

/// A server after it was enabled or disabled.
#[derive(Serialize)]
struct Switched {
    name: String,
    standing: &'static str,
    /// Why it is not used.
    reason: Option<String>,
}

pub(crate) async fn run(globals: &Globals, servers: ServersArg, switch: Switch) -> Exit {
    let servers = match set(globals, &servers.names, switch) {
        Ok(servers) => servers,
        Err(error) => return error.report(),
    };
    if globals.json {
        return term::json(&JsonSwitched { version: 1, servers }).await;
    }
    if !globals.quiet {
        for server in &servers {
            report(server, switch);
        }
    }
    Exit::Done
}

fn report(Switched { name, reason, .. }: &Switched, switch: Switch) {
    let verb = if switch == Switch::On { "enabled" } else { "disabled" };
    term::note(&format!("{verb} `{name}` for you in this project"));
    match reason {
        Some(reason) if switch == Switch::On => term::warning(&format!("`{name}` is still not used: {reason}")),
        None if switch == Switch::Off => term::warning(&format!("`{name}` is still used")),
        _ => {}
    }
}

/// Enables or disables servers, all or none.
fn set(globals: &Globals, names: &[String], switch: Switch) -> Result<Vec<Switched>, WriteError> {
    let setup = Setup::read(globals)?;
    let mut editor = Editor::open(setup.paths.of(Scope::Local)?, Scope::Local)?;
    for name in names {
        if !setup.names().contains(&name.as_str()) {
            return Err(setup.unknown_server(name).into());
        }
        let parsed: ServerName = name.parse()?;
        match switch {
            Switch::On => editor.enable(&parsed),
            Switch::Off => editor.disable(&parsed),
        }?;
    }
    editor.save()?;
    let setup = Setup::read(globals)?;
    let switched = |name: &String| {
        let (standing, reason) = if let Some(found) = setup.loaded.find(name) {
            (found.eligibility.as_str(), describe::reason(found))
        } else {
            let row = setup.loaded.find_broken(name).map(ServerRow::invalid);
            row.map_or(("broken", None), |row| (row.standing, row.reason))
        };
        Switched { name: name.clone(), standing, reason }
    };
    Ok(names.iter().map(switched).collect())
}
