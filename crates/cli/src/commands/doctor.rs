//! `wharf doctor`: diagnose servers and suggest fixes.
//!
//! Connects all servers that may be used at the same time, and starts no other. Findings have four classes, from the
//! configuration to a tool call. Every check has a deadline.

mod connection;
mod discovery;
mod execution;
mod finding;
mod probe;
mod report;
mod start;

use std::collections::BTreeMap;
use std::time::Duration;

use clap_complete::ArgValueCandidates;
use futures_util::future::join_all;
use tokio::time::Instant;
use wharf::ServerName;
use wharf::config::Eligibility;
use wharf::fleet::{Fleet, ServerStatus, StateReason};

use crate::complete;
use crate::config::{FleetLifetime, ServerSelection, Setup, dispatcher};
use crate::error::UsageError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::term::{self, SETTLE_LIMIT, StatusLine};
use finding::Finding;
use probe::Probe;

/// How long one request may take without `--timeout`.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(after_help = "No tool is called unless --call names it.\n\
        Exit codes: 0 no problem · 1 a tool or server misbehaves · 2 configuration problem · 3 authorization required · \
        4 server unreachable; the highest counts\n\n\
        Examples:\n  wharf doctor\n  wharf doctor time --call get_current_time timezone=Europe/Paris\n  \
        wharf doctor --only-mcp --mcp 'time=uvx mcp-server-time'")]
pub(crate) struct Doctor {
    /// Only diagnose this server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: Option<String>,
    /// Also call this tool of the server
    #[arg(long, value_name = "TOOL", requires = "server")]
    call: Option<String>,
    /// Arguments for the tool: one JSON object, or `key=value` pairs
    #[arg(value_name = "JSON | KEY=VALUE", requires = "call")]
    arguments: Vec<String>,
}

pub(crate) async fn run(globals: &Globals, doctor: Doctor) -> Exit {
    let selection = doctor.server.as_deref().map_or(ServerSelection::All, ServerSelection::One);
    let (setup, fleet) = match open(globals, selection).await {
        Ok(opened) => opened,
        Err(error) => return term::usage_error(&error),
    };
    let Some(fleet) = fleet else {
        return report::show(globals, &setup, &start::problems(&setup, selection)).await;
    };
    guarded(&fleet, async {
        let progress = StatusLine::new(globals.quiet);
        progress.show("connecting");
        let times = settled(&fleet).await;
        progress.show("checking");
        let mut findings = start::problems(&setup, selection);
        findings.extend(check_all(&setup, &fleet, &times, &doctor).await);
        drop(progress);
        report::show(globals, &setup, &findings).await
    })
    .await
}

/// Loads the configuration, and opens a fleet if it has servers.
async fn open(globals: &Globals, selection: ServerSelection<'_>) -> Result<(Setup, Option<Fleet>), UsageError> {
    let mut setup = Setup::load_quietly(globals).await?;
    if globals.timeout.is_none() {
        setup.session.deadlines.total = Some(DEFAULT_REQUEST_TIMEOUT);
    }
    if let ServerSelection::One(name) = selection
        && !setup.names().contains(&name)
    {
        return Err(setup.unknown_server(name));
    }
    let fleet = setup.open_unchecked(selection)?;
    let has_no_problems = setup.loaded.problems.is_empty() && dispatcher::problems(&setup).is_empty();
    if fleet.is_none() && has_no_problems {
        // Nothing to check: returns the error for that.
        setup.open(selection, FleetLifetime::OneShot)?;
    }
    Ok((setup, fleet))
}

/// Waits until every server has settled, and returns how long each took, without the time in the queue.
async fn settled(fleet: &Fleet) -> BTreeMap<ServerName, Duration> {
    let opened = Instant::now();
    let mut began = BTreeMap::new();
    let mut took = BTreeMap::new();
    let mut changes = fleet.changes();
    let watching = async {
        loop {
            changes.mark_unchanged();
            let statuses = fleet.statuses();
            for ServerStatus { name, reason, settled, .. } in &statuses {
                if *settled {
                    // A fast server may never be seen while it connects.
                    let since = began.get(name).copied().unwrap_or(opened);
                    took.entry(name.clone()).or_insert_with(|| since.elapsed());
                } else if matches!(reason, Some(StateReason::Connecting)) {
                    began.entry(name.clone()).or_insert_with(Instant::now);
                }
            }
            if statuses.iter().all(|status| status.settled) || changes.changed().await.is_err() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(SETTLE_LIMIT, watching).await;
    took
}

async fn check_all(
    setup: &Setup,
    fleet: &Fleet,
    times: &BTreeMap<ServerName, Duration>,
    doctor: &Doctor,
) -> Vec<Finding> {
    let statuses = fleet.statuses();
    let probes = statuses.iter().filter_map(|status| {
        let found = setup.loaded.find(status.name.as_str())?;
        let took = times.get(&status.name).copied().unwrap_or_default();
        Some(Probe { found, status, fleet, globals: setup.globals(), took })
    });
    let checked = probes.map(async |probe| check(setup, &probe, doctor).await);
    join_all(checked).await.into_iter().flatten().collect()
}

async fn check(setup: &Setup, probe: &Probe<'_>, doctor: &Doctor) -> Vec<Finding> {
    let mut findings = start::standing(probe.found, doctor.server.is_some());
    if probe.found.eligibility != Eligibility::Ready {
        return findings;
    }
    findings.extend(start::prerequisites(setup, probe));
    let has_start_problem = findings.iter().any(Finding::is_problem);
    findings.extend(connection::connection(probe, has_start_problem).await);
    findings.extend(discovery::tools(probe).await);
    findings.extend(execution::session(probe).await);
    if let Some(tool) = &doctor.call {
        findings.extend(execution::call(probe, tool, &doctor.arguments).await);
    }
    findings
}
