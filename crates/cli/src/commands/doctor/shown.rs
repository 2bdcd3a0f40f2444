//! How findings are told: server by server for people, one list for programs.

use serde::Serialize;

use super::finding::{Finding, Verdict};
use crate::args::Globals;
use crate::exit::Exit;
use crate::render;
use crate::setup::Setup;
use crate::wrap::wrapped;

/// Where the words of a finding begin: after its mark and its class.
const INDENT: usize = 21;
/// The narrowest that words are made.
const NARROWEST: usize = 30;

/// Shows what was found, and tells what the program ends with.
pub(super) async fn show(globals: &Globals, setup: &Setup, findings: &[Finding]) -> Exit {
    let exit = findings.iter().map(Finding::exit).max().unwrap_or(Exit::Done);
    let written = if globals.json {
        render::json(&Shown::new(findings, exit)).await
    } else {
        render::out(text(globals, setup, findings)).await
    };
    exit.max(written)
}

fn text(globals: &Globals, setup: &Setup, findings: &[Finding]) -> String {
    let width = render::terminal_width().map_or(usize::MAX, usize::from);
    let mut parts = Vec::new();
    for server in servers(findings) {
        let mut lines = vec![match server {
            Some(name) => format!("{name}{}", described(setup, name)),
            None => "configuration".to_owned(),
        }];
        let mut of_server: Vec<&Finding> =
            findings.iter().filter(|finding| finding.server.as_deref() == server).collect();
        of_server.sort_by_key(|finding| finding.class);
        lines.extend(
            of_server
                .into_iter()
                .filter(|finding| is_told(finding, globals))
                .flat_map(|finding| told(finding, globals, width)),
        );
        if lines.len() > 1 {
            parts.push(lines.join("\n"));
        }
    }
    parts.push(summary(findings));
    parts.join("\n\n")
}

/// The servers, in the order of their names; what is about no server comes first.
fn servers(findings: &[Finding]) -> Vec<Option<&str>> {
    let mut servers: Vec<Option<&str>> = findings.iter().map(|finding| finding.server.as_deref()).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

fn described(setup: &Setup, name: &str) -> String {
    setup.loaded.find(name).map(|found| format!(" ({})", found.server.reach.transport())).unwrap_or_default()
}

/// What is as it should be is told, unless nobody wants to hear it. What only quotes a server, or a note on a file, is
/// for those who want to know all.
fn is_told(finding: &Finding, globals: &Globals) -> bool {
    match finding.verdict {
        Verdict::Fine if globals.quiet => false,
        Verdict::Fine => globals.verbose || !matches!(finding.check, "stderr" | "configuration"),
        Verdict::Advice | Verdict::Problem(_) => true,
    }
}

fn told(finding: &Finding, globals: &Globals, width: usize) -> Vec<String> {
    let room = width.saturating_sub(INDENT).max(NARROWEST);
    let mut words: Vec<String> = wrapped(&render::plain(&finding.message), room);
    words.extend(finding.said.iter().map(|line| render::brief(line, if globals.verbose { usize::MAX } else { room })));
    if let Some(fix) = &finding.fix {
        words.extend(wrapped(&render::plain(&format!("fix: {fix}")), room));
    }
    let mark = render::painted(&finding.verdict.mark().to_string(), finding.verdict.style());
    let head = format!("  {mark} {:<width$}", finding.class.as_str(), width = INDENT - 4);
    let line = |(index, words): (usize, String)| {
        if index == 0 { format!("{head}{words}") } else { format!("{:INDENT$}{words}", "") }
    };
    words.into_iter().enumerate().map(line).collect()
}

fn summary(findings: &[Finding]) -> String {
    let count = |wanted: &str| findings.iter().filter(|finding| finding.verdict.as_str() == wanted).count();
    let (fine, advice, problems) = (count("ok"), count("advice"), count("problem"));
    let servers = servers(findings).into_iter().flatten().count();
    let plural = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    format!(
        "{}: {fine} ok, {}, {}",
        plural(servers, "server", "servers"),
        plural(advice, "piece of advice", "pieces of advice"),
        plural(problems, "problem", "problems")
    )
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    ok: bool,
    exit: u8,
    findings: &'a [Finding],
}

impl<'a> Shown<'a> {
    fn new(findings: &'a [Finding], exit: Exit) -> Self {
        Self { version: 1, ok: exit == Exit::Done, exit: exit as u8, findings }
    }
}
