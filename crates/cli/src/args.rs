//! What can be said on the command line.

use std::path::PathBuf;

use clap::{ColorChoice, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use wharf::ProtocolMode;
use wharf::config::import::ImportHost;
use wharf::fleet::Scope;

use crate::commands::{prompt::Prompt, prompts::Prompts, read::Read, resources::Resources};
use crate::complete;

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
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
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
    #[arg(long, global = true, value_name = "[NAME=]WHICH", help = protocols(),
        add = ArgValueCandidates::new(complete::protocols))]
    pub(crate) protocol: Vec<String>,
    /// Only the servers of --mcp, and none that is configured
    #[arg(long, global = true)]
    pub(crate) only_mcp: bool,
    /// How long one call may take in all, in seconds [default: 600]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<f64>,
    /// How long a server may take to start, in seconds [default: 30]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) connect_timeout: Option<f64>,
    /// The project's folder [default: the nearest one with a .mcp.json, or the repository's root]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
    /// One folder for everything that is kept for this person [default: the usual folders]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) config_root: Option<PathBuf>,
    /// Which sign-ins are used, where you have several at one server [default: `WHARF_PROFILE`, or `default`]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
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

fn seconds(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "it is a number of seconds, for example 30 or 2.5")
}

/// The names belong to who speaks them.
fn protocols() -> String {
    let names = ProtocolMode::NAMES.join(", ");
    format!(
        "Which generation of the protocol to speak, with all servers or with one: {names} [default: {}]",
        ProtocolMode::Auto
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: a small server in this process, as a child and over the network, a crash and lost sessions; and the
    /// servers you name with --mcp
    Demo,
    /// Add a server
    #[command(after_help = "Examples:\n  wharf add time uvx mcp-server-time\n  \
        wharf add -e GITHUB_TOKEN github -- npx -y @modelcontextprotocol/server-github\n  \
        wharf add -s user docs https://example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}'\n\n\
        Everything after a command is the command's; options of wharf stand before the name, or after a URL.\n\
        -e NAME without a value is written as ${NAME}, and read whenever the server is started.")]
    Add(Add),
    /// Add a server whose entry is written as JSON
    #[command(after_help = "Example:\n  wharf add-json time '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'")]
    AddJson(AddJson),
    /// Add the servers that are configured for another host
    #[command(
        after_help = "Examples:\n  wharf import claude-desktop --dry-run\n  wharf import cursor --from .cursor/mcp.json -s user"
    )]
    Import(Import),
    /// List the servers, and connect them to see how they are doing
    #[command(after_help = "Servers of a project that nobody has approved are listed and not started.\n\
        Ends with 4, or 3, if a server cannot be reached, or wants authorization, that is marked as `required` or given \
        with --mcp.")]
    List(List),
    /// Show everything about one server
    Get(Get),
    /// Remove a server
    #[command(after_help = "Example:\n  wharf remove time -s user")]
    Remove(Remove),
    /// Switch a server on, for this project and this person
    Enable(Named),
    /// Switch a server off, for this project and this person
    Disable(Named),
    /// Look at what a project's server would do, and let it be started
    #[command(
        after_help = "What is approved is the exact content: a server that changes needs to be approved again.\n\n\
        Examples:\n  wharf approve time\n  wharf approve --all --yes\n  wharf approve --reset"
    )]
    Approve(Approve),
    /// Sign in to a server at a URL, with a browser
    #[command(
        after_help = "The address to open is written to stderr, too. Where no browser can be opened, open it by hand; \
        if the browser is on another machine, paste the address it ends at.\n\n\
        Examples:\n  wharf login docs\n  wharf login docs --no-browser\n  wharf login docs --scope read --scope write"
    )]
    Login(Login),
    /// Take a sign-in back, and forget it
    Logout(Named),
    /// List the tools of the servers; with -v, what they take
    #[command(
        after_help = "Examples:\n  wharf tools\n  wharf tools time\n  wharf tools --mcp 'time=uvx mcp-server-time'\n  \
        wharf tools --mcp docs=https://example.com/mcp -H 'Authorization: Bearer …'"
    )]
    Tools(Tools),
    /// Call a tool
    #[command(after_help = "Examples:\n  \
        wharf call time get_current_time timezone=Europe/Paris\n  \
        wharf call git git_log '{\"repo_path\": \".\", \"max_count\": 3}' --mcp 'git=uvx mcp-server-git'\n  \
        cat arguments.json | wharf call git git_commit - --mcp 'git=uvx mcp-server-git'")]
    Call(Call),
    /// Run a model over the tools of the servers
    #[command(after_help = "Examples:\n  wharf run 'What time is it in Tokyo?' --mcp 'time=uvx mcp-server-time'\n  \
        wharf run -m anthropic:claude-sonnet-4-5 --strict --allow 'mcp__git__*' --json 'Commit this'\n  \
        wharf run --models models.yaml -m agent-claude 'Which drugs were approved this year?'\n  \
        wharf run -m scripted:turns.yaml --record run.jsonl 'How much is 1 and 2?'")]
    Run(Box<crate::commands::run::Run>),
    /// Tell how many tokens each server costs in a model's context; with -v, or for one server, each tool
    Context(crate::commands::context::Context),
    /// Find out what is wrong with the servers, and how to mend it
    Doctor(crate::commands::doctor::Doctor),
    /// List the prompts of the servers, and what they take
    #[command(after_help = "Examples:\n  wharf prompts\n  wharf prompts docs --json")]
    Prompts(Prompts),
    /// Fill in a prompt, and show its messages
    #[command(after_help = "Examples:\n  wharf prompt git review branch=main\n  \
        wharf prompt docs summary '{\"topic\": \"sails\"}' --mcp docs=https://example.com/mcp")]
    Prompt(Prompt),
    /// List the resources of the servers, and the patterns of their addresses
    #[command(after_help = "Examples:\n  wharf resources\n  wharf resources docs --json")]
    Resources(Resources),
    /// Read a resource: text as it is, anything else to a file or a pipe
    #[command(after_help = "Examples:\n  wharf read docs file:///readme.md\n  \
        wharf read docs file:///logo.png --out logo.png")]
    Read(Read),
    /// Write a completion script for a shell
    #[command(after_help = "Example:\n  wharf completions bash > ~/.local/share/bash-completion/completions/wharf")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual page
    Man,
}

/// Where a server can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// For this person, in this project
    Local,
    /// For this person, everywhere
    User,
    /// For everybody who works on the project: its .mcp.json
    Project,
}

impl From<Place> for Scope {
    fn from(place: Place) -> Self {
        match place {
            Place::Local => Self::Local,
            Place::User => Self::User,
            Place::Project => Self::Project,
        }
    }
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A command, over its stdin and stdout
    Stdio,
    /// Streamable HTTP
    #[value(aliases = ["streamable-http", "streamable_http", "streamableHttp"])]
    Http,
    /// The older HTTP with a long stream of events
    Sse,
    /// WebSocket
    #[value(alias = "websocket")]
    Ws,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Add {
    /// Where it is written
    #[arg(short, long, value_enum, default_value_t = Place::Local)]
    pub(crate) scope: Place,
    /// How it is reached [default: a command is stdio, http:// and https:// are http, ws:// and wss:// are ws]
    #[arg(short, long, value_enum)]
    pub(crate) transport: Option<Kind>,
    /// Put it in the place of one that has the name already
    #[arg(short, long)]
    pub(crate) force: bool,
    /// What it is called
    pub(crate) name: String,
    /// Its address, or the command that starts it and everything that belongs to it
    #[arg(value_name = "URL | COMMAND", required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) target: Vec<String>,
}

/// What may still be said of a server after its URL.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct AfterUrl {
    #[arg(short, long, value_enum)]
    pub(crate) scope: Option<Place>,
    #[arg(short, long, value_enum)]
    pub(crate) transport: Option<Kind>,
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) globals: Globals,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddJson {
    /// Where it is written
    #[arg(short, long, value_enum, default_value_t = Place::Local)]
    pub(crate) scope: Place,
    /// Put it in the place of one that has the name already
    #[arg(short, long)]
    pub(crate) force: bool,
    /// What it is called
    pub(crate) name: String,
    /// Its entry, or `-` to read it from stdin
    #[arg(value_name = "JSON | -")]
    pub(crate) entry: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// Whose servers
    #[arg(value_name = "HOST", value_parser = clap::builder::PossibleValuesParser::new(ImportHost::ALL.map(ImportHost::as_str)))]
    pub(crate) host: String,
    /// The file [default: where that host keeps it]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) from: Option<PathBuf>,
    /// Where they are written
    #[arg(short, long, value_enum, default_value_t = Place::Local)]
    pub(crate) scope: Place,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Put them in the place of those that have the names already
    #[arg(short, long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only show what is configured, and start nothing
    #[arg(long)]
    pub(crate) no_connect: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) name: String,
    /// Only show what is configured, and start nothing
    #[arg(long)]
    pub(crate) no_connect: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) name: String,
    /// Where it is written; has to be said if it is in several places
    #[arg(short, long, value_enum)]
    pub(crate) scope: Option<Place>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) name: String,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["names", "all", "reset"]))]
pub(crate) struct Approve {
    /// The servers
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(complete::waiting))]
    pub(crate) names: Vec<String>,
    /// All servers of the project that wait for it
    #[arg(long)]
    pub(crate) all: bool,
    /// Forget every approval of this project
    #[arg(long)]
    pub(crate) reset: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) name: String,
    /// Open no browser: the address can be opened anywhere
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// The port of this machine that the browser comes back to [default: what the entry says, or a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) callback_port: Option<u16>,
    /// What the sign-in is to be good for [default: what the entry or the server says]. May be given several times
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tools {
    /// Only this server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) server: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Call {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) server: String,
    /// The tool
    #[arg(add = ArgValueCandidates::new(complete::tools))]
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
