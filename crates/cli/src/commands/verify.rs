//! `wharf verify`: benchmark models with live tools.

mod args;
mod check;
mod convert;
mod preset;
mod run;
mod settings;
mod status;

use crate::exit::Exit;
use crate::globals::Globals;
pub(crate) use args::Verify;
use args::VerifyCommand;

pub(crate) async fn run(globals: &Globals, verify: Verify) -> Exit {
    match verify.command {
        VerifyCommand::Run(run) => run::run(globals, *run).await,
        VerifyCommand::Check(check) => check::run(globals, *check).await,
        VerifyCommand::Status(status) => status::run(globals, &status).await,
        VerifyCommand::Import(import) => convert::import(globals, &import).await,
        VerifyCommand::Export(export) => convert::export(globals, &export).await,
        VerifyCommand::Preset(preset) => preset::run(globals, preset).await,
    }
}
