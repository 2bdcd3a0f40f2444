//! `wharf approve`: the user reviews what a project's server would run, and approves it.

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use serde_json::json;
use wharf::config::{Approval, Approvals, ConfiguredServer, Eligibility};
use wharf::fleet::Scope;

use super::server_row::invalid_because;
use crate::config::writing::{self, WriteError};
use crate::config::{Setup, describe, no_home};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term::prompt::is_interactive;
use crate::term::review::{Decision, Detail, Position, ask_about, show_resolved};
use crate::{complete, term};

#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["names", "all", "reset"]),
    after_help = "An approval covers the exact entry: a server that changes must be approved again.\n\n\
        Examples:\n  wharf approve time\n  wharf approve --all --yes\n  wharf approve --reset"
)]
pub(crate) struct Approve {
    /// Server names
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(complete::unapproved_servers))]
    names: Vec<String>,
    /// Approve all servers of the project that need approval
    #[arg(long)]
    all: bool,
    /// Revoke all approvals of this project
    #[arg(long)]
    reset: bool,
    /// Approve without asking
    #[arg(short, long)]
    yes: bool,
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonApprovals<'a> {
    version: u32,
    servers: Vec<JsonApproval<'a>>,
}

#[derive(Serialize)]
struct JsonApproval<'a> {
    approved: bool,
    #[serde(flatten)]
    approval: &'a Approval,
}

pub(crate) async fn run(globals: &Globals, approve: Approve) -> Exit {
    let done = if approve.reset { reset(globals).await } else { Box::pin(approve_servers(globals, &approve)).await };
    done.unwrap_or_else(|error| error.report())
}

async fn reset(globals: &Globals) -> Result<Exit, WriteError> {
    let setup = Setup::read(globals)?;
    let file = setup.paths.approvals.as_ref().ok_or_else(no_home)?;
    let mut approvals = Approvals::load(file)?;
    let revoked = approvals.revoke_all(&setup.paths.project.root);
    if !revoked.is_empty() {
        approvals.save()?;
    }
    if globals.json {
        return Ok(term::json(&json!({ "version": 1, "forgotten": revoked })).await);
    }
    if !globals.quiet {
        let root = setup.paths.project.root.display();
        term::note(&match &revoked[..] {
            [] => format!("no approvals in {root}"),
            names => format!("revoked the approvals in {root}: {}", names.join(", ")),
        });
    }
    Ok(Exit::Done)
}

async fn approve_servers(globals: &Globals, approve: &Approve) -> Result<Exit, WriteError> {
    let setup = Setup::read(globals)?;
    let waiting = waiting(globals, approve, &setup)?;
    let mut reviewed = Vec::new();
    let mut decision = if approve.yes { Decision::All } else { Decision::No };
    for (index, (found, approval)) in waiting.iter().enumerate() {
        if decision == Decision::Quit {
            reviewed.push(JsonApproval { approved: false, approval });
            continue;
        }
        if !globals.quiet || !approve.yes {
            let is_asked = decision != Decision::All && is_interactive();
            let detail = if is_asked { Detail::Short } else { Detail::Whole };
            show_resolved(approval, describe::resolved_command(found).as_deref(), detail);
        }
        if decision != Decision::All {
            let position = if index + 1 < waiting.len() { Position::MoreFollow } else { Position::Last };
            decision = ask_about(approval, "if you have reviewed it, pass --yes", position)?;
        }
        let yes = matches!(decision, Decision::Yes | Decision::All);
        if yes {
            writing::approve(&setup.paths, [(&found.server.name, &found.written)])?;
        }
        if !globals.quiet {
            let word = if yes { "approved" } else { "not approved" };
            term::note(&format!("{word}: {}\n", approval.name));
        }
        reviewed.push(JsonApproval { approved: yes, approval });
    }
    let exit = if reviewed.iter().all(|server| server.approved) { Exit::Done } else { Exit::Failed };
    if globals.json {
        return Ok(term::json(&JsonApprovals { version: 1, servers: reviewed }).await.max(exit));
    }
    Ok(exit)
}

/// Returns the selected servers that need approval, each with what the user must review.
fn waiting<'a>(
    globals: &Globals,
    approve: &Approve,
    setup: &'a Setup,
) -> Result<Vec<(&'a ConfiguredServer, &'a Approval)>, UsageError> {
    let servers = &setup.loaded.servers;
    if approve.all {
        let waiting: Vec<_> = servers.iter().filter_map(|found| Some((found, needed_approval(found)?))).collect();
        if waiting.is_empty() && !globals.quiet {
            term::note("no server of this project needs approval");
        }
        return Ok(waiting);
    }
    let mut waiting = Vec::new();
    for name in &approve.names {
        let found =
            servers.iter().find(|found| found.server.name.as_str() == name && found.server.scope == Scope::Project);
        let found = found.or_else(|| setup.loaded.find(name));
        match found.map(|found| (found, needed_approval(found))) {
            Some((found, Some(approval))) => waiting.push((found, approval)),
            Some((found, None)) => not_waiting(globals, found)?,
            None => {
                if let Some(broken) = setup.loaded.find_broken(name) {
                    let why = invalid_because(broken).unwrap_or_default();
                    let hint = format!("fix it first; see all its problems: wharf get {name}");
                    return Err(usage_error(format!("server `{name}` has an invalid entry: {why}"), Some(&hint)));
                }
                return Err(setup.unknown_server(name));
            }
        }
    }
    Ok(waiting)
}

fn needed_approval(found: &ConfiguredServer) -> Option<&Approval> {
    match &found.eligibility {
        Eligibility::NeedsApproval(approval) | Eligibility::ApprovalChanged(approval) => Some(approval),
        _ => None,
    }
}

/// Handles a selected server that needs no approval.
fn not_waiting(globals: &Globals, found: &ConfiguredServer) -> Result<(), UsageError> {
    let name = &found.server.name;
    let scope = found.server.scope;
    if scope != Scope::Project {
        return Err(usage_error(
            format!("server `{name}` belongs to the {scope} scope, which needs no approval"),
            None,
        ));
    }
    if found.eligibility != Eligibility::Ready {
        let reason = describe::reason(found).unwrap_or_default();
        return Err(usage_error(format!("server `{name}` would not be used: {reason}"), None));
    }
    if !globals.quiet {
        term::note(&format!("`{name}` is already approved"));
    }
    Ok(())
}
