//! Options that every command accepts.

use std::path::PathBuf;

use clap_complete::{ArgValueCandidates, CompletionCandidate};
use wharf::ProtocolMode;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
#[expect(clippy::doc_markdown, reason = "clap prints these texts as they are")]
pub(crate) struct Globals {
    /// Add a server for this invocation (repeatable)
    #[arg(long, global = true, value_name = "NAME=URL|COMMAND")]
    pub(crate) mcp: Vec<String>,
    /// Use only the servers given with --mcp
    #[arg(long, global = true)]
    pub(crate) only_mcp: bool,
    /// Send an HTTP header to a remote server (repeatable)
    #[arg(short = 'H', long, global = true, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Set an environment variable for stdio servers; without a value, pass on the current one (repeatable)
    #[arg(short, long, global = true, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    #[arg(long, global = true, value_name = "[NAME=]MODE", help = protocol_help(),
        add = ArgValueCandidates::new(protocol_modes))]
    pub(crate) protocol: Vec<String>,
    /// Limit the duration of a call, in seconds [default: 600]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<f64>,
    /// Limit the time a server may take to start, in seconds [default: 30]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) connect_timeout: Option<f64>,
    /// Append every message to and from servers to a file, one JSON object per line
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,
    /// Project directory [default: the nearest one with a .mcp.json or local servers, or the repository root]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
    /// Root directory for all user state [default: the XDG directories] [env: WHARF_CONFIG_ROOT]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) config_root: Option<PathBuf>,
    /// Credential profile [default: default] [env: WHARF_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print more details; -vv shortens nothing
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

impl Globals {
    /// Whether to print more details.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// Whether `--header` sets `Authorization`.
    pub(crate) fn sends_authorization(&self) -> bool {
        let is_authorization = |header: &String| {
            header.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("authorization"))
        };
        self.header.iter().any(is_authorization)
    }
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "expected a number of seconds, for example 30 or 2.5")
}

/// The client owns the names of the modes, so the help is built from them.
fn protocol_help() -> String {
    let names = ProtocolMode::NAMES.join(", ");
    format!("Set the protocol mode for all servers or for one: {names} [default: {}]", ProtocolMode::Auto)
}

fn protocol_modes() -> Vec<CompletionCandidate> {
    ProtocolMode::NAMES.into_iter().map(CompletionCandidate::new).collect()
}

/// Options about servers of the command line.
const DYNAMIC: &[&str] = &["mcp", "only_mcp", "header", "env"];
/// Options about connections.
const CONNECTION: &[&str] = &["protocol", "timeout", "connect_timeout", "trace"];
/// Options about the files of the user.
const FILES: &[&str] = &["project", "config_root"];
const PROFILE: &[&str] = &["profile"];
/// Options about the output.
const OUTPUT: &[&str] = &["json", "verbose", "quiet", "color"];

/// The global options without effect on a command and on the commands below it. They are accepted, because a script may
/// pass them to every command, but the help does not list them.
const INAPPLICABLE: &[(&str, &[&[&str]])] = &[
    ("demo", &[&["only_mcp", "project"]]),
    ("add", &[&["mcp", "only_mcp", "trace"]]),
    ("add-json", &[DYNAMIC, CONNECTION]),
    ("import", &[DYNAMIC, CONNECTION, PROFILE]),
    ("export", &[DYNAMIC, CONNECTION, PROFILE]),
    ("search", &[DYNAMIC, &["protocol", "timeout", "trace"], PROFILE]),
    ("logs", &[DYNAMIC, CONNECTION, PROFILE]),
    ("remove", &[DYNAMIC, CONNECTION]),
    ("enable", &[DYNAMIC, CONNECTION, PROFILE]),
    ("disable", &[DYNAMIC, CONNECTION, PROFILE]),
    ("approve", &[DYNAMIC, CONNECTION, PROFILE]),
    ("login", &[&["env"]]),
    ("logout", &[&["env"], CONNECTION]),
    ("verify", &[DYNAMIC]),
    ("verify check", &[CONNECTION, PROFILE]),
    ("verify status", &[CONNECTION, PROFILE, &["project"]]),
    ("verify import", &[CONNECTION, PROFILE, FILES]),
    ("verify export", &[CONNECTION, PROFILE, FILES]),
    ("verify report", &[CONNECTION, PROFILE, &["project"]]),
    ("verify compare", &[CONNECTION, PROFILE, &["project"]]),
    ("verify preset", &[CONNECTION, PROFILE, &["project"]]),
    ("completions", &[DYNAMIC, CONNECTION, FILES, PROFILE, OUTPUT]),
    ("man", &[DYNAMIC, CONNECTION, FILES, PROFILE, OUTPUT]),
];

/// Hides the global options of every command that have no effect on it.
pub(crate) fn hide_inapplicable(root: clap::Command) -> clap::Command {
    let options: Vec<clap::Arg> = root.get_arguments().filter(|option| option.is_global_set()).cloned().collect();
    hide_below(root, "", &options)
}

fn hide_below(mut command: clap::Command, path: &str, options: &[clap::Arg]) -> clap::Command {
    let groups = INAPPLICABLE.iter().filter(|(of, _)| *of == path).flat_map(|(_, groups)| *groups);
    for option in groups.flat_map(|group| *group) {
        // A command that has the option itself does not inherit it.
        let hidden = options.iter().find(|known| known.get_id() == option).map(|known| known.clone().hide(true));
        command = command.args(hidden);
    }
    for below in command.get_subcommands_mut() {
        let path = format!("{path} {}", below.get_name());
        *below = hide_below(std::mem::take(below), path.trim_start(), options);
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Root {
        #[command(flatten)]
        globals: Globals,
        #[arg(long, global = true)]
        color: bool,
    }

    #[test]
    fn every_hidden_option_exists() {
        let root = Root::command();
        let known: Vec<&str> = root.get_arguments().map(|option| option.get_id().as_str()).collect();
        for (command, groups) in INAPPLICABLE {
            for option in groups.iter().copied().flatten() {
                assert!(known.contains(option), "{command}: {option}");
            }
        }
    }
}
