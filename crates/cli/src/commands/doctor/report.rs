//! The report: by server for people, one list for programs.

use serde::Serialize;

use super::finding::{Finding, Verdict};
use crate::config::Setup;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term::{self, wrapped};

/// The column of a finding's text, after its mark and its class.
const INDENT: usize = 21;
/// How much of one line of a server's output is shown on a terminal without `--verbose`.
const MAX_QUOTED_CHARS: usize = 300;
/// The least width for the text.
const MIN_TEXT_WIDTH: usize = 30;

/// Prints the findings, and returns the exit code.
pub(super) async fn show(globals: &Globals, setup: &Setup, findings: &[Finding]) -> Exit {
    let exit = findings.iter().map(Finding::exit).max().unwrap_or(Exit::Done);
    let written = if globals.json {
        term::json(&JsonReport::new(findings, exit)).await
    } else {
        term::out(text(globals, setup, findings)).await
    };
    exit.max(written)
}

fn text(globals: &Globals, setup: &Setup, findings: &[Finding]) -> String {
    let width = term::terminal_width().map_or(usize::MAX, usize::from);
    let mut parts = Vec::new();
    for server in servers(findings) {
        let mut lines = vec![match server {
            Some(name) => format!("{}{}", term::name(name), described(setup, name)),
            None => "configuration".to_owned(),
        }];
        let mut of_server: Vec<&Finding> =
            findings.iter().filter(|finding| finding.server.as_deref() == server).collect();
        of_server.sort_by_key(|finding| finding.class);
        lines.extend(
            of_server
                .into_iter()
                .filter(|finding| is_shown(finding, globals))
                .flat_map(|finding| finding_lines(finding, globals, width)),
        );
        if lines.len() > 1 {
            parts.push(lines.join("\n"));
        }
    }
    parts.push(summary(findings));
    parts.join("\n\n")
}

/// Returns the servers by name; findings about no server come first.
fn servers(findings: &[Finding]) -> Vec<Option<&str>> {
    let mut servers: Vec<Option<&str>> = findings.iter().map(|finding| finding.server.as_deref()).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

fn described(setup: &Setup, name: &str) -> String {
    setup.loaded.find(name).map(|found| format!(" ({})", found.server.transport.kind())).unwrap_or_default()
}

/// Whether a finding is printed: with `--quiet` only problems and suggestions; quotes and notes only with `--verbose`.
fn is_shown(finding: &Finding, globals: &Globals) -> bool {
    match finding.verdict {
        Verdict::Fine if globals.quiet => false,
        Verdict::Fine => globals.is_verbose() || !matches!(finding.check, "stderr" | "configuration"),
        Verdict::Advice | Verdict::Problem(_) => true,
    }
}

fn finding_lines(finding: &Finding, globals: &Globals, width: usize) -> Vec<String> {
    let room = width.saturating_sub(INDENT).max(MIN_TEXT_WIDTH);
    let mut lines: Vec<String> = wrapped(&term::visible(&finding.message), room);
    let is_whole = globals.is_verbose() || width == usize::MAX;
    let max_chars = if is_whole { usize::MAX } else { MAX_QUOTED_CHARS };
    lines.extend(finding.said.iter().flat_map(|line| line.rows(max_chars, room)));
    if let Some(fix) = &finding.fix {
        lines.extend(wrapped(&term::visible(&format!("fix: {fix}")), room));
    }
    let mark = term::painted(&finding.verdict.mark().to_string(), finding.verdict.style());
    let head = format!("  {mark} {:<width$}", finding.class.as_str(), width = INDENT - 4);
    let line = |(index, line): (usize, String)| {
        if index == 0 { format!("{head}{line}") } else { format!("{:INDENT$}{line}", "") }
    };
    lines.into_iter().enumerate().map(line).collect()
}

fn summary(findings: &[Finding]) -> String {
    let count = |is_counted: fn(&Verdict) -> bool| findings.iter().filter(|found| is_counted(&found.verdict)).count();
    let fine = count(|verdict| *verdict == Verdict::Fine);
    let suggestions = count(|verdict| *verdict == Verdict::Advice);
    let problems = count(|verdict| matches!(verdict, Verdict::Problem(_)));
    let servers = servers(findings).into_iter().flatten().count();
    format!(
        "{}: {fine} ok, {}, {}",
        term::counted(servers, "server"),
        term::counted(suggestions, "suggestion"),
        term::counted(problems, "problem")
    )
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonReport<'a> {
    version: u32,
    ok: bool,
    exit: u8,
    findings: &'a [Finding],
}

impl<'a> JsonReport<'a> {
    fn new(findings: &'a [Finding], exit: Exit) -> Self {
        Self { version: 1, ok: exit == Exit::Done, exit: exit as u8, findings }
    }
}
