//! The command line: every command, in the order in which the help lists them.

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, CompletionCandidate};

use crate::commands::add::{Add, AddJson};
use crate::commands::approve::Approve;
use crate::commands::call::Call;
use crate::commands::common::{ServerArg, ServersArg};
use crate::commands::context::Context;
use crate::commands::doctor::Doctor;
use crate::commands::export::Export;
use crate::commands::get::Get;
use crate::commands::import::Import;
use crate::commands::list::List;
use crate::commands::login::Login;
use crate::commands::logs::Logs;
use crate::commands::man::Man;
use crate::commands::prompt::Prompt;
use crate::commands::prompts::Prompts;
use crate::commands::read::Read;
use crate::commands::remove::Remove;
use crate::commands::repl::Repl;
use crate::commands::resources::Resources;
use crate::commands::run::Run;
use crate::commands::search::Search;
use crate::commands::tools::Tools;
use crate::commands::verify::Verify;
use crate::complete;
use crate::globals::{self, Globals};
use crate::term;

/// Where MCP servers dock and agents load their tools.
#[derive(Debug, Parser)]
#[command(
    name = "wharf",
    version = env!("WHARF_VERSION"),
    max_term_width = 100,
    after_help = "Data goes to stdout, everything else to stderr.\n\
        Exit codes: 0 success · 1 failure · 2 usage error · 3 authorization required · 4 server unreachable · \
        130 interrupted"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// When to use color
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN",
        help_heading = "Global options")]
    pub(crate) color: Color,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show Wharf at work on a small built-in server
    Demo,
    /// Add a server
    Add(Add),
    /// Add a server from a JSON entry
    AddJson(AddJson),
    /// Find servers in the MCP registry
    Search(Search),
    /// Import servers from another MCP host
    Import(Import),
    /// Write servers into the configuration of another MCP host
    Export(Export),
    /// List servers and their connection state
    #[command(visible_alias = "ls")]
    List(List),
    /// Show details of a server
    Get(Get),
    /// Remove a server
    #[command(visible_alias = "rm")]
    Remove(Remove),
    /// Enable servers for you in this project
    Enable(ServersArg),
    /// Disable servers for you in this project
    Disable(ServersArg),
    /// Review and approve a project's servers
    Approve(Approve),
    /// Sign in to a remote server
    Login(Login),
    /// Sign out and delete stored credentials
    Logout(ServerArg),
    /// List tools
    Tools(Tools),
    /// Call a tool
    Call(Call),
    /// Explore a server interactively
    Repl(Repl),
    /// Run a model with the servers' tools
    Run(Box<Run>),
    /// Benchmark models with live tools
    Verify(Box<Verify>),
    /// Show how many tokens the tools cost in a model's context
    Context(Context),
    /// Show the log of a server: its states and its stderr
    Logs(Logs),
    /// Diagnose servers and suggest fixes
    Doctor(Doctor),
    /// List prompts
    Prompts(Prompts),
    /// Get a prompt's messages
    Prompt(Prompt),
    /// List resources and resource templates
    Resources(Resources),
    /// Read a resource
    Read(Read),
    /// Generate a shell completion script
    #[command(after_help = "Example:\n  wharf completions bash > ~/.local/share/bash-completion/completions/wharf")]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Generate manual pages
    Man(Man),
}

/// Returns the definition of the command line, for parsing, help, completions and manual pages. The help of a command
/// lists only the global options that apply to it.
pub(crate) fn command() -> clap::Command {
    globals::hide_inapplicable(Cli::command())
}

/// Returns the command line for shell completion.
pub(crate) fn completed_command() -> clap::Command {
    let root = command();
    let names = complete::command_names(&root);
    let with_names = |argument: clap::Arg| {
        argument.add(ArgValueCandidates::new(move || names.iter().map(CompletionCandidate::new).collect()))
    };
    complete::without_options(root.mut_subcommand("man", |man| man.mut_arg("command", with_names)))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Applies the choice to all output from now on.
    pub(crate) fn write_global(self) {
        match self {
            // Other programs color the output of a dumb terminal in CI, where it is a log.
            Self::Auto if term::is_dumb() => anstream::ColorChoice::Never,
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
