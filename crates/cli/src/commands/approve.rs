//! `wharf approve`: a person looks at what a project's server would do, and says yes.

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::json;
use wharf::config::{Approval, Approvals, ConfiguredServer, Eligibility, EntryChange};
use wharf::fleet::Scope;

use crate::args::{Approve, Globals};
use crate::exit::Exit;
use crate::places::homeless;
use crate::render;
use crate::servers::{Misuse, instead_of, misuse};
use crate::setup::Setup;
use crate::writing::{self, Trouble};

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    servers: Vec<ShownServer<'a>>,
}

#[derive(Serialize)]
struct ShownServer<'a> {
    approved: bool,
    #[serde(flatten)]
    approval: &'a Approval,
}

pub(crate) async fn run(globals: &Globals, approve: Approve) -> Exit {
    let done = if approve.reset { reset(globals).await } else { Box::pin(approved(globals, &approve)).await };
    done.unwrap_or_else(|trouble| trouble.tell())
}

async fn reset(globals: &Globals) -> Result<Exit, Trouble> {
    let setup = Setup::read(globals)?;
    let file = setup.places.approvals.as_ref().ok_or_else(homeless)?;
    let mut approvals = Approvals::load(file)?;
    let forgotten = approvals.revoke_all(&setup.places.project.root);
    if !forgotten.is_empty() {
        approvals.save()?;
    }
    if globals.json {
        return Ok(render::json(&json!({ "version": 1, "forgotten": forgotten })).await);
    }
    if !globals.quiet {
        let root = setup.places.project.root.display();
        render::note(&match &forgotten[..] {
            [] => format!("there is no approval in {root}"),
            names => format!("forgot the approvals in {root}: {}", names.join(", ")),
        });
    }
    Ok(Exit::Done)
}

async fn approved(globals: &Globals, approve: &Approve) -> Result<Exit, Trouble> {
    let setup = Setup::read(globals)?;
    let waiting = waiting(globals, approve, &setup)?;
    let mut shown = Vec::new();
    for (found, approval) in waiting {
        if !globals.quiet || !approve.yes {
            show(approval);
        }
        let yes = approve.yes || ask(approval)?;
        if yes {
            writing::approve(&setup.places, [(&found.server.name, &found.written)])?;
        }
        if !globals.quiet {
            let word = if yes { "approved" } else { "not approved" };
            render::note(&format!("{word}: {}\n", approval.name));
        }
        shown.push(ShownServer { approved: yes, approval });
    }
    let exit = if shown.iter().all(|server| server.approved) { Exit::Done } else { Exit::Failed };
    if globals.json {
        return Ok(render::json(&Shown { version: 1, servers: shown }).await.max(exit));
    }
    Ok(exit)
}

/// Those that are meant and wait for it, each with what has to be seen.
fn waiting<'a>(
    globals: &Globals,
    approve: &Approve,
    setup: &'a Setup,
) -> Result<Vec<(&'a ConfiguredServer, &'a Approval)>, Misuse> {
    let servers = &setup.loaded.servers;
    if approve.all {
        let waiting: Vec<_> = servers.iter().filter_map(|found| Some((found, wanted(found)?))).collect();
        if waiting.is_empty() && !globals.quiet {
            render::note("no server of this project waits for an approval");
        }
        return Ok(waiting);
    }
    let mut waiting = Vec::new();
    for name in &approve.names {
        let found =
            servers.iter().find(|found| found.server.name.as_str() == name && found.server.scope == Scope::Project);
        let found = found.or_else(|| setup.loaded.find(name));
        match found.map(|found| (found, wanted(found))) {
            Some((found, Some(approval))) => waiting.push((found, approval)),
            Some((found, None)) => not_waiting(globals, found)?,
            None => {
                if let Some(broken) = setup.loaded.find_broken(name) {
                    let why = super::list::why(broken).unwrap_or_default();
                    let hint = format!("mend it first; all that is wrong with it: wharf get {name}");
                    return Err(misuse(format!("`{name}` cannot be used as it is written: {why}"), Some(&hint)));
                }
                let hint = instead_of(name, &setup.names());
                return Err(misuse(format!("there is no server `{name}`"), Some(&hint)));
            }
        }
    }
    Ok(waiting)
}

fn wanted(found: &ConfiguredServer) -> Option<&Approval> {
    match &found.standing {
        Eligibility::NeedsApproval(approval) | Eligibility::ApprovalChanged(approval) => Some(approval),
        _ => None,
    }
}

/// A server that is named and has nothing to be approved.
fn not_waiting(globals: &Globals, found: &ConfiguredServer) -> Result<(), Misuse> {
    let (name, scope) = (&found.server.name, found.server.scope);
    match (&found.standing, crate::describe::reason(found)) {
        (_, _) if scope != Scope::Project => {
            Err(misuse(format!("the server `{name}` is of the {scope} scope, which needs no approval"), None))
        }
        (Eligibility::Ready, _) => {
            if !globals.quiet {
                render::note(&format!("`{name}` is approved as it is"));
            }
            Ok(())
        }
        (_, reason) => {
            let reason = reason.unwrap_or_default();
            Err(misuse(format!("the server `{name}` would not be used anyway: {reason}"), None))
        }
    }
}

/// Everything that has to be seen.
fn show(approval: &Approval) {
    render::heading(&format!("{} would", approval.name));
    let say = |key: &str, value: &str| render::line(&format!("  {key:<9} {value}"));
    approval.command_line.iter().for_each(|line| say("run", line));
    approval.url.iter().for_each(|url| say("connect", url));
    approval.cwd.iter().for_each(|cwd| say("in", cwd));
    approval.headers_helper.iter().for_each(|helper| say("also run", helper));
    for (name, value) in &approval.env {
        say("with", &format!("{name}={value}"));
    }
    for (name, value) in &approval.headers {
        say("sending", &format!("{name}: {value}"));
    }
    for (path, value) in &approval.more {
        say("and", &format!("{path} = {value}"));
    }
    if !approval.reads.is_empty() {
        say("reading", &format!("your {}", approval.reads.join(", ")));
    }
    for danger in &approval.dangers {
        render::danger(&format!("it {danger}"));
    }
    if !approval.changes.is_empty() {
        render::heading("since you approved it");
        approval.changes.iter().for_each(changed);
    }
}

fn changed(change: &EntryChange) {
    let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "(nothing)".to_owned());
    render::line(&format!("  {:<9} {} → {}", change.what, told(&change.approved), told(&change.now)));
}

/// Asks; without a terminal there is nobody to ask.
fn ask(approval: &Approval) -> Result<bool, Misuse> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() || !std::io::stderr().is_terminal() {
        let hint = "if you have looked at it, say so with --yes";
        return Err(misuse(format!("nobody can be asked about `{}` without a terminal", approval.name), Some(hint)));
    }
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "Let it be started? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    read.map_err(|error| misuse(format!("stdin cannot be read: {error}"), None))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
