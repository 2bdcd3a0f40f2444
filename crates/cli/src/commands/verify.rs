//! `wharf verify`: benchmark models with live tools.

mod args;
mod check;
mod compare;
mod convert;
mod judge_check;
mod operate;
mod preset;
mod report;
mod run;
mod settings;
mod status;
mod trace;
mod work;

use crate::exit::Exit;
use crate::globals::Globals;
pub(crate) use args::Verify;
use args::VerifyCommand;

pub(crate) async fn run(globals: &Globals, verify: Verify) -> Exit {
    match verify.command {
        VerifyCommand::Run(run) => run::run(globals, *run, None).await,
        VerifyCommand::Check(check) => check::run(globals, *check).await,
        VerifyCommand::JudgeCheck(check) => judge_check::run(globals, *check).await,
        VerifyCommand::Work(work) => work::run(globals, *work).await,
        VerifyCommand::Status(status) => status::run(globals, &status).await,
        VerifyCommand::Pause(of) => operate::pause(globals, &of).await,
        VerifyCommand::Resume(of) => operate::resume(globals, &of).await,
        VerifyCommand::Cancel(of) => operate::cancel(globals, &of).await,
        VerifyCommand::Priority(of) => operate::priority(globals, &of).await,
        VerifyCommand::Delete(of) => operate::delete(globals, &of).await,
        VerifyCommand::Vacuum(of) => operate::vacuum(globals, &of).await,
        VerifyCommand::Trace(trace) => trace::run(globals, *trace).await,
        VerifyCommand::Import(import) => convert::import(globals, &import).await,
        VerifyCommand::Export(export) => convert::export(globals, &export).await,
        VerifyCommand::Report(report) => report::run(globals, &report).await,
        VerifyCommand::Compare(compare) => compare::run(globals, &compare).await,
        VerifyCommand::Preset(preset) => preset::run(globals, preset).await,
    }
}
