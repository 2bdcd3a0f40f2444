//! Start and scope: problems of the files, whether a server may be used, and whether its command exists.

use std::path::PathBuf;

use wharf::config::{ConfiguredServer, Eligibility, Problem, ProblemKind, Severity, StdioConfig};
use wharf::fleet::{Scope, ServerState, TransportConfig};

use super::finding::{Class, Finding, Verdict};
use super::probe::Probe;
use crate::config::describe::disabled_by;
use crate::config::{ServerSelection, Setup, can_be_enabled, dispatcher, network};
use crate::env;
use crate::exit::Exit;
use crate::program::{self, Program};

/// Returns the problems of the files that concern the selected servers.
pub(super) fn problems(setup: &Setup, selection: ServerSelection<'_>) -> Vec<Finding> {
    let finding = |problem: &Problem| {
        let verdict = match problem.severity {
            Severity::Error => Verdict::Problem(Exit::Usage),
            Severity::Warning => Verdict::Advice,
            // It works, until a new version does something else.
            Severity::Note if matches!(problem.kind, ProblemKind::UnpinnedPackage | ProblemKind::IgnoredTimeout) => {
                Verdict::Advice
            }
            Severity::Note => Verdict::Fine,
        };
        Finding {
            class: Class::Start,
            server: problem.server.clone(),
            check: "configuration",
            verdict,
            message: Problem { hint: None, ..problem.clone() }.to_string(),
            fix: problem.hint.clone(),
            said: Vec::new(),
        }
    };
    let is_refusal = |problem: &Problem| setup.loaded.servers.iter().any(|found| is_refusal(found, problem));
    let rules = dispatcher::problems(setup);
    let all = setup.loaded.problems.iter().chain(&rules);
    all.filter(|problem| selection.concerns(problem) && !is_refusal(problem)).map(finding).collect()
}

/// Whether a problem only says that a server is not allowed, which [`standing`] reports.
fn is_refusal(found: &ConfiguredServer, problem: &Problem) -> bool {
    matches!(found.eligibility, Eligibility::Refused(_))
        && problem.kind == ProblemKind::ServerNotUsed
        && problem.server.as_deref() == Some(found.server.name.as_str())
}

/// Returns whether a server may be used.
pub(super) fn standing(found: &ConfiguredServer, is_selected: bool) -> Vec<Finding> {
    let name = found.server.name.as_str();
    let approve = format!("review and approve it: wharf approve {name}");
    let held = |message: &str| {
        let problem = Class::Start.problem(name, "approval", Exit::Usage, message);
        vec![problem.with_fix(approve.clone())]
    };
    match &found.eligibility {
        Eligibility::Ready => vec![Class::Start.fine(name, "scope", origin(found))],
        Eligibility::NeedsApproval(_) => held("it belongs to this project and needs your approval; not started"),
        Eligibility::ApprovalChanged(_) => held("it changed since you approved it; not started"),
        Eligibility::Disabled(by) => {
            let message = format!("disabled {}; not started", disabled_by(*by));
            if !is_selected {
                return vec![Class::Start.fine(name, "scope", message)];
            }
            let fix = can_be_enabled(found).then(|| format!("wharf enable {name}"));
            vec![Class::Start.advice(name, "scope", message).with_fix(fix)]
        }
        Eligibility::Refused(reason) => {
            let problem = Class::Start.problem(name, "scope", Exit::Usage, format!("not allowed: {reason}"));
            vec![problem.with_fix("ask your administrator, or remove it".to_owned())]
        }
        // The problems of the files report these.
        Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. } => Vec::new(),
    }
}

fn origin(found: &ConfiguredServer) -> String {
    let scope = found.server.scope;
    match &found.server.origin {
        Some(origin) => format!("{scope} scope, {}:{}", origin.file.display(), origin.line),
        None if scope == Scope::Dynamic => "from the command line".to_owned(),
        None => format!("{scope} scope"),
    }
}

/// Checks the command or the network settings that a server needs.
pub(super) fn prerequisites(setup: &Setup, probe: &Probe<'_>) -> Vec<Finding> {
    let server = &probe.found.server;
    match &server.transport {
        TransportConfig::Stdio(stdio) => command(probe, stdio),
        TransportConfig::Managed(managed) => command(probe, &managed.launch),
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            let connect = server.settings.connect_timeout.unwrap_or(setup.session.deadlines.connect);
            let Err(error) = network::settings(connect, &remote.url) else { return Vec::new() };
            let problem = Class::Start.problem(server.name.as_str(), "network", Exit::Usage, error.message);
            vec![problem.with_fix(error.hint)]
        }
        TransportConfig::Custom(..) => Vec::new(),
    }
}

fn command(probe: &Probe<'_>, stdio: &StdioConfig) -> Vec<Finding> {
    let name = probe.status.name.as_str();
    let command = stdio.command.as_str();
    let environment = env::for_servers();
    let own = stdio.env.get("PATH").map(|path| path.expose().to_owned().into());
    let path: Option<std::ffi::OsString> = own.or_else(|| environment.get("PATH").map(Into::into));
    let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let folder = stdio.cwd.clone().unwrap_or_else(here);
    let unreachable = |message| Class::Start.problem(name, "command", Exit::Unreachable, message);
    let found = match program::find(command, path.as_deref(), &folder) {
        Program::Found(file) => {
            let message = if command.contains('/') {
                format!("`{command}` exists")
            } else {
                format!("`{command}` is {}", file.display())
            };
            return vec![Class::Start.fine(name, "command", message)];
        }
        Program::NoInterpreter(file, interpreter) => {
            let message = format!("`{}` is a script for `{interpreter}`, which was not found", file.display());
            unreachable(message).with_fix(program::install_hint(&interpreter, path.as_deref()))
        }
        Program::NotExecutable(file) => unreachable(format!("`{}` is not executable", file.display()))
            .with_fix("is it a program? A script needs a `#!` line and `chmod +x`".to_owned()),
        Program::Missing => unreachable(format!("command `{command}` not found"))
            .with_fix(program::install_hint(command, path.as_deref())),
    };
    // A connected server proves that the system found the command.
    if probe.status.state == ServerState::Connected { Vec::new() } else { vec![found] }
}
