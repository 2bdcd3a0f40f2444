//! `wharf list`: every server that is configured, and how it is doing.

use std::collections::BTreeMap;

use anstyle::Style;
use serde::Serialize;
use wharf::config::{ConfiguredServer, Eligibility, InvalidEntry, Problem, Severity, SourceLocation};
use wharf::fleet::{Fleet, Scope, ServerState, ServerStatus, StateReason};

use crate::args::{Globals, List};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::live::Live;
use crate::servers::{Misuse, has_own_header};
use crate::setup::{How, Setup, Which, switched_off};
use crate::{describe, dispatcher, remembered, render};

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    servers: Vec<Row>,
    problems: Vec<&'a Problem>,
}

/// A server that was connected, or tried to be.
struct Tried {
    status: ServerStatus,
    left_out: usize,
}

/// One server, used or not.
#[derive(Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) transport: Option<&'static str>,
    pub(crate) state: ServerState,
    pub(crate) reason: Option<String>,
    /// How many there are; only a connected server has any.
    pub(crate) tools: usize,
    pub(crate) required: bool,
    /// What the configuration says about it, whatever its state.
    pub(crate) standing: &'static str,
    /// Its command or address, without secrets.
    pub(crate) target: Option<String>,
    pub(crate) origin: Option<SourceLocation>,
    /// The last line of one that failed; `tools --json` has all of them.
    #[serde(skip)]
    pub(crate) last_words: Option<String>,
    /// How many of its tools are not offered.
    #[serde(skip)]
    pub(crate) left_out: usize,
    /// Whether a sign-in would be used.
    #[serde(skip)]
    pub(crate) signs_in: bool,
}

pub(crate) async fn run(globals: &Globals, list: List) -> Exit {
    match Box::pin(listed(globals, &list)).await {
        Ok(exit) => exit,
        Err(misuse) => {
            render::misuse(&misuse);
            Exit::Usage
        }
    }
}

async fn listed(globals: &Globals, list: &List) -> Result<Exit, Misuse> {
    let setup = Setup::load_quietly(globals).await?;
    setup.tell_those(|problem| !is_in_the_list(problem));
    setup.tell_rules();
    let missing = if setup.missing(false).is_empty() { Exit::Done } else { Exit::Usage };
    let any = setup.loaded.servers.iter().any(|found| !matches!(found.standing, Eligibility::Shadowed { .. }));
    if list.no_connect || !any {
        return Ok(show(globals, &setup, list, &BTreeMap::new()).await.max(missing));
    }
    let fleet = setup.open(Which::All, How::Once)?;
    let exit = guarded(&fleet, async {
        Live::watch(&fleet, globals.quiet).await;
        remembered::keep(&setup.places, &fleet);
        let counted =
            |status: ServerStatus| (status.name.to_string(), Tried { left_out: left_out(&fleet, &status), status });
        let tried: BTreeMap<String, Tried> = fleet.statuses().into_iter().map(counted).collect();
        let written = show(globals, &setup, list, &tried).await;
        let required = tried
            .values()
            .map(|tried| &tried.status)
            .filter(|status| status.required && status.state != ServerState::Disabled);
        required.map(Exit::from).max().unwrap_or(Exit::Done).max(written).max(missing)
    });
    Ok(exit.await)
}

/// How many of a server's tools are not offered: left out by the configuration, or since they cannot be used.
fn left_out(fleet: &Fleet, status: &ServerStatus) -> usize {
    let listed = fleet.listed(&status.name);
    let all = listed.map_or(0, |listed| listed.items.len() + listed.quarantined.len());
    all.saturating_sub(status.tools)
}

/// Whether the list itself tells it already.
fn is_in_the_list(problem: &Problem) -> bool {
    problem.server.is_some() && problem.severity == Severity::Warning && problem.message.starts_with("is not used: ")
}

async fn show(globals: &Globals, setup: &Setup, list: &List, tried: &BTreeMap<String, Tried>) -> Exit {
    let rows = rows(setup, tried);
    if globals.json {
        let rules = dispatcher::problems(setup);
        let problems = setup.loaded.problems.iter().chain(&rules).collect();
        return render::json(&Shown { version: 1, servers: rows, problems }).await;
    }
    if rows.is_empty() {
        if !globals.quiet {
            render::note("there are no servers");
            render::hint("add one: wharf add NAME URL|COMMAND, or those of another program: wharf import HOST");
        }
        return Exit::Done;
    }
    let title = if list.no_connect { "standing" } else { "state" };
    let head = ["server", "scope", "transport", title, "tools", "details"];
    let line = |row: &Row| {
        let state = if list.no_connect { row.standing.to_owned() } else { marked(row.state) };
        let tools = match (row.state, row.left_out) {
            (ServerState::Connected, 0) => row.tools.to_string(),
            (ServerState::Connected, left_out) => format!("{} ({left_out} left out)", row.tools),
            _ => String::new(),
        };
        // Where the standing says it all, what the server is says more.
        let is_plain = matches!(row.standing, "ready" | "needs approval" | "changed since it was approved");
        let said = row.in_short().filter(|_| !list.no_connect || !is_plain);
        let what = said.or_else(|| row.target.clone()).unwrap_or_default();
        let transport = row.transport.unwrap_or("–").to_owned();
        vec![render::flat(&row.name), row.scope.to_string(), transport, state, tools, first_line(&what)]
    };
    let mut table: Vec<Vec<String>> = rows.iter().map(line).collect();
    let mut head = head.to_vec();
    if list.no_connect {
        head.remove(4);
        for row in &mut table {
            row.remove(4);
        }
    }
    let next = if list.no_connect { "details" } else { "tools" };
    let shown = render::coloured(&render::table(&head, table), (title, next), style);
    let written = render::out(shown).await;
    if !globals.quiet {
        hint_approval(&rows);
        hint_login(&rows, globals);
    }
    written
}

/// How those are approved that wait for it, once for all of them.
fn hint_approval(rows: &[Row]) {
    let waiting: Vec<&Row> = rows.iter().filter(|row| row.waits()).collect();
    match &waiting[..] {
        [] => {}
        [one] => render::hint(&format!("look at it, and approve it: wharf approve {}", one.name)),
        _ => render::hint("look at them, and approve them: wharf approve --all"),
    }
}

/// How one signs in to those that want it.
fn hint_login(rows: &[Row], globals: &Globals) {
    let locked = rows.iter().filter(|row| row.state == ServerState::NeedsAuth && row.signs_in);
    let hints = locked.filter_map(|row| Some(render::sign_in(&row.name.parse().ok()?, row.scope, globals)));
    hints.for_each(|hint| render::hint(&hint));
}

/// The colour of a state or a standing.
fn style(cell: &str) -> Option<Style> {
    Some(match cell.trim_start_matches(|c: char| !c.is_alphabetic()).trim() {
        "connected" | "ready" => render::GREEN,
        "failed" | "broken" | "refused" => render::RED,
        "needs-auth" | "needs approval" | "changed since it was approved" => render::YELLOW,
        "pending" | "disabled" | "shadowed" | "duplicate" => render::DIM,
        _ => return None,
    })
}

impl Row {
    /// Whether a person has to approve of it first.
    fn waits(&self) -> bool {
        matches!(self.standing, "needs approval" | "changed since it was approved")
    }

    /// Why it is in its state, for a table: how to approve it is said below, and a server that died has last words.
    fn in_short(&self) -> Option<String> {
        if self.waits() {
            return Some(self.standing.to_owned());
        }
        let reason = self.reason.as_ref().map(|reason| first_line(reason))?;
        Some(self.last_words.as_ref().map_or_else(|| reason.clone(), |words| format!("{reason}: {words}")))
    }
}

fn first_line(text: &str) -> String {
    render::flat(text.lines().next().unwrap_or_default())
}

/// A state with its sign, so that the eye finds it.
pub(crate) fn marked(state: ServerState) -> String {
    let mark = match state {
        ServerState::Connected => "✓",
        ServerState::Failed => "✗",
        ServerState::NeedsAuth => "!",
        ServerState::Pending => "·",
        ServerState::Disabled => "-",
    };
    format!("{mark} {state}")
}

/// Every server there is, the highest scope first. Those that were not tried have the state they would begin with.
fn rows(setup: &Setup, tried: &BTreeMap<String, Tried>) -> Vec<Row> {
    let loaded = &setup.loaded;
    let configured = loaded.servers.iter().map(|found| {
        let tried = tried.get(found.server.name.as_str());
        let row = row(found, tried.map(|tried| &tried.status));
        let left_out = tried.filter(|_| row.state == ServerState::Connected).map_or(0, |tried| tried.left_out);
        Row { left_out, ..row }
    });
    let mut rows: Vec<Row> = configured.chain(loaded.broken.iter().map(broken)).collect();
    rows.sort_by_key(|row| row.scope);
    rows
}

/// One server; its status counts only if it is the one that is used.
pub(crate) fn row(found: &ConfiguredServer, status: Option<&ServerStatus>) -> Row {
    let server = &found.server;
    let is_used = !matches!(found.standing, Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. });
    let status = status.filter(|_| is_used);
    let (state, reason) = match status {
        Some(status) => (status.state, status.reason.as_ref().map(StateReason::to_string)),
        None => (without_trying(&found.standing), describe::reason(found).or(Some("not connected".to_owned()))),
    };
    Row {
        name: server.name.to_string(),
        scope: server.scope,
        transport: Some(server.reach.transport()),
        state,
        reason,
        tools: status.map_or(0, |status| status.tools),
        required: status.map_or(server.settings.required, |status| status.required),
        standing: found.standing.as_str(),
        target: Some(describe::target(&found.written, &server.reach)),
        origin: server.origin.clone(),
        last_words: status.and_then(ServerStatus::error).and_then(render::last_words),
        left_out: 0,
        signs_in: !has_own_header(&server.reach),
    }
}

fn without_trying(standing: &Eligibility) -> ServerState {
    match standing {
        Eligibility::Ready | Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_) => ServerState::Pending,
        Eligibility::Disabled(_) | Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. } => {
            ServerState::Disabled
        }
        Eligibility::Refused(_) => ServerState::Failed,
    }
}

/// A server whose entry cannot be understood.
pub(crate) fn broken(broken: &InvalidEntry) -> Row {
    let (state, reason) = match broken.disabled {
        Some(by) => (ServerState::Disabled, Some(format!("switched off {}", switched_off(by)))),
        None => (ServerState::Failed, why(broken)),
    };
    Row {
        name: broken.name.clone(),
        scope: broken.scope,
        transport: None,
        state,
        reason,
        tools: 0,
        required: broken.required,
        standing: if broken.disabled.is_some() { "disabled" } else { "broken" },
        target: None,
        origin: Some(broken.origin.clone()),
        last_words: None,
        left_out: 0,
        signs_in: false,
    }
}

/// What is wrong with an entry, in a line.
pub(crate) fn why(broken: &InvalidEntry) -> Option<String> {
    let problem = broken.problems.iter().find(|problem| problem.is_error())?;
    let key = last_key(problem);
    // What names the key itself needs no key before it.
    let said = if problem.message.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == key) {
        problem.message.clone()
    } else {
        format!("{key}: {}", problem.message)
    };
    let meant = problem.hint.as_ref().filter(|hint| hint.starts_with("did you mean"));
    Some(meant.map_or_else(|| said.clone(), |hint| format!("{said}; {hint}")))
}

/// The key a problem is about, without the way to it.
fn last_key(problem: &Problem) -> &str {
    problem.path.rsplit('.').next().unwrap_or(&problem.path)
}
