//! The binary `wharf`: commands, rendering, exit codes. Only this crate reads the environment, the arguments, or prints.

mod args;
mod arguments;
mod asker;
mod commands;
mod complete;
mod demo_server;
mod describe;
mod dispatcher;
mod exit;
mod failure;
mod guard;
mod interrupt;
#[cfg(feature = "keychain")]
mod keychain;
mod limits;
mod lint;
mod live;
mod network;
mod page;
mod places;
mod program;
mod remembered;
mod render;
mod servers;
mod setup;
mod sign_ins;
mod surroundings;
mod usage;
mod visit;
mod wrap;
mod writing;

use std::process::ExitCode;

use clap::Parser as _;
use futures_util::FutureExt as _;

use args::{Args, Command};
use commands::switch::Switch;
use exit::Exit;

fn main() -> ExitCode {
    // What this program starts of itself is nobody's command, so it is not among the commands either.
    let hidden = std::env::args_os().nth(1);
    if hidden.as_deref().is_some_and(|word| word == guard::COMMAND) {
        // The guard must be small and must not share the fate of a runtime.
        guard::watch();
        return ExitCode::SUCCESS;
    }
    let work = if hidden.is_some_and(|word| word == demo_server::COMMAND) {
        demo_server::serve().boxed_local()
    } else {
        complete::answer();
        let args = Args::parse();
        args.color.write_global();
        run(args).boxed_local()
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            render::error(&format!("the runtime could not be started: {error}"), &[], None);
            return Exit::Failed.into();
        }
    };
    // The runtime ends before we do, and with it every session that is still open: no child outlives this function.
    let exit = runtime.block_on(work);
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    exit.into()
}

async fn run(args: Args) -> Exit {
    let Args { command, globals, .. } = args;
    match command {
        Command::Demo => commands::demo::run(&globals).await,
        Command::Add(add) => commands::add::run(&globals, add).await,
        Command::AddJson(add) => commands::add::run_json(&globals, add).await,
        Command::Import(import) => commands::import::run(&globals, import).await,
        Command::List(list) => commands::list::run(&globals, list).await,
        Command::Get(get) => commands::get::run(&globals, get).await,
        Command::Remove(remove) => commands::remove::run(&globals, remove).await,
        Command::Enable(named) => commands::switch::run(&globals, named, Switch::On).await,
        Command::Disable(named) => commands::switch::run(&globals, named, Switch::Off).await,
        Command::Approve(approve) => commands::approve::run(&globals, approve).await,
        Command::Login(login) => commands::login::run(&globals, login).await,
        Command::Logout(named) => commands::logout::run(&globals, named).await,
        Command::Tools(tools) => commands::tools::run(&globals, tools).await,
        Command::Call(call) => commands::call::run(&globals, call).await,
        Command::Run(run) => commands::run::run(&globals, *run).await,
        Command::Context(context) => commands::context::run(&globals, context).await,
        Command::Doctor(doctor) => commands::doctor::run(&globals, doctor).await,
        Command::Prompts(prompts) => commands::prompts::run(&globals, prompts).await,
        Command::Prompt(prompt) => commands::prompt::run(&globals, prompt).await,
        Command::Resources(resources) => commands::resources::run(&globals, resources).await,
        Command::Read(read) => commands::read::run(&globals, read).await,
        Command::Completions { shell } => commands::completions::run(shell).await,
        Command::Man => commands::completions::man().await,
    }
}
