//! Options that every command accepts.

use std::path::PathBuf;

use clap_complete::{ArgValueCandidates, CompletionCandidate};
use wharf::ProtocolMode;

#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
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
    /// Project directory [default: the nearest one with a .mcp.json, or the repository root]
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
    /// Print more details
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

impl Globals {
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
