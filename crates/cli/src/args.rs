//! What can be said on the command line.

use std::path::PathBuf;

use clap::{ColorChoice, Parser, Subcommand, ValueEnum};
use wharf::Protocol;

/// Where MCP servers dock and agents load their tools.
#[derive(Debug, Parser)]
#[command(
    name = "wharf",
    version,
    max_term_width = 100,
    after_help = "Data goes to stdout, everything else to stderr.\n\
        Exit codes: 0 done · 1 the task failed · 2 wrong usage · 3 a server wants authorization · \
        4 a server is unreachable · 130 interrupted"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
}

/// What holds for every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Globals {
    /// A server for this call: a name, and its address or the command that starts it. May be given several times
    #[arg(long, global = true, value_name = "NAME=URL|COMMAND")]
    pub(crate) mcp: Vec<String>,
    /// A header for the server at a URL. May be given several times
    #[arg(short = 'H', long, global = true, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// A variable the servers that are commands get, with our value if none is given. May be given several times
    #[arg(short, long, global = true, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    #[arg(long, global = true, value_name = "[NAME=]WHICH", value_hint = clap::ValueHint::Other, help = protocols())]
    pub(crate) protocol: Vec<String>,
    /// Only the servers of --mcp, and none that is configured
    #[arg(long, global = true)]
    pub(crate) only_mcp: bool,
    /// How long one call may take in all, in seconds [default: 600, or MCP_TOOL_TIMEOUT milliseconds]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// How long a server may take to start, in seconds [default: 30, or MCP_TIMEOUT milliseconds]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(crate) connect_timeout: Option<f64>,
    /// The project's folder [default: the nearest one with a .mcp.json, or the repository's root]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
    /// One folder for everything that is kept for this person [default: WHARF_CONFIG_ROOT, or the usual folders]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) config_root: Option<PathBuf>,
    /// Write JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Say nothing but data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// The names belong to who speaks them.
fn protocols() -> String {
    let names = Protocol::NAMES.join(", ");
    format!(
        "Which generation of the protocol to speak, with all servers or with one: {names} [default: {}]",
        Protocol::Auto
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: a small server in this process, as a child and over the network, a crash and lost sessions; and the
    /// servers you name
    Demo,
    /// List the tools of the servers; with -v, what they take
    #[command(after_help = "Examples:\n  wharf tools --mcp 'time=uvx mcp-server-time'\n  \
        wharf tools --mcp docs=https://example.com/mcp -H 'Authorization: Bearer …'")]
    Tools(Tools),
    /// Call a tool
    #[command(after_help = "Examples:\n  \
        wharf call time get_current_time timezone=Europe/Paris --mcp 'time=uvx mcp-server-time'\n  \
        wharf call git git_log '{\"repo_path\": \".\", \"max_count\": 3}' --mcp 'git=uvx mcp-server-git'\n  \
        cat arguments.json | wharf call git git_commit - --mcp 'git=uvx mcp-server-git'")]
    Call(Call),
    /// Tell how many tokens each server costs in a model's context; with -v, or for one server, each tool
    Context(crate::commands::context::Context),
    /// Find out what is wrong with the servers, and how to mend it
    Doctor(crate::commands::doctor::Doctor),
    /// Write a completion script for a shell
    #[command(after_help = "Example:\n  wharf completions bash > ~/.local/share/bash-completion/completions/wharf")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual page
    Man,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tools {
    /// Only this server
    pub(crate) server: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Call {
    /// The server
    pub(crate) server: String,
    /// The tool
    pub(crate) tool: String,
    /// The arguments: one JSON object, `-` to read it from stdin, or `key=value` pairs. A value is text where the tool
    /// wants text, and JSON everywhere else
    #[arg(value_name = "JSON | - | KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes everything that is printed from now on follow the choice.
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}
