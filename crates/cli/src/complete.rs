//! What a shell offers behind the cursor: names of servers and tools. Nothing is started and nobody is asked: servers
//! come from the files, tools from what was last listed.

use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::CompletionCandidate;
use clap_complete::env::CompleteEnv;
use wharf::config::Eligibility;
use wharf::{ProtocolMode, ServerName};

use crate::args::{Args, Globals};
use crate::remembered;
use crate::setup::Setup;

/// The variable by which a shell asks.
pub(crate) const VARIABLE: &str = "WHARF_COMPLETE";

/// Answers a shell and ends, if it is a shell that asks.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Args::command).var(VARIABLE).complete();
}

/// The servers that are configured.
pub(crate) fn servers() -> Vec<CompletionCandidate> {
    let Some(setup) = setup() else { return Vec::new() };
    // A shell takes what is offered as it is: what a project calls its servers is offered only if it is a name.
    let names = setup.names().into_iter().filter(|name| name.parse::<ServerName>().is_ok() && is_harmless(name));
    names.map(CompletionCandidate::new).collect()
}

/// The servers that wait for an approval.
pub(crate) fn waiting() -> Vec<CompletionCandidate> {
    let Some(setup) = setup() else { return Vec::new() };
    let waits =
        |standing: &Eligibility| matches!(standing, Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_));
    let waiting = setup.loaded.servers.iter().filter(|found| waits(&found.standing));
    waiting.map(|found| CompletionCandidate::new(found.server.name.as_str())).collect()
}

/// The tools of the server that stands before them.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let words = typed();
    let mut after = words.iter().skip_while(|word| *word != "call").skip(1).filter(|word| !word.starts_with('-'));
    let (Some(server), Some(setup)) = (after.next(), setup()) else { return Vec::new() };
    let tools = remembered::tools(&setup.places, server).into_iter().filter(|tool| is_harmless(tool));
    tools.map(CompletionCandidate::new).collect()
}

/// Whether a word means nothing to any shell, and is no option.
fn is_harmless(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain)
}

/// The ways to speak.
pub(crate) fn protocols() -> Vec<CompletionCandidate> {
    ProtocolMode::NAMES.into_iter().map(CompletionCandidate::new).collect()
}

fn setup() -> Option<Setup> {
    let words = typed();
    let folder = |flag: &str| {
        let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        let next = words.iter().position(|word| word == flag).and_then(|index| words.get(index + 1));
        joined.map(PathBuf::from).or_else(|| next.map(PathBuf::from))
    };
    let globals = Globals { config_root: folder("--config-root"), project: folder("--project"), ..Globals::default() };
    Setup::read(&globals).ok()
}

/// The words of the line that is being typed.
fn typed() -> Vec<String> {
    std::env::args().skip_while(|word| word != "--").skip(1).collect()
}
