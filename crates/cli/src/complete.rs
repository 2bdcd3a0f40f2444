//! Candidates for shell completion. Servers come from the configuration files, and what they list from a cache:
//! completion starts no server and sends no request.

use std::path::PathBuf;

use clap::{Arg, Command};
use clap_complete::CompletionCandidate;
use wharf::ServerName;
use wharf::config::Eligibility;

use crate::completion_cache::{self, ListedKind};
use crate::config::Setup;
use crate::env::variable;
use crate::globals::Globals;
use crate::server_log;

/// The variable with which a shell requests completions.
pub(crate) const VARIABLE: &str = "WHARF_COMPLETE";
/// The variable with which bash and zsh say which word is being typed.
const INDEX_VARIABLE: &str = "_CLAP_COMPLETE_INDEX";

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

/// The commands whose operands depend on the ones before them.
const DEPENDENT_COMMANDS: [&str; 5] = ["call", "tools", "prompt", "read", "man"];

/// Returns the tools of the server that was typed before the cursor.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    listed(ListedKind::Tools)
}

/// Returns the prompts of the server that was typed before the cursor.
pub(crate) fn prompts() -> Vec<CompletionCandidate> {
    listed(ListedKind::Prompts)
}

/// Returns the resources of the server that was typed before the cursor.
pub(crate) fn resources() -> Vec<CompletionCandidate> {
    listed(ListedKind::Resources)
}

/// Returns the arguments of the tool that was typed before the cursor, without those that were typed already.
pub(crate) fn tool_arguments() -> Vec<CompletionCandidate> {
    arguments(ListedKind::Tools)
}

/// Like [`tool_arguments`], of a prompt.
pub(crate) fn prompt_arguments() -> Vec<CompletionCandidate> {
    arguments(ListedKind::Prompts)
}

/// Returns the commands below the words that were typed after `man`.
pub(crate) fn command_names(root: &Command) -> Vec<String> {
    let mut command = root;
    for word in typed_operands() {
        match command.find_subcommand(&word) {
            Some(below) => command = below,
            None => break,
        }
    }
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.map(|command| command.get_name().to_owned()).collect()
}

/// Hides options where a value can be completed, unless an option is being typed: values would be lost among them.
pub(crate) fn without_options(command: Command) -> Command {
    if current_word().is_some_and(|word| word.starts_with('-')) {
        return command;
    }
    hide_options(command).disable_help_flag(true).disable_version_flag(true)
}

fn hide_options(command: Command) -> Command {
    let hidden = |argument: Arg| if argument.is_positional() { argument } else { argument.hide(true) };
    command.mut_args(hidden).mut_subcommands(hide_options)
}

fn listed(kind: ListedKind) -> Vec<CompletionCandidate> {
    let (Some(server), Some(setup)) = (typed_operands().into_iter().next(), setup()) else { return Vec::new() };
    let names = completion_cache::names(&setup.paths, kind, &server).into_keys();
    // A colon has no meaning to a shell, and every URI has one.
    let is_safe = |name: &String| match kind {
        ListedKind::Resources => is_shell_safe(&name.replace(':', "")),
        ListedKind::Tools | ListedKind::Prompts => is_shell_safe(name),
    };
    names.filter(is_safe).map(CompletionCandidate::new).collect()
}

fn arguments(kind: ListedKind) -> Vec<CompletionCandidate> {
    let mut operands = typed_operands().into_iter();
    let (Some(server), Some(name), Some(setup)) = (operands.next(), operands.next(), setup()) else {
        return Vec::new();
    };
    let typed: Vec<String> = operands.collect();
    let is_typed = |name: &str| typed.iter().any(|word| word.split_once('=').is_some_and(|(typed, _)| typed == name));
    let names = completion_cache::names(&setup.paths, kind, &server).remove(&name).unwrap_or_default();
    let names = names.into_iter().filter(|name| is_shell_safe(name) && !is_typed(name));
    names.map(|name| CompletionCandidate::new(format!("{name}="))).collect()
}

/// Returns the words that were typed after the command, without options.
fn typed_operands() -> Vec<String> {
    let words = typed_words().into_iter().skip_while(|word| !DEPENDENT_COMMANDS.contains(&word.as_str())).skip(1);
    words.filter(|word| !word.starts_with('-')).collect()
}

/// Returns the word at the cursor: the one that the shell names, or else the last one.
fn current_word() -> Option<String> {
    let mut words = typed_words();
    let index = variable(&[INDEX_VARIABLE]).and_then(|index| index.parse::<usize>().ok());
    match index {
        Some(index) => words.into_iter().nth(index),
        None => words.pop(),
    }
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
