//! The binary `wharf`: commands, rendering, exit codes. Only this crate reads the environment and the arguments, and only
//! it prints.
//!
//! Imports go downwards: [`args`] imports the commands; commands import [`config`], [`failure`], [`models`], [`one_shot`]
//! and [`verification`]; all of them import [`term`] and the leaf modules. No module imports a command but `args` and `main`.

mod args;
mod arguments;
mod background;
mod blob;
mod commands;
mod complete;
mod completion_cache;
mod config;
mod demo_server;
mod env;
mod error;
mod exit;
mod failure;
mod globals;
mod guard;
mod hardening;
mod hints;
mod interrupt;
mod lint;
mod models;
mod one_shot;
mod output_file;
mod program;
mod sampling;
mod schema_kind;
mod server_log;
mod signature;
mod term;
mod verification;
mod wire_trace;

use std::io::Write as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap_complete::env::CompleteEnv;
use futures_util::FutureExt as _;

use args::{Cli, Color, Command};
use commands::switch::Switch;
use exit::Exit;

fn main() -> ExitCode {
    hardening::harden();
    // Wharf starts itself with these two; they are not commands for users, so clap does not know them.
    let hidden = std::env::args_os().nth(1);
    if hidden.as_deref().is_some_and(|word| word == guard::COMMAND) {
        // The guard must be small and must not share the fate of a runtime.
        guard::watch();
        return ExitCode::SUCCESS;
    }
    let work = if hidden.is_some_and(|word| word == demo_server::COMMAND) {
        demo_server::serve().boxed_local()
    } else {
        // Answers a shell's completion request and exits, if this is one.
        CompleteEnv::with_factory(args::completed_command).var(complete::VARIABLE).complete();
        // The help has colors, too.
        Color::Auto.write_global();
        let parsed = args::command().try_get_matches().and_then(|matches| {
            server_log::set_command(matches.subcommand_name().unwrap_or_default());
            Cli::from_arg_matches(&matches)
        });
        let cli = match parsed {
            Ok(cli) => cli,
            Err(error) => return invalid_arguments(&error),
        };
        cli.color.write_global();
        run_reporting(cli).boxed_local()
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            term::error(&format!("cannot start the async runtime: {error}"), &[], None);
            return Exit::Failed.into();
        }
    };
    {
        let _runtime = runtime.enter();
        hardening::survive_file_size_limit();
    }
    // The runtime ends before this function returns, and every open session with it: no child outlives us.
    let exit = runtime.block_on(work);
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    background::finish_all();
    exit.into()
}

/// Prints the help, the version, or why the arguments are invalid.
fn invalid_arguments(error: &clap::Error) -> ExitCode {
    // What follows `--` belongs to a server.
    let is_json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if is_json && error.kind() == clap::error::ErrorKind::DisplayVersion {
        let version = serde_json::json!({"version": 1, "name": "wharf", "release": env!("WHARF_VERSION")});
        let _ = writeln!(std::io::stdout(), "{version}");
        return ExitCode::SUCCESS;
    }
    let _ = error.print();
    if error.use_stderr() && is_json {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(str::trim);
        let first = paragraphs.next().unwrap_or_default();
        // Arguments are listed in lines of their own. The help has the list of commands.
        let lines = first.lines().map(str::trim).filter(|line| !line.starts_with("[subcommands:"));
        let message = lines.collect::<Vec<_>>().join(" ");
        let message = message.strip_prefix("error: ").unwrap_or("no command given");
        let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: "));
        if let Some(json) = term::json_usage_error(message, tip) {
            let _ = writeln!(std::io::stdout(), "{json}");
        }
    }
    let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
    ExitCode::from(code)
}

/// Runs a command. A failure that printed no JSON of its own is printed as JSON, if that is the output.
async fn run_reporting(cli: Cli) -> Exit {
    let is_json = cli.globals.json || matches!(&cli.command, Command::Run(run) if run.prints_json());
    let exit = Box::pin(run(cli)).await;
    if is_json {
        term::json_failure(exit).await;
    }
    exit
}

async fn run(cli: Cli) -> Exit {
    let Cli { command, globals, .. } = cli;
    match command {
        Command::Demo => commands::demo::run(&globals).await,
        Command::Add(add) => commands::add::run(&globals, add).await,
        Command::AddJson(add) => commands::add::run_json(&globals, add).await,
        Command::Search(search) => commands::search::run(&globals, search).await,
        Command::Export(export) => commands::export::run(&globals, export).await,
        Command::Import(import) => commands::import::run(&globals, import).await,
        Command::List(list) => commands::list::run(&globals, list).await,
        Command::Get(get) => commands::get::run(&globals, get).await,
        Command::Remove(remove) => commands::remove::run(&globals, remove).await,
        Command::Enable(server) => commands::switch::run(&globals, server, Switch::On).await,
        Command::Disable(server) => commands::switch::run(&globals, server, Switch::Off).await,
        Command::Approve(approve) => commands::approve::run(&globals, approve).await,
        Command::Login(login) => commands::login::run(&globals, login).await,
        Command::Logout(server) => commands::logout::run(&globals, server).await,
        Command::Tools(tools) => commands::tools::run(&globals, tools).await,
        Command::Call(call) => commands::call::run(&globals, call).await,
        Command::Repl(repl) => commands::repl::run(&globals, repl).await,
        Command::Run(run) => commands::run::run(&globals, *run).await,
        Command::Verify(verify) => commands::verify::run(&globals, *verify).await,
        Command::Context(context) => commands::context::run(&globals, context).await,
        Command::Logs(logs) => commands::logs::run(&globals, logs).await,
        Command::Doctor(doctor) => commands::doctor::run(&globals, doctor).await,
        Command::Prompts(prompts) => commands::prompts::run(&globals, prompts).await,
        Command::Prompt(prompt) => commands::prompt::run(&globals, prompt).await,
        Command::Resources(resources) => commands::resources::run(&globals, resources).await,
        Command::Read(read) => commands::read::run(&globals, read).await,
        Command::Completions { shell } => commands::completions::run(shell).await,
        Command::Man(man) => commands::man::run(args::command(), &man).await,
    }
}
