//! `wharf list`: all configured servers and their state.

use std::collections::BTreeMap;

use anstyle::Style;
use serde::Serialize;
use wharf::config::{Eligibility, Problem, ProblemKind};
use wharf::fleet::{Fleet, ServerState, ServerStatus};

use super::server_row::{ServerRow, Usability, first_error, first_line};
use crate::config::{FleetLifetime, ServerSelection, Setup, dispatcher};
use crate::error::UsageError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::term::StartupDisplay;
use crate::{completion_cache, hints, one_shot, term};

#[derive(Debug, clap::Args)]
#[command(after_help = "Servers of a project that are not approved are listed but not started.\n\
        Exit codes: 4 if a required server is unreachable, 3 if it requires authorization; servers given with --mcp are \
        required.")]
pub(crate) struct List {
    /// Only show the configuration, without connecting
    #[arg(long)]
    no_connect: bool,
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonList<'a> {
    version: u32,
    servers: Vec<ServerRow>,
    problems: Vec<&'a Problem>,
}

/// A server after its connection attempt.
struct Attempt {
    status: ServerStatus,
    hidden_tools: usize,
}

pub(crate) async fn run(globals: &Globals, list: List) -> Exit {
    Box::pin(list_servers(globals, &list)).await.unwrap_or_else(|error| term::usage_error(&error))
}

async fn list_servers(globals: &Globals, list: &List) -> Result<Exit, UsageError> {
    let setup = Setup::load_quietly(globals).await?;
    // The table itself says which servers are not used, and why.
    let is_in_table = |problem: &Problem| {
        let has_table = !globals.json && !globals.is_verbose();
        let is_shown = || setup.loaded.broken.iter().any(|entry| first_error(entry) == Some(problem));
        problem.kind == ProblemKind::ServerNotUsed || has_table && is_shown()
    };
    setup.print_problems(|problem| !is_in_table(problem));
    dispatcher::print_problems(&setup);
    let missing = if setup.missing(false).is_empty() { Exit::Done } else { Exit::Usage };
    let any = setup.loaded.servers.iter().any(|found| !matches!(found.eligibility, Eligibility::Shadowed { .. }));
    if list.no_connect || !any {
        return Ok(show(globals, &setup, list, &BTreeMap::new()).await.max(missing));
    }
    let fleet = setup.open_to_list(ServerSelection::All, FleetLifetime::OneShot)?;
    let exit = guarded(&fleet, async {
        StartupDisplay::watch(&fleet, globals.quiet).await;
        completion_cache::store_tools(&setup.paths, &fleet);
        let statuses = fleet.statuses();
        let exit = one_shot::exit_code(&statuses);
        let attempt = |status: ServerStatus| {
            let hidden_tools = hidden_tools(&fleet, &status);
            (status.name.to_string(), Attempt { status, hidden_tools })
        };
        let attempts: BTreeMap<String, Attempt> = statuses.into_iter().map(attempt).collect();
        show(globals, &setup, list, &attempts).await.max(exit).max(missing)
    });
    Ok(exit.await)
}

/// Returns how many of a server's tools are not offered, because of the configuration or because they are invalid.
fn hidden_tools(fleet: &Fleet, status: &ServerStatus) -> usize {
    let listed = fleet.listed(&status.name);
    let all = listed.map_or(0, |listed| listed.items.len() + listed.quarantined.len());
    all.saturating_sub(status.tools)
}

async fn show(globals: &Globals, setup: &Setup, list: &List, attempts: &BTreeMap<String, Attempt>) -> Exit {
    let rows = rows(setup, attempts);
    if globals.json {
        let rules = dispatcher::problems(setup);
        let problems = setup.loaded.problems.iter().chain(&rules).collect();
        return term::json(&JsonList { version: 1, servers: rows, problems }).await;
    }
    if rows.is_empty() && setup.loaded.errors().next().is_some() {
        // A file that cannot be read may well configure some.
        if !globals.quiet {
            term::note("no server can be used until the configuration is fixed");
        }
        return Exit::Usage;
    }
    if rows.is_empty() {
        if !globals.quiet {
            term::note("no servers configured");
            term::hint("add one: wharf add NAME URL|COMMAND, or import those of another program: wharf import HOST");
        }
        return Exit::Done;
    }
    let written = term::out(if list.no_connect { configured_table(&rows) } else { state_table(&rows) }).await;
    if !globals.quiet {
        hint_place(&rows);
        hint_approval(&rows);
        hint_login(&rows, globals);
    }
    written
}

/// Returns why a server is not connected, or what it is.
fn details(row: &ServerRow) -> String {
    let target = row.target.clone().unwrap_or_default();
    match row.short_reason() {
        Some(reason) if row.usability == Usability::Replaced => format!("{reason}: {target}"),
        Some(reason) => reason,
        None => target,
    }
}

fn transport(row: &ServerRow) -> String {
    row.transport.map_or("–".to_owned(), |transport| transport.to_string())
}

/// The table with the servers' connection states.
fn state_table(rows: &[ServerRow]) -> String {
    let line = |row: &ServerRow| {
        let tools = match (row.state, row.hidden_tools) {
            (ServerState::Connected, 0) => row.tools.to_string(),
            (ServerState::Connected, hidden) => format!("{} ({hidden} hidden)", row.tools),
            _ => String::new(),
        };
        let details = first_line(&details(row));
        vec![term::name(&row.name), row.scope.to_string(), transport(row), row.marked_state(), tools, details]
    };
    let table =
        term::table(&["server", "scope", "transport", "state", "tools", "details"], rows.iter().map(line).collect());
    let styles = rows.iter().map(|row| (row.marked_state(), state_style(row.state))).collect();
    colored(&table, term::Column { title: "state", next_title: "tools" }, &styles)
}

/// The table of `--no-connect`.
fn configured_table(rows: &[ServerRow]) -> String {
    let line = |row: &ServerRow| {
        // Where the standing says why a server is not used, its command or URL says more.
        let is_explained = matches!(row.usability, Usability::Ready | Usability::NeedsApproval);
        let reason = if is_explained { None } else { row.short_reason() };
        let details = first_line(&reason.or_else(|| row.target.clone()).unwrap_or_default());
        vec![term::name(&row.name), row.scope.to_string(), transport(row), row.standing.to_owned(), details]
    };
    let table = term::table(&["server", "scope", "transport", "standing", "details"], rows.iter().map(line).collect());
    let styles = rows.iter().map(|row| (row.standing.to_owned(), usability_style(row.usability))).collect();
    colored(&table, term::Column { title: "standing", next_title: "details" }, &styles)
}

fn colored(table: &str, column: term::Column<'_>, styles: &BTreeMap<String, Style>) -> String {
    term::colored_column(table, column, |cell| styles.get(cell).copied())
}

fn state_style(state: ServerState) -> Style {
    match state {
        ServerState::Connected => term::GREEN,
        ServerState::Failed => term::RED,
        ServerState::NeedsAuth => term::YELLOW,
        ServerState::Pending | ServerState::Disabled => term::DIM,
    }
}

fn usability_style(usability: Usability) -> Style {
    match usability {
        Usability::Ready => term::GREEN,
        Usability::NeedsApproval => term::YELLOW,
        Usability::Unused | Usability::Replaced => term::DIM,
        Usability::Refused | Usability::Invalid => term::RED,
    }
}

/// Prints how to find invalid entries, once for all of them.
fn hint_place(rows: &[ServerRow]) {
    let invalid: Vec<&ServerRow> = rows.iter().filter(|row| row.usability == Usability::Invalid).collect();
    match &invalid[..] {
        [] => {}
        [one] => term::hint(&format!("see where the entry is: wharf get {}", one.name)),
        _ => term::hint("see where the entries are: wharf list -v"),
    }
}

/// Prints how to approve servers, once for all of them.
fn hint_approval(rows: &[ServerRow]) {
    let waiting: Vec<&ServerRow> = rows.iter().filter(|row| row.usability == Usability::NeedsApproval).collect();
    match &waiting[..] {
        [] => {}
        [one] => term::hint(&format!("review and approve it: wharf approve {}", one.name)),
        _ => term::hint("review and approve them: wharf approve --all"),
    }
}

/// Prints how to sign in to servers that require it.
fn hint_login(rows: &[ServerRow], globals: &Globals) {
    let locked = rows.iter().filter(|row| row.state == ServerState::NeedsAuth && row.accepts_sign_in);
    let hints = locked.filter_map(|row| Some(hints::sign_in(&row.name.parse().ok()?, row.scope, globals)));
    hints.for_each(|hint| term::hint(&hint));
}

/// Returns every server, the highest scope first. A server without an attempt has its initial state.
fn rows(setup: &Setup, attempts: &BTreeMap<String, Attempt>) -> Vec<ServerRow> {
    let loaded = &setup.loaded;
    let configured = loaded.servers.iter().map(|found| {
        let attempt = attempts.get(found.server.name.as_str());
        let row = ServerRow::new(found, attempt.map(|attempt| &attempt.status));
        let hidden_tools = match attempt {
            Some(attempt) if row.state == ServerState::Connected => attempt.hidden_tools,
            _ => 0,
        };
        ServerRow { hidden_tools, ..row }
    });
    let mut rows: Vec<ServerRow> = configured.chain(loaded.broken.iter().map(ServerRow::invalid)).collect();
    rows.sort_by_key(|row| row.scope);
    rows
}
