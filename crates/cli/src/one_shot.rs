//! One-shot commands: connect the servers, do one thing, close them.

use wharf::fleet::{Fleet, ServerState, ServerStatus};
use wharf::{Session, SessionStatus};

use crate::config::{FleetLifetime, Paths, ServerSelection, Setup, dispatcher};
use crate::error::UsageError;
use crate::exit::Exit;
use crate::failure::{self, Failure, Subject};
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::term::StartupDisplay;
use crate::{completion_cache, hints, term};

/// Connects the servers, does `work` when all of them have settled, and closes them.
pub(crate) async fn run(
    globals: &Globals,
    selection: ServerSelection<'_>,
    work: impl AsyncFnOnce(&Fleet) -> Exit,
) -> Exit {
    run_opened(globals, selection, |setup| setup.open(selection, FleetLifetime::OneShot), work).await
}

/// Like [`run`], for commands that show the servers' tools.
pub(crate) async fn run_to_list(
    globals: &Globals,
    selection: ServerSelection<'_>,
    work: impl AsyncFnOnce(&Fleet) -> Exit,
) -> Exit {
    let open = |setup: &Setup| setup.open_to_list(selection, FleetLifetime::OneShot);
    run_opened(globals, selection, open, async |fleet| {
        if let Ok(paths) = Paths::find(globals) {
            completion_cache::store_tools(&paths, fleet);
        }
        work(fleet).await
    })
    .await
}

async fn run_opened(
    globals: &Globals,
    selection: ServerSelection<'_>,
    open: impl FnOnce(&Setup) -> Result<Fleet, UsageError>,
    work: impl AsyncFnOnce(&Fleet) -> Exit,
) -> Exit {
    let opened = async {
        let setup = Setup::load_for(globals, selection).await?;
        if selection == ServerSelection::All {
            dispatcher::print_problems(&setup);
        }
        let fleet = open(&setup)?;
        Ok::<_, UsageError>((setup, fleet))
    };
    let (setup, fleet) = match opened.await {
        Ok(opened) => opened,
        Err(error) => return term::usage_error(&error),
    };
    guarded(&fleet, async {
        StartupDisplay::watch(&fleet, globals.quiet).await;
        let is_missing_one = selection == ServerSelection::All && !setup.missing(false).is_empty();
        work(&fleet).await.max(if is_missing_one { Exit::Usage } else { Exit::Done })
    })
    .await
}

/// Prints why servers are not connected, and returns the exit code for those that are required.
pub(crate) fn report_unconnected(statuses: &[ServerStatus], globals: &Globals) -> Exit {
    for status in statuses.iter().filter(|status| status.state != ServerState::Connected) {
        failure::print_status(status, globals);
    }
    exit_code(statuses)
}

/// Returns the only server of a fleet, if it is connected; otherwise reports why not.
pub(crate) async fn connected_server(
    fleet: &Fleet,
    globals: &Globals,
    subject: Subject<'_>,
) -> Result<ServerStatus, Exit> {
    let Some(status) = fleet.statuses().pop() else { return Err(Exit::Usage) };
    if status.state == ServerState::Connected {
        return Ok(status);
    }
    let Some(error) = status.error() else {
        failure::print_status(&status, globals);
        return Err(Exit::from(&status));
    };
    let hint = hints::for_denied_access(error, status.scope, globals);
    let failure = Failure { remote: status.transport.is_remote(), error, hint, redactor: fleet.redactor() };
    Err(failure.report(globals, subject).await)
}

/// Returns the exit code for required servers that are not connected. A disabled server is not required.
pub(crate) fn exit_code(statuses: &[ServerStatus]) -> Exit {
    let required = statuses.iter().filter(|status| status.required && status.state != ServerState::Disabled);
    required.map(Exit::from).max().unwrap_or(Exit::Done)
}

/// Prints a connected server's name, version and protocol.
pub(crate) fn print_server_info(session: &Session) {
    if let SessionStatus::Connected(info) = &*session.status().borrow() {
        let text = format!("{}: {} {}, protocol {}", session.name(), info.name, info.version, info.protocol());
        term::note(&term::name(&text));
    }
}
