//! `wharf verify`: benchmark models with live tools.

mod args;
mod participants;
mod planning;
mod preset;
mod settings;
mod table;

use crate::exit::Exit;
use crate::globals::Globals;
pub(crate) use args::Verify;
use args::VerifyCommand;

pub(crate) async fn run(globals: &Globals, verify: Verify) -> Exit {
    match verify.command {
        VerifyCommand::Run(_) | VerifyCommand::Check(_) | VerifyCommand::Status(_) => Exit::Done,
        VerifyCommand::Preset(preset) => preset::run(globals, preset).await,
    }
}
