//! `wharf get`: details of one server.

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use serde_json::{Map, Value};
use wharf::config::{ConfiguredServer, Eligibility, InvalidEntry, Problem, TransportKind};
use wharf::fleet::ServerStatus;

use super::server_row::{ServerRow, Usability};
use crate::config::describe::{self, SettingSource, WrittenTarget};
use crate::config::{FleetLifetime, ServerSelection, Setup};
use crate::error::UsageError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::term::StartupDisplay;
use crate::{complete, completion_cache, failure, term};

/// The column of a value, after its key.
const INDENT: usize = 13;
/// The least width for a value.
const MIN_TEXT_WIDTH: usize = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    name: String,
    /// Only show the configuration, without connecting
    #[arg(long)]
    no_connect: bool,
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonDetails<'a> {
    version: u32,
    server: ServerRow,
    /// The names of its variables and headers, without their values.
    env: Vec<SettingSource>,
    headers: Vec<SettingSource>,
    /// Its other settings.
    settings: Map<String, Value>,
    protocol: Option<String>,
    /// Servers of the same name that it shadows.
    others: Vec<ServerRow>,
    problems: Vec<&'a Problem>,
}

pub(crate) async fn run(globals: &Globals, get: Get) -> Exit {
    Box::pin(get_server(globals, &get)).await.unwrap_or_else(|error| term::usage_error(&error))
}

async fn get_server(globals: &Globals, get: &Get) -> Result<Exit, UsageError> {
    let selection = ServerSelection::One(&get.name);
    let setup = Setup::load_for(globals, selection).await?;
    if let Some(invalid) = setup.loaded.find_broken(&get.name) {
        let written = show_invalid(globals, &setup, invalid).await;
        return Ok(if invalid.disabled.is_some() { written } else { Exit::Usage });
    }
    let Some(found) = setup.loaded.find(&get.name) else { return Err(setup.unknown_server(&get.name)) };
    if get.no_connect || found.eligibility != Eligibility::Ready {
        return Ok(show(globals, &setup, found, None).await);
    }
    let fleet = setup.open_to_list(selection, FleetLifetime::Recheck)?;
    let exit = guarded(&fleet, async {
        StartupDisplay::watch(&fleet, globals.quiet).await;
        completion_cache::store_tools(&setup.paths, &fleet);
        let status = fleet.status(&found.server.name);
        let written = show(globals, &setup, found, status.as_ref()).await;
        if let Some(status) = status.as_ref().filter(|status| status.error().is_some()) {
            failure::print_status(status, globals);
        }
        status.map_or(written, |status| Exit::from(&status).max(written))
    });
    Ok(exit.await)
}

fn shadowed(setup: &Setup, name: &str) -> Vec<ServerRow> {
    let is_shadowed = |found: &&ConfiguredServer| {
        found.server.name.as_str() == name && matches!(found.eligibility, Eligibility::Shadowed { .. })
    };
    setup.loaded.servers.iter().filter(is_shadowed).map(|found| ServerRow::new(found, None)).collect()
}

fn problems<'a>(setup: &'a Setup, name: &str) -> Vec<&'a Problem> {
    setup.loaded.problems.iter().filter(|problem| problem.server.as_deref() == Some(name)).collect()
}

async fn show(globals: &Globals, setup: &Setup, found: &ConfiguredServer, status: Option<&ServerStatus>) -> Exit {
    // Naming the server makes it required for this command; show what its entry says.
    let row = ServerRow { required: found.server.settings.required, ..ServerRow::new(found, status) };
    let name = found.server.name.as_str();
    let details = JsonDetails {
        version: 1,
        env: describe::setting_sources(found, "env"),
        headers: describe::setting_sources(found, "headers"),
        settings: describe::settings(found),
        protocol: status.and_then(|status| status.info.as_ref()).map(|info| info.protocol()),
        others: shadowed(setup, name),
        problems: problems(setup, name),
        server: row,
    };
    if globals.json {
        return term::json(&details).await;
    }
    let key = if details.server.transport == Some(TransportKind::Stdio) { "command" } else { "url" };
    let target = details.server.target.clone().map(|text| WrittenTarget { key, text });
    term::out(text(&details, &Vec::from_iter(target), status)).await
}

async fn show_invalid(globals: &Globals, setup: &Setup, invalid: &InvalidEntry) -> Exit {
    let details = JsonDetails {
        version: 1,
        server: ServerRow::invalid(invalid),
        env: Vec::new(),
        headers: Vec::new(),
        settings: Map::new(),
        protocol: None,
        others: shadowed(setup, &invalid.name),
        problems: problems(setup, &invalid.name),
    };
    if globals.json {
        return term::json(&details).await;
    }
    term::out(text(&details, &describe::written_targets(&invalid.target), None)).await
}

fn text(details: &JsonDetails<'_>, targets: &[WrittenTarget], status: Option<&ServerStatus>) -> String {
    let row = &details.server;
    let room = term::terminal_width().map_or(usize::MAX, |width| usize::from(width).saturating_sub(INDENT));
    let mut lines = vec![term::name(&row.name)];
    let mut line = |key: &str, value: &str| {
        let rows = match term::name(value) {
            value if term::columns(&value) <= room => vec![value],
            value => term::broken(&value, room.max(MIN_TEXT_WIDTH)),
        };
        for (index, row) in rows.iter().enumerate() {
            lines.push(format!("  {:<10} {row}", if index == 0 { key } else { "" }));
        }
    };
    let place = |row: &ServerRow| {
        row.origin.as_ref().map_or_else(String::new, |origin| format!(", {}:{}", origin.file.display(), origin.line))
    };
    line("scope", &format!("{}{}", row.scope, place(row)));
    if let Some(transport) = row.transport {
        line("transport", transport.as_str());
    }
    for target in targets {
        line(target.key, &target.text);
    }
    details.env.iter().for_each(|variable| line("env", &variable.to_string()));
    details.headers.iter().for_each(|header| line("header", &header.to_string()));
    for (key, value) in &details.settings {
        line(key, &value.to_string());
    }
    let reason = row.reason.as_ref().map(|reason| reason.lines().next().unwrap_or_default());
    line(
        "state",
        &match reason {
            // The reason names the state: `duplicate of …`, `shadowed by …`.
            Some(reason) if row.usability == Usability::Replaced => format!("- {reason}"),
            Some(reason) => format!("{}: {reason}", row.marked_state()),
            None => row.marked_state(),
        },
    );
    if let Some(info) = status.and_then(|status| status.info.as_ref()) {
        line("server", &format!("{} {}, protocol {}", info.name, info.version, info.protocol()));
        line("offers", &term::counted(row.tools, "tool"));
    }
    for other in &details.others {
        line("shadows", &format!("{} scope{}", other.scope, place(other)));
    }
    lines.join("\n")
}
