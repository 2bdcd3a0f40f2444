//! `wharf list`: every server that is configured, and how it is doing.

use std::collections::BTreeMap;

use serde::Serialize;
use wharf::fleet::config::{Broken, Configured, Origin, Problem, Severity, Standing};
use wharf::fleet::{Reason, Scope, State, Status};

use crate::args::{Globals, List};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::live::Live;
use crate::servers::Misuse;
use crate::setup::{How, Setup, Which, switched_off};
use crate::{describe, remembered, render};

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    servers: Vec<Row>,
    problems: Vec<&'a Problem>,
}

/// One server, used or not.
#[derive(Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) transport: Option<&'static str>,
    pub(crate) state: State,
    pub(crate) reason: Option<String>,
    /// How many there are; only a connected server has any.
    pub(crate) tools: usize,
    pub(crate) required: bool,
    /// What the configuration says about it, whatever its state.
    pub(crate) standing: &'static str,
    /// Its command or address, without secrets.
    pub(crate) target: Option<String>,
    pub(crate) origin: Option<Origin>,
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
    let any = setup.loaded.servers.iter().any(|found| !matches!(found.standing, Standing::Shadowed { .. }));
    if list.no_connect || !any {
        return Ok(show(globals, &setup, list, &BTreeMap::new()).await.max(missing));
    }
    let fleet = setup.open(Which::All, How::Once)?;
    let exit = guarded(&fleet, async {
        Live::watch(&fleet, globals.quiet).await;
        remembered::keep(&setup.places, &fleet);
        let statuses: BTreeMap<String, Status> =
            fleet.statuses().into_iter().map(|status| (status.name.to_string(), status)).collect();
        let written = show(globals, &setup, list, &statuses).await;
        let required = statuses.values().filter(|status| status.required && status.state != State::Disabled);
        required.map(Exit::from).max().unwrap_or(Exit::Done).max(written).max(missing)
    });
    Ok(exit.await)
}

/// Whether the list itself tells it already.
fn is_in_the_list(problem: &Problem) -> bool {
    problem.server.is_some() && problem.severity == Severity::Warning && problem.message.starts_with("is not used: ")
}

async fn show(globals: &Globals, setup: &Setup, list: &List, statuses: &BTreeMap<String, Status>) -> Exit {
    let rows = rows(setup, statuses);
    if globals.json {
        let problems = setup.loaded.problems.iter().collect();
        return render::json(&Shown { version: 1, servers: rows, problems }).await;
    }
    if rows.is_empty() {
        if !globals.quiet {
            render::note("there are no servers");
            render::hint("add one: wharf add NAME URL|COMMAND, or those of another program: wharf import HOST");
        }
        return Exit::Done;
    }
    let head = ["server", "scope", "transport", if list.no_connect { "standing" } else { "state" }, "tools", ""];
    let line = |row: &Row| {
        let state = if list.no_connect { row.standing.to_owned() } else { marked(row.state) };
        let tools = if row.state == State::Connected { row.tools.to_string() } else { String::new() };
        // Where the standing says it all, what the server is says more.
        let is_plain = matches!(row.standing, "ready" | "needs approval" | "changed since it was approved");
        let said = row.reason.clone().filter(|_| !list.no_connect || !is_plain);
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
    render::out(render::table(&head, table)).await
}

fn first_line(text: &str) -> String {
    render::flat(text.lines().next().unwrap_or_default())
}

/// A state with its sign, so that the eye finds it.
pub(crate) fn marked(state: State) -> String {
    let mark = match state {
        State::Connected => "✓",
        State::Failed => "✗",
        State::NeedsAuth => "!",
        State::Pending => "·",
        State::Disabled => "-",
    };
    format!("{mark} {state}")
}

/// Every server there is, the highest scope first. Those that were not tried have the state they would begin with.
fn rows(setup: &Setup, statuses: &BTreeMap<String, Status>) -> Vec<Row> {
    let loaded = &setup.loaded;
    let configured = loaded.servers.iter().map(|found| row(found, statuses.get(found.server.name.as_str())));
    let mut rows: Vec<Row> = configured.chain(loaded.broken.iter().map(broken)).collect();
    rows.sort_by_key(|row| row.scope);
    rows
}

/// One server; its status counts only if it is the one that is used.
pub(crate) fn row(found: &Configured, status: Option<&Status>) -> Row {
    let server = &found.server;
    let is_used = !matches!(found.standing, Standing::Shadowed { .. } | Standing::Duplicate { .. });
    let status = status.filter(|_| is_used);
    let (state, reason) = match status {
        Some(status) => (status.state, status.reason.as_ref().map(Reason::to_string)),
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
    }
}

fn without_trying(standing: &Standing) -> State {
    match standing {
        Standing::Ready | Standing::NeedsApproval(_) | Standing::ApprovalChanged(_) => State::Pending,
        Standing::Disabled(_) | Standing::Shadowed { .. } | Standing::Duplicate { .. } => State::Disabled,
        Standing::Refused(_) => State::Failed,
    }
}

/// A server whose entry cannot be understood.
pub(crate) fn broken(broken: &Broken) -> Row {
    let (state, reason) = match broken.disabled {
        Some(by) => (State::Disabled, Some(format!("switched off {}", switched_off(by)))),
        None => (State::Failed, why(broken)),
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
    }
}

/// What is wrong with an entry, in a line.
pub(crate) fn why(broken: &Broken) -> Option<String> {
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
