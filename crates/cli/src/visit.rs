//! Servers for one answer: opened, waited for, asked, and closed.

use wharf::fleet::{Fleet, State, Status};

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::interrupt::guarded;
use crate::render::{self, Transient};
use crate::servers::Misuse;
use crate::setup::{How, LONGEST, Setup, Which};

/// How many names a line holds that says for whom is waited.
const NAMES: usize = 5;

/// Opens the servers, does `work` when each of them has been tried to the end, and closes them.
pub(crate) async fn visit(globals: &Globals, which: Which<'_>, work: impl AsyncFnOnce(&Fleet) -> Exit) -> Exit {
    let opened = async { Setup::load_for(globals, which).await?.open(which, How::Once) };
    let fleet = match opened.await {
        Ok(fleet) => fleet,
        Err(misuse) => return misused(&misuse),
    };
    guarded(&fleet, async {
        settled(&fleet, globals.quiet).await;
        work(&fleet).await
    })
    .await
}

/// Tells what is wrong with what was asked for.
pub(crate) fn misused(misuse: &Misuse) -> Exit {
    render::misuse(misuse);
    Exit::Usage
}

/// Waits until every server has been tried to the end, and shows a person how many are left.
pub(crate) async fn settled(fleet: &Fleet, quiet: bool) {
    let (mut doing, mut changes) = (Transient::new(quiet), fleet.changes());
    let settled = fleet.settled(LONGEST);
    tokio::pin!(settled);
    loop {
        doing.show(&waiting(&fleet.statuses()));
        tokio::select! {
            _ = &mut settled => return,
            heard = changes.changed() => if heard.is_err() { return },
        }
    }
}

fn waiting(statuses: &[Status]) -> String {
    let told = |status: &Status| (status.name.to_string(), status.settled);
    line(&statuses.iter().map(told).collect::<Vec<_>>())
}

fn line(servers: &[(String, bool)]) -> String {
    let left: Vec<&str> = servers.iter().filter(|(_, settled)| !settled).map(|(name, _)| name.as_str()).collect();
    match (servers, &left[..]) {
        ([(name, _)], _) => format!("connecting to {name}"),
        (_, []) => "connecting".to_owned(),
        (_, left) => {
            let more = if left.len() > NAMES { ", …" } else { "" };
            let names = left[..left.len().min(NAMES)].join(", ");
            let (done, all) = (servers.len() - left.len(), servers.len());
            format!("connecting: {done} of {all}; waiting for {names}{more}")
        }
    }
}

/// Tells of every server that is not connected, and how the program ends if one of them is needed.
pub(crate) fn tell_absent(statuses: &[Status], globals: &Globals) -> Exit {
    for status in statuses.iter().filter(|status| status.state != State::Connected) {
        render::status(status, globals);
    }
    exit(statuses)
}

/// The one server there is, if it is connected; if not, that is told.
pub(crate) async fn only(fleet: &Fleet, globals: &Globals, subject: Subject<'_>) -> Result<Status, Exit> {
    let Some(status) = fleet.statuses().pop() else { return Err(Exit::Usage) };
    if status.state == State::Connected {
        return Ok(status);
    }
    let Some(error) = status.error() else {
        render::status(&status, globals);
        return Err(Exit::from(&status));
    };
    Err(Failure { remote: status.transport != "stdio", error, hint: None }.told(globals, subject).await)
}

/// How the program ends if a server that is needed is not connected. One that is switched off is not needed.
pub(crate) fn exit(statuses: &[Status]) -> Exit {
    let needed = statuses.iter().filter(|status| status.required && status.state != State::Disabled);
    needed.map(Exit::from).max().unwrap_or(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_person_reads_how_many_are_left_and_which() {
        let told = |text: &str| {
            let servers = text.split(' ').map(|name| (name.trim_end_matches('!').to_owned(), name.ends_with('!')));
            line(&servers.collect::<Vec<_>>())
        };
        assert_eq!(told("git"), "connecting to git");
        assert_eq!(told("a! b! git c! slow"), "connecting: 3 of 5; waiting for git, slow");
        assert_eq!(told("a b c d e f g!"), "connecting: 1 of 7; waiting for a, b, c, d, e, …");
        assert_eq!(told("a! b!"), "connecting");
    }
}
