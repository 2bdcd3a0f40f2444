//! `wharf get`: everything about one server.

use serde::Serialize;
use serde_json::{Map, Value};
use wharf::config::{ConfiguredServer, Eligibility, InvalidEntry, Problem};
use wharf::fleet::ServerStatus;

use super::list::{self, Row, marked};
use crate::args::{Get, Globals};
use crate::describe::Named;
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::live::Live;
use crate::servers::{Misuse, instead_of, misuse};
use crate::setup::{How, Setup, Which};
use crate::{describe, remembered, render};

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    server: Row,
    /// The names of its variables and headers; what they hold is not shown.
    env: Vec<Named>,
    headers: Vec<Named>,
    /// What else its entry says.
    settings: Map<String, Value>,
    protocol: Option<String>,
    /// Servers of the same name that are not used.
    others: Vec<Row>,
    problems: Vec<&'a Problem>,
}

pub(crate) async fn run(globals: &Globals, get: Get) -> Exit {
    match Box::pin(got(globals, &get)).await {
        Ok(exit) => exit,
        Err(misuse) => {
            render::misuse(&misuse);
            Exit::Usage
        }
    }
}

async fn got(globals: &Globals, get: &Get) -> Result<Exit, Misuse> {
    let which = Which::One(&get.name);
    let setup = Setup::load_for(globals, which).await?;
    if let Some(broken) = setup.loaded.find_broken(&get.name) {
        let written = show_broken(globals, &setup, broken).await;
        return Ok(if broken.disabled.is_some() { written } else { Exit::Usage });
    }
    let Some(found) = setup.loaded.find(&get.name) else {
        let hint = instead_of(&get.name, &setup.names());
        return Err(misuse(format!("there is no server `{}`", get.name), Some(&hint)));
    };
    if get.no_connect || found.standing != Eligibility::Ready {
        return Ok(show(globals, &setup, found, None).await);
    }
    let fleet = setup.open(which, How::Anew)?;
    let exit = guarded(&fleet, async {
        Live::watch(&fleet, globals.quiet).await;
        remembered::keep(&setup.places, &fleet);
        let status = fleet.status(&found.server.name);
        let written = show(globals, &setup, found, status.as_ref()).await;
        if let Some(status) = status.as_ref().filter(|status| status.error().is_some()) {
            render::status(status, globals);
        }
        status.map_or(written, |status| Exit::from(&status).max(written))
    });
    Ok(exit.await)
}

fn others(setup: &Setup, name: &str) -> Vec<Row> {
    let shadowed = |found: &&ConfiguredServer| {
        found.server.name.as_str() == name && matches!(found.standing, Eligibility::Shadowed { .. })
    };
    setup.loaded.servers.iter().filter(shadowed).map(|found| list::row(found, None)).collect()
}

fn problems<'a>(setup: &'a Setup, name: &str) -> Vec<&'a Problem> {
    setup.loaded.problems.iter().filter(|problem| problem.server.as_deref() == Some(name)).collect()
}

async fn show(globals: &Globals, setup: &Setup, found: &ConfiguredServer, status: Option<&ServerStatus>) -> Exit {
    // Connecting to this one server makes it needed; what is shown is what its entry says.
    let row = Row { required: found.server.settings.required, ..list::row(found, status) };
    let name = row.name.clone();
    let shown = Shown {
        version: 1,
        env: describe::names(found, "env"),
        headers: describe::names(found, "headers"),
        settings: describe::settings(found),
        protocol: status.and_then(|status| status.info.as_ref()).map(|info| info.protocol()),
        others: others(setup, &name),
        problems: problems(setup, &name),
        server: row,
    };
    if globals.json {
        return render::json(&shown).await;
    }
    render::out(in_words(&shown, status)).await
}

async fn show_broken(globals: &Globals, setup: &Setup, broken: &InvalidEntry) -> Exit {
    let (env, headers, settings) = (Vec::new(), Vec::new(), Map::new());
    let (others, problems) = (others(setup, &broken.name), problems(setup, &broken.name));
    let server = list::broken(broken);
    let shown = Shown { version: 1, server, env, headers, settings, protocol: None, others, problems };
    if globals.json {
        return render::json(&shown).await;
    }
    render::out(in_words(&shown, None)).await
}

fn in_words(shown: &Shown<'_>, status: Option<&ServerStatus>) -> String {
    let row = &shown.server;
    let mut lines = vec![render::flat(&row.name)];
    let mut say = |key: &str, value: &str| lines.push(format!("  {key:<10} {}", render::flat(value)));
    let place = |row: &Row| {
        row.origin.as_ref().map_or_else(String::new, |origin| format!(", {}:{}", origin.file.display(), origin.line))
    };
    say("scope", &format!("{}{}", row.scope, place(row)));
    let is_command = row.transport == Some("stdio");
    row.transport.iter().for_each(|transport| say("transport", transport));
    row.target.iter().for_each(|target| say(if is_command { "command" } else { "url" }, target));
    shown.env.iter().for_each(|variable| say("env", &variable.to_string()));
    shown.headers.iter().for_each(|header| say("header", &header.to_string()));
    for (key, value) in &shown.settings {
        say(key, &value.to_string());
    }
    let reason = row.reason.as_ref().map(|reason| format!(": {}", reason.lines().next().unwrap_or_default()));
    say("state", &format!("{}{}", marked(row.state), reason.unwrap_or_default()));
    if let Some(info) = status.and_then(|status| status.info.as_ref()) {
        say("says it is", &format!("{} {}, protocol {}", info.name, info.version, info.protocol()));
        say("offers", &if row.tools == 1 { "1 tool".to_owned() } else { format!("{} tools", row.tools) });
    }
    for other in &shown.others {
        say("hides", &format!("one of the {} scope{}", other.scope, place(other)));
    }
    lines.join("\n")
}
