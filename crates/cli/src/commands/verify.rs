//! `wharf verify`: benchmark models with live tools.

mod args;
mod check;
mod compare;
mod convert;
mod judge_check;
mod preset;
mod report;
mod run;
mod settings;
mod status;
mod trace;

use crate::exit::Exit;
use crate::globals::Globals;
pub(crate) use args::Verify;
use args::VerifyCommand;

pub(crate) async fn run(globals: &Globals, verify: Verify) -> Exit {
    match verify.command {
        VerifyCommand::Run(run) => run::run(globals, *run, None).await,
        VerifyCommand::Check(check) => check::run(globals, *check).await,
        VerifyCommand::JudgeCheck(check) => judge_check::run(globals, *check).await,
        VerifyCommand::Status(status) => status::run(globals, &status).await,
        VerifyCommand::Trace(trace) => trace::run(globals, *trace).await,
        VerifyCommand::Import(import) => convert::import(globals, &import).await,
        VerifyCommand::Export(export) => convert::export(globals, &export).await,
        VerifyCommand::Report(report) => report::run(globals, &report).await,
        VerifyCommand::Compare(compare) => compare::run(globals, &compare).await,
        VerifyCommand::Preset(preset) => preset::run(globals, preset).await,
    }
}
