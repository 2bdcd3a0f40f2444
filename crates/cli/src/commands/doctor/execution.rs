//! Tool execution: whether a server answers, protocol violations, and the result of a tool call.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use wharf::fleet::ServerState;
use wharf::{CallErrorKind, Health, Session, Tool};

use super::connection::{display_duration, quoted_stderr};
use super::finding::{Class, Finding};
use super::probe::Probe;
use crate::exit::Exit;
use crate::{arguments, hints, signature, term};
use wharf::nearest;

const PINGS: u32 = 3;
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// The JSON-RPC code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;
/// How much of an output is shown.
const OUTPUT_CHARS: usize = 100;

/// Pings a server, and reports protocol violations of its session.
pub(super) async fn session(probe: &Probe<'_>) -> Vec<Finding> {
    let Some(session) = probe.fleet.session(&probe.status.name) else { return Vec::new() };
    let mut findings = vec![pings(&session).await];
    findings.extend(violations(&session));
    findings
}

async fn pings(session: &Session) -> Finding {
    let name = session.name().as_str();
    let began = Instant::now();
    for _ in 0..PINGS {
        let why = match timeout(PING_TIMEOUT, session.ping()).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) if error.code() == Some(METHOD_NOT_FOUND) => {
                let finding = Class::Execution.advice(name, "ping", "`ping` is not supported, which MCP requires");
                return finding.with_fix("report it to the server's authors; nothing else depends on it".to_owned());
            }
            Ok(Err(error)) => error.kind.to_string(),
            Err(_) => format!("no answer within {} s", PING_TIMEOUT.as_secs()),
        };
        let problem = Class::Execution.problem(name, "ping", Exit::Failed, format!("no answer to `ping`: {why}"));
        return problem.with_fix("the server connects but does not answer: check its log, or restart it".to_owned());
    }
    let average = began.elapsed() / PINGS;
    Class::Execution.fine(name, "ping", format!("{PINGS} pings answered, {} each", display_duration(average)))
}

fn violations(session: &Session) -> Vec<Finding> {
    let name = session.name().as_str();
    let Health { violations, stray_answers, lost_notices, connections, .. } = session.health();
    let mut findings = Vec::new();
    let mut odd = |count: u64, what: &str, fix: &str| {
        if count > 0 {
            let finding = Class::Execution.advice(name, "behaviour", format!("{what}: {count}"));
            findings.push(finding.with_fix(fix.to_owned()));
        }
    };
    let bug = "this is a bug in the server; report it to its authors. The session went on";
    odd(violations, "messages that violate the protocol", bug);
    odd(stray_answers, "responses without a request", bug);
    odd(lost_notices, "notifications dropped because they came too fast", bug);
    odd(connections.saturating_sub(1), "lost connections", "check the server's log for why it exits");
    findings
}

/// Calls a tool and reports the result.
pub(super) async fn call(probe: &Probe<'_>, wanted: &str, words: &[String]) -> Vec<Finding> {
    let name = probe.status.name.as_str();
    if probe.status.state != ServerState::Connected {
        return Vec::new();
    }
    let (Some(session), Some(listed)) =
        (probe.fleet.session(&probe.status.name), probe.fleet.listed(&probe.status.name))
    else {
        return Vec::new();
    };
    let catalog = probe.fleet.catalog();
    let own = catalog.get(wanted).filter(|entry| entry.server.as_ref() == Some(&probe.status.name));
    let wanted = own.map_or(wanted, |entry| &entry.tool.name);
    let Some(tool) = listed.items.iter().find(|tool| *tool.name == *wanted) else {
        let near = nearest(wanted, listed.items.iter().map(|tool| &*tool.name));
        let fix =
            near.map_or_else(|| format!("list tools: wharf tools {name}"), |near| format!("did you mean `{near}`?"));
        let problem = Class::Execution.problem(name, "call", Exit::Usage, format!("unknown tool `{wanted}`"));
        return vec![problem.with_fix(fix)];
    };
    match arguments::read(words, Some(&tool.input_schema)) {
        Ok(arguments) => vec![called(&session, tool, &arguments).await],
        Err(error) => {
            vec![Class::Execution.problem(name, "call", Exit::Usage, error.message).with_fix(error.hint)]
        }
    }
}

async fn called(session: &Session, tool: &Tool, arguments: &wharf::Json) -> Finding {
    let name = session.name().as_str();
    let began = Instant::now();
    let result = session.call(&tool.name, arguments).await;
    let time = display_duration(began.elapsed());
    let output = match result {
        Ok(output) => output,
        Err(error) => {
            let (message, fix) = match &error.kind {
                CallErrorKind::Arguments { .. } => (error.kind.to_string(), Some(signature::sentence(tool))),
                kind => {
                    let message = format!("no answer from `{}`: {kind}", tool.name);
                    (message, hints::for_error(&error, session.is_remote()))
                }
            };
            let said = quoted_stderr(&error.evidence);
            return Class::Execution
                .problem(name, "call", Exit::from(&error.kind), message)
                .with_fix(fix)
                .quoting(said);
        }
    };
    let text = term::brief(&output.text(), OUTPUT_CHARS);
    if output.is_error {
        let message = format!("`{}` reported an error after {time}: {text}", tool.name);
        let fix = format!("{}; the server's log may say more", signature::sentence(tool));
        return Class::Execution.problem(name, "call", Exit::Failed, message).with_fix(fix);
    }
    Class::Execution.fine(name, "call", format!("`{}` answered in {time}: {text}", tool.name))
}
