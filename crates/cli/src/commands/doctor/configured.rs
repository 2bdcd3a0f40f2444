//! Start and scope: what the files say, whether a server may be used, and whether there is something to start.

use std::path::PathBuf;

use wharf::config::{ConfiguredServer, Eligibility, Problem, Severity, StdioConfig};
use wharf::fleet::TransportConfig;
use wharf::fleet::{Scope, ServerState};

use super::Looked;
use super::finding::{Class, Finding, Verdict};
use crate::dispatcher;
use crate::exit::Exit;
use crate::network;
use crate::program::{self, Program};
use crate::setup::{Setup, Which, can_be_switched_on, switched_off};
use crate::surroundings;

/// What is wrong with the files, as far as it concerns these servers.
pub(super) fn problems(setup: &Setup, which: Which<'_>) -> Vec<Finding> {
    let concerns = |problem: &&Problem| match (which, &problem.server) {
        (Which::One(wanted), Some(server)) => server == wanted,
        _ => true,
    };
    let told = |problem: &Problem| {
        let verdict = match problem.severity {
            Severity::Error => Verdict::Problem(Exit::Usage),
            Severity::Warning => Verdict::Advice,
            Severity::Note => Verdict::Fine,
        };
        let (server, fix) = (problem.server.clone(), problem.hint.clone());
        let message = Problem { hint: None, ..problem.clone() }.to_string();
        Finding { class: Class::Start, server, check: "configuration", verdict, message, fix, said: Vec::new() }
    };
    let refused = |problem: &&Problem| setup.loaded.servers.iter().any(|found| is_refusal(found, problem));
    let rules = dispatcher::problems(setup);
    setup.loaded.problems.iter().chain(&rules).filter(concerns).filter(|problem| !refused(problem)).map(told).collect()
}

/// Whether a problem only says once more that a server may not be used.
fn is_refusal(found: &ConfiguredServer, problem: &Problem) -> bool {
    let Eligibility::Refused(reason) = &found.standing else { return false };
    problem.server.as_deref() == Some(found.server.name.as_str()) && problem.message.ends_with(reason.as_str())
}

/// Whether a server may be used.
pub(super) fn standing(found: &ConfiguredServer, is_wanted: bool) -> Vec<Finding> {
    let name = found.server.name.as_str();
    let approve = format!("look at what it runs, and approve it: wharf approve {name}");
    let held = |message: &str| {
        let problem = Class::Start.problem(name, "approval", Exit::Usage, message);
        vec![problem.mended_by(approve.clone())]
    };
    match &found.standing {
        Eligibility::Ready => vec![Class::Start.fine(name, "scope", origin(found))],
        Eligibility::NeedsApproval(_) => held("it belongs to this project and needs your approval; it was not started"),
        Eligibility::ApprovalChanged(_) => held("it has changed since you approved it; it was not started"),
        Eligibility::Disabled(by) => {
            let message = format!("it is switched off, {}; it was not started", switched_off(*by));
            let fix = can_be_switched_on(found).then(|| format!("wharf enable {name}"));
            let verdict = if is_wanted {
                Class::Start.advice(name, "scope", message)
            } else {
                Class::Start.fine(name, "scope", message)
            };
            vec![verdict.mended_by(fix.filter(|_| is_wanted))]
        }
        Eligibility::Refused(reason) => {
            let problem = Class::Start.problem(name, "scope", Exit::Usage, format!("it may not be used: {reason}"));
            vec![problem.mended_by("ask whoever looks after this machine, or remove it".to_owned())]
        }
        // The files' problems tell these.
        Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. } => Vec::new(),
    }
}

fn origin(found: &ConfiguredServer) -> String {
    let scope = found.server.scope;
    match &found.server.origin {
        Some(origin) => format!("{scope} scope, {}:{}", origin.file.display(), origin.line),
        None if scope == Scope::Dynamic => "named on the command line".to_owned(),
        None => format!("{scope} scope"),
    }
}

/// Whether there is what it takes to start or reach a server.
pub(super) fn outfit(setup: &Setup, looked: &Looked<'_>) -> Vec<Finding> {
    let server = &looked.found.server;
    match &server.reach {
        TransportConfig::Stdio(launch) => command(looked, launch),
        TransportConfig::Managed(manage) => command(looked, &manage.launch),
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            let connect = server.settings.connect_timeout.unwrap_or(setup.session.deadlines.connect);
            let Err(misuse) = network::settings(connect, &remote.url) else { return Vec::new() };
            let problem = Class::Start.problem(server.name.as_str(), "network", Exit::Usage, misuse.what);
            vec![problem.mended_by(misuse.hint)]
        }
        TransportConfig::Custom(..) => Vec::new(),
    }
}

fn command(looked: &Looked<'_>, launch: &StdioConfig) -> Vec<Finding> {
    let (name, command) = (looked.status.name.as_str(), launch.command.as_str());
    let environment = surroundings::shared();
    let own = launch.env.get("PATH").map(|path| path.expose().to_owned().into());
    let path: Option<std::ffi::OsString> = own.or_else(|| environment.get("PATH").map(Into::into));
    let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let folder = launch.cwd.clone().unwrap_or_else(here);
    let unreachable = |message| Class::Start.problem(name, "command", Exit::Unreachable, message);
    let found = match program::find(command, path.as_deref(), &folder) {
        Program::At(file) => {
            let told = if command.contains('/') {
                format!("`{command}` is there")
            } else {
                format!("`{command}` is {}", file.display())
            };
            return vec![Class::Start.fine(name, "command", told)];
        }
        Program::NoInterpreter(file, interpreter) => {
            let told = format!("`{}` is a script for `{interpreter}`, which was not found", file.display());
            unreachable(told).mended_by(program::remedy(&interpreter, path.as_deref()))
        }
        Program::NotExecutable(file) => unreachable(format!("`{}` may not be executed", file.display()))
            .mended_by("is it a program? A script needs `#!` in its first line and `chmod +x`".to_owned()),
        Program::Missing => unreachable(format!("the command `{command}` was not found"))
            .mended_by(program::remedy(command, path.as_deref())),
    };
    // Whatever we found, the system has found it.
    if looked.status.state == ServerState::Connected { Vec::new() } else { vec![found] }
}
