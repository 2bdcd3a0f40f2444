//! Tool execution: whether a server answers, how it has behaved meanwhile, and what comes of calling a tool of it.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use wharf::fleet::ServerState;
use wharf::{CallErrorKind, Health, Session, Tool, nearest};

use super::Looked;
use super::finding::{Class, Finding};
use super::reached::{last_lines, told};
use crate::exit::Exit;
use crate::{arguments, render, usage};

/// How often a server is asked whether it is there.
const PINGS: u32 = 3;
/// How long it may take to say so.
const PING: Duration = Duration::from_secs(5);
/// What a server says that does not know a question.
const METHOD_NOT_FOUND: i64 = -32601;
/// How much of an output is told.
const OUTPUT: usize = 100;

/// Whether a server answers, and how it has behaved.
pub(super) async fn session(looked: &Looked<'_>) -> Vec<Finding> {
    let Some(session) = looked.fleet.session(&looked.status.name) else { return Vec::new() };
    let mut findings = vec![pings(&session).await];
    findings.extend(behaviour(&session));
    findings
}

async fn pings(session: &Session) -> Finding {
    let name = session.name().as_str();
    let began = Instant::now();
    for _ in 0..PINGS {
        let why = match timeout(PING, session.ping()).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) if error.code() == Some(METHOD_NOT_FOUND) => {
                let finding =
                    Class::Execution.advice(name, "ping", "it does not know `ping`, which every server should");
                return finding.mended_by("tell its authors; nothing else depends on it".to_owned());
            }
            Ok(Err(error)) => error.kind.to_string(),
            Err(_) => format!("no answer within {} s", PING.as_secs()),
        };
        let problem = Class::Execution.problem(name, "ping", Exit::Failed, format!("it does not answer: {why}"));
        return problem.mended_by("it is connected and then says nothing: look at its log, or restart it".to_owned());
    }
    let average = began.elapsed() / PINGS;
    Class::Execution.fine(name, "ping", format!("{PINGS} pings answered, in {} each", told(average)))
}

fn behaviour(session: &Session) -> Vec<Finding> {
    let name = session.name().as_str();
    let Health { violations, stray_answers, lost_notices, connections, .. } = session.health();
    let mut findings = Vec::new();
    let mut odd = |count: u64, what: &str, fix: &str| {
        if count > 0 {
            findings
                .push(Class::Execution.advice(name, "behaviour", format!("{what}: {count}")).mended_by(fix.to_owned()));
        }
    };
    let theirs = "this is a fault of the server, and was survived; tell its authors";
    odd(violations, "messages that broke the protocol", theirs);
    odd(stray_answers, "answers that nobody waited for", theirs);
    odd(lost_notices, "notifications that came faster than they could be read", theirs);
    odd(
        connections.saturating_sub(1),
        "times the connection was lost and made again",
        "look at the server's log for why it ends",
    );
    findings
}

/// What comes of calling a tool.
pub(super) async fn call(looked: &Looked<'_>, wanted: &str, words: &[String]) -> Vec<Finding> {
    let name = looked.status.name.as_str();
    if looked.status.state != ServerState::Connected {
        return Vec::new();
    }
    let (Some(session), Some(listed)) =
        (looked.fleet.session(&looked.status.name), looked.fleet.listed(&looked.status.name))
    else {
        return Vec::new();
    };
    let catalog = looked.fleet.catalog();
    let own = catalog.get(wanted).filter(|entry| entry.server.as_ref() == Some(&looked.status.name));
    let wanted = own.map_or(wanted, |entry| &entry.tool.name);
    let Some(tool) = listed.items.iter().find(|tool| *tool.name == *wanted) else {
        let near = nearest(wanted, listed.items.iter().map(|tool| &*tool.name));
        let fix =
            near.map_or_else(|| format!("`wharf tools {name}` lists them"), |near| format!("did you mean `{near}`?"));
        let problem = Class::Execution.problem(name, "call", Exit::Usage, format!("there is no tool `{wanted}`"));
        return vec![problem.mended_by(fix)];
    };
    match arguments::read(words, Some(&tool.input_schema)) {
        Ok(arguments) => vec![called(&session, tool, &arguments).await],
        Err(misuse) => {
            vec![Class::Execution.problem(name, "call", Exit::Usage, misuse.what).mended_by(misuse.hint)]
        }
    }
}

async fn called(session: &Session, tool: &Tool, arguments: &wharf::Json) -> Finding {
    let (name, began) = (session.name().as_str(), Instant::now());
    let result = session.call(&tool.name, arguments).await;
    let time = told(began.elapsed());
    let output = match result {
        Ok(output) => output,
        Err(error) => {
            let (message, fix) = match &error.kind {
                CallErrorKind::Arguments { .. } => (error.kind.to_string(), Some(usage::sentence(tool))),
                kind => {
                    let message = format!("`{}` did not answer: {kind}", tool.name);
                    (message, render::advice(&error, session.is_remote()))
                }
            };
            let said = last_lines(&error.evidence.stderr);
            return Class::Execution
                .problem(name, "call", Exit::from(&error.kind), message)
                .mended_by(fix)
                .quoting(said);
        }
    };
    let text = render::brief(&output.text(), OUTPUT);
    if output.is_error {
        let message = format!("`{}` answered after {time} that it failed: {text}", tool.name);
        let fix = format!("{}; the server's log may say more", usage::sentence(tool));
        return Class::Execution.problem(name, "call", Exit::Failed, message).mended_by(fix);
    }
    Class::Execution.fine(name, "call", format!("`{}` answered in {time}: {text}", tool.name))
}
