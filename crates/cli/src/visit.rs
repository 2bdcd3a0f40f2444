//! Servers for one answer: opened, waited for, asked, and closed.

use wharf::fleet::{Fleet, ServerState, ServerStatus};

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::interrupt::guarded;
use crate::live::Live;
use crate::servers::Misuse;
use crate::setup::{How, Setup, Which};
use crate::{remembered, render};

/// Opens the servers, does `work` when each of them has been tried to the end, and closes them.
pub(crate) async fn visit(globals: &Globals, which: Which<'_>, work: impl AsyncFnOnce(&Fleet) -> Exit) -> Exit {
    let opened = async {
        let setup = Setup::load_for(globals, which).await?;
        if which == Which::All {
            setup.tell_rules();
        }
        let fleet = setup.open(which, How::Once)?;
        Ok((setup, fleet))
    };
    let (setup, fleet) = match opened.await {
        Ok(opened) => opened,
        Err(misuse) => return misused(&misuse),
    };
    guarded(&fleet, async {
        Live::watch(&fleet, globals.quiet).await;
        remembered::keep(&setup.places, &fleet);
        let missing = which == Which::All && !setup.missing(false).is_empty();
        work(&fleet).await.max(if missing { Exit::Usage } else { Exit::Done })
    })
    .await
}

/// Tells what is wrong with what was asked for.
pub(crate) fn misused(misuse: &Misuse) -> Exit {
    render::misuse(misuse);
    Exit::Usage
}

/// Tells of every server that is not connected, and how the program ends if one of them is needed.
pub(crate) fn tell_absent(statuses: &[ServerStatus], globals: &Globals) -> Exit {
    for status in statuses.iter().filter(|status| status.state != ServerState::Connected) {
        render::status(status, globals);
    }
    exit(statuses)
}

/// The one server there is, if it is connected; if not, that is told.
pub(crate) async fn only(fleet: &Fleet, globals: &Globals, subject: Subject<'_>) -> Result<ServerStatus, Exit> {
    let Some(status) = fleet.statuses().pop() else { return Err(Exit::Usage) };
    if status.state == ServerState::Connected {
        return Ok(status);
    }
    let Some(error) = status.error() else {
        render::status(&status, globals);
        return Err(Exit::from(&status));
    };
    let hint = render::advice_for(error, status.scope, globals);
    Err(Failure { remote: status.transport != "stdio", error, hint }.told(globals, subject).await)
}

/// How the program ends if a server that is needed is not connected. One that is switched off is not needed.
pub(crate) fn exit(statuses: &[ServerStatus]) -> Exit {
    let needed = statuses.iter().filter(|status| status.required && status.state != ServerState::Disabled);
    needed.map(Exit::from).max().unwrap_or(Exit::Done)
}
