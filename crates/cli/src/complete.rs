//! Candidates for shell completion. Servers come from the configuration files and tools from a cache: completion starts
//! no server and sends no request.

use std::path::PathBuf;

use clap_complete::CompletionCandidate;
use wharf::ServerName;
use wharf::config::Eligibility;

use crate::config::Setup;
use crate::globals::Globals;
use crate::{completion_cache, server_log};

/// The variable with which a shell requests completions.
pub(crate) const VARIABLE: &str = "WHARF_COMPLETE";

/// Returns the configured servers.
pub(crate) fn servers() -> Vec<CompletionCandidate> {
    let Some(setup) = setup() else { return Vec::new() };
    // Shells insert candidates unquoted, and a project chooses its servers' names.
    let names = setup.names().into_iter().filter(|name| name.parse::<ServerName>().is_ok() && is_shell_safe(name));
    names.map(CompletionCandidate::new).collect()
}

/// Returns the servers that have a log.
pub(crate) fn logged_servers() -> Vec<CompletionCandidate> {
    let Some(directory) = setup().and_then(|setup| setup.paths.logs) else { return Vec::new() };
    let names = server_log::servers_in(&directory).into_iter().filter(|name| is_shell_safe(name));
    names.map(CompletionCandidate::new).collect()
}

/// Returns the servers that need approval.
pub(crate) fn unapproved_servers() -> Vec<CompletionCandidate> {
    let Some(setup) = setup() else { return Vec::new() };
    let needs_approval =
        |standing: &Eligibility| matches!(standing, Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_));
    let unapproved = setup.loaded.servers.iter().filter(|found| needs_approval(&found.eligibility));
    unapproved.map(|found| CompletionCandidate::new(found.server.name.as_str())).collect()
}

/// The commands with a server and one of its tools.
const TOOL_COMMANDS: [&str; 2] = ["call", "tools"];

/// Returns the tools of the server that was typed before the cursor.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let (Some(server), Some(setup)) = (typed_operands().into_iter().next(), setup()) else { return Vec::new() };
    let tools = completion_cache::tools(&setup.paths, &server).into_keys().filter(|tool| is_shell_safe(tool));
    tools.map(CompletionCandidate::new).collect()
}

/// Returns the arguments of the tool that was typed before the cursor, without those that were typed already.
pub(crate) fn tool_arguments() -> Vec<CompletionCandidate> {
    let mut operands = typed_operands().into_iter();
    let (Some(server), Some(tool), Some(setup)) = (operands.next(), operands.next(), setup()) else {
        return Vec::new();
    };
    let typed: Vec<String> = operands.collect();
    let is_typed = |name: &str| typed.iter().any(|word| word.split_once('=').is_some_and(|(typed, _)| typed == name));
    let names = completion_cache::tools(&setup.paths, &server).remove(&tool).unwrap_or_default();
    let names = names.into_iter().filter(|name| is_shell_safe(name) && !is_typed(name));
    names.map(|name| CompletionCandidate::new(format!("{name}="))).collect()
}

/// Returns the words that were typed after the command, without options.
fn typed_operands() -> Vec<String> {
    let words = typed_words().into_iter().skip_while(|word| !TOOL_COMMANDS.contains(&word.as_str())).skip(1);
    words.filter(|word| !word.starts_with('-')).collect()
}

/// Whether a word has no meaning to a shell and is not an option.
fn is_shell_safe(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain)
}

fn setup() -> Option<Setup> {
    let words = typed_words();
    let directory = |flag: &str| {
        let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        let next = words.iter().position(|word| word == flag).and_then(|index| words.get(index + 1));
        joined.map(PathBuf::from).or_else(|| next.map(PathBuf::from))
    };
    let globals =
        Globals { config_root: directory("--config-root"), project: directory("--project"), ..Globals::default() };
    Setup::read(&globals).ok()
}

/// Returns the words of the command line being typed.
fn typed_words() -> Vec<String> {
    std::env::args().skip_while(|word| word != "--").skip(1).collect()
}
