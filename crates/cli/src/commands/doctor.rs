//! `wharf doctor`: finds out what is wrong with the servers, and says how to mend it.
//!
//! Every server that may be connected is, side by side; one that is held back is never started. What is found is told
//! in four classes, from the configuration to the call of a tool. Every check has a deadline.

mod configured;
mod executed;
mod finding;
mod offered;
mod reached;
mod shown;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use wharf::ServerName;
use wharf::config::{ConfiguredServer, Eligibility};
use wharf::fleet::{Fleet, ServerStatus, StateReason};

use crate::args::Globals;
use crate::dispatcher;
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::render::{self, Transient};
use crate::servers::{Misuse, instead_of, misuse};
use crate::setup::{How, LONGEST, Setup, Which};
use finding::Finding;

/// How long one question to a server may take, unless somebody says otherwise.
const QUESTION: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(after_help = "No tool is called unless --call names it.\n\
        Exit codes: 0 no problem · 1 a tool or its server misbehaves · 2 the configuration · 3 a server wants authorization · \
        4 a server is unreachable; the highest counts\n\n\
        Examples:\n  wharf doctor\n  wharf doctor time --call get_current_time timezone=Europe/Paris\n  \
        wharf doctor --only-mcp --mcp 'time=uvx mcp-server-time'")]
pub(crate) struct Doctor {
    /// Only this server
    pub(crate) server: Option<String>,
    /// A tool of the server to call
    #[arg(long, value_name = "TOOL", requires = "server")]
    pub(crate) call: Option<String>,
    /// The arguments for it: one JSON object, or `key=value` pairs
    #[arg(value_name = "JSON | KEY=VALUE", requires = "call")]
    pub(crate) arguments: Vec<String>,
}

/// One server that is looked at.
struct Looked<'a> {
    found: &'a ConfiguredServer,
    status: &'a ServerStatus,
    fleet: &'a Fleet,
    globals: &'a Globals,
    /// How long it took until it was ready, or given up.
    took: Duration,
}

pub(crate) async fn run(globals: &Globals, doctor: Doctor) -> Exit {
    let which = doctor.server.as_deref().map_or(Which::All, Which::One);
    let (setup, fleet) = match open(globals, which).await {
        Ok(opened) => opened,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    let Some(fleet) = fleet else {
        return shown::show(globals, &setup, &configured::problems(&setup, which)).await;
    };
    guarded(&fleet, async {
        let mut doing = Transient::new(globals.quiet);
        doing.show("connecting");
        let times = settled(&fleet).await;
        doing.show("looking");
        let mut findings = configured::problems(&setup, which);
        findings.extend(examine_all(&setup, &fleet, &times, &doctor).await);
        drop(doing);
        shown::show(globals, &setup, &findings).await
    })
    .await
}

/// What is configured, and a fleet of it if there is anything to connect.
async fn open(globals: &Globals, which: Which<'_>) -> Result<(Setup, Option<Fleet>), Misuse> {
    let mut setup = Setup::load_quietly(globals).await?;
    if globals.timeout.is_none() {
        setup.session.deadlines.total = Some(QUESTION);
    }
    if let Which::One(name) = which
        && !setup.names().contains(&name)
    {
        return Err(misuse(format!("there is no server `{name}`"), Some(&instead_of(name, &setup.names()))));
    }
    let fleet = setup.open_as_is(which)?;
    let is_fine = setup.loaded.problems.is_empty() && dispatcher::problems(&setup).is_empty();
    if fleet.is_none() && is_fine {
        // There is nothing to look at, and there are words for that.
        setup.open(which, How::Once)?;
    }
    Ok((setup, fleet))
}

/// Waits until every server has been tried, and tells how long each took. Those that had to wait for others are not
/// charged for it.
async fn settled(fleet: &Fleet) -> BTreeMap<ServerName, Duration> {
    let opened = Instant::now();
    let (mut began, mut took) = (BTreeMap::new(), BTreeMap::new());
    let mut changes = fleet.changes();
    let watching = async {
        loop {
            changes.mark_unchanged();
            let statuses = fleet.statuses();
            for ServerStatus { name, reason, settled, .. } in &statuses {
                if *settled {
                    // One that was quick may never have been seen under way.
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
    let _ = tokio::time::timeout(LONGEST, watching).await;
    took
}

async fn examine_all(
    setup: &Setup,
    fleet: &Fleet,
    times: &BTreeMap<ServerName, Duration>,
    doctor: &Doctor,
) -> Vec<Finding> {
    let statuses = fleet.statuses();
    let looked = statuses.iter().filter_map(|status| {
        let found = setup.loaded.find(status.name.as_str())?;
        let took = times.get(&status.name).copied().unwrap_or_default();
        Some(Looked { found, status, fleet, globals: setup.globals(), took })
    });
    let examined = looked.map(async |looked| examine(setup, &looked, doctor).await);
    join_all(examined).await.into_iter().flatten().collect()
}

async fn examine(setup: &Setup, looked: &Looked<'_>, doctor: &Doctor) -> Vec<Finding> {
    let mut findings = configured::standing(looked.found, doctor.server.is_some());
    if looked.found.standing != Eligibility::Ready {
        return findings;
    }
    findings.extend(configured::outfit(setup, looked));
    let is_mended_there = findings.iter().any(Finding::is_problem);
    findings.extend(reached::connection(looked, is_mended_there).await);
    findings.extend(offered::tools(looked));
    findings.extend(executed::session(looked).await);
    if let Some(tool) = &doctor.call {
        findings.extend(executed::call(looked, tool, &doctor.arguments).await);
    }
    findings
}
