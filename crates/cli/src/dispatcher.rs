//! The dispatcher that the configuration makes: policy, hooks, and how long outputs may be.
//!
//! Rules and hooks are what people and organisations say. One that cannot be read stops everything: nobody should find
//! out from a call that went through that a rule was never there.

use std::sync::Arc;

use wharf::config::{Problem, RawSetting, Severity};
use wharf::fleet::dispatch::{
    ApprovalAnswer, DEFAULT_OUTPUT_TOKENS, HookEnvironment, NoUserPrompt, Policy, Question, QuestionKind, Rule,
    UserAnswer, UserPrompt, command_hooks,
};
use wharf::fleet::{Dispatcher, Scope};
use wharf::{BoxFuture, ClientCapabilities, GroupWatcher, nearest};

use crate::args::Globals;
use crate::guard::Guard;
use crate::servers::Misuse;
use crate::setup::Setup;
use crate::surroundings::{self, variable};
use crate::{render, servers};

/// The variable with the longest output of a tool that a model gets, in tokens.
const MOST_TOKENS: &str = "MAX_MCP_OUTPUT_TOKENS";

const UNREAD_RULE: &str = "nothing is called while a rule cannot be read";
const UNREAD_HOOK: &str = "nothing is called while a hook cannot be read";

/// What the configuration says may be called: the rules of all scopes, and the mode of the highest that has one.
pub(crate) fn policy(setup: &Setup) -> Result<Policy, Misuse> {
    // A file that cannot be understood may hold the rule, or the hook, that matters.
    let ruling = |scope: &Scope| matches!(scope, Scope::Enterprise | Scope::Local | Scope::User);
    if let Some((scope, file)) = setup.loaded.lost.iter().find(|(scope, _)| ruling(scope)) {
        let what = format!("{}: the rules and hooks of the {scope} scope cannot be read", file.display());
        return Err(servers::misuse(what, Some("mend it; nothing is called while a rule cannot be read")));
    }
    let mut policy = Policy::default();
    let mut mode = None;
    for setting in said(&setup.loaded.policy) {
        let read = rules(setting).map_err(|error| {
            let what = format!("{}: the policy cannot be used: {error}", place(setting));
            servers::misuse(what, Some(UNREAD_RULE))
        })?;
        if setup.is_verbose() {
            strangers(setup, setting, &read).iter().for_each(render::problem);
        }
        mode = mode.or_else(|| setting.value.get("mode").map(|_| read.mode));
        policy.rules.extend(read.rules);
    }
    policy.mode = mode.unwrap_or_default();
    Ok(policy)
}

/// A dispatcher with this policy, the hooks that are configured, and the limit for outputs that the environment sets.
/// Whom it asks, and who hears of calls, is for the command to say.
pub(crate) fn dispatcher(globals: &Globals, setup: &Setup, policy: Policy) -> Result<Dispatcher, Misuse> {
    let mut dispatcher = Dispatcher::new(policy).with_most_tokens(most_tokens(globals));
    let mut surroundings: Option<HookEnvironment> = None;
    for setting in said(&setup.loaded.hooks) {
        let surroundings = surroundings.get_or_insert_with(hook_surroundings);
        let read = command_hooks(&setting.value, surroundings).map_err(|error| {
            let what = format!("{}: the hooks cannot be used: {error}", place(setting));
            servers::misuse(what, Some(UNREAD_HOOK))
        })?;
        for note in read.notes.iter().filter(|_| globals.verbose) {
            render::note(&format!("{}: {note}", place(setting)));
        }
        dispatcher = read.hooks.into_iter().fold(dispatcher, Dispatcher::with_hook);
    }
    Ok(dispatcher)
}

/// What is wrong with rules and hooks: those that cannot be read, and rules for servers that nobody configured.
pub(crate) fn problems(setup: &Setup) -> Vec<Problem> {
    let unread = |setting: &RawSetting, key: &str, error: String, hint: &str| {
        let problem = about(setting, key, Severity::Error, format!("cannot be used: {error}"));
        problem.with_hint(hint)
    };
    let mut problems = Vec::new();
    for setting in said(&setup.loaded.policy) {
        match rules(setting) {
            Ok(policy) => problems.extend(strangers(setup, setting, &policy)),
            Err(error) => problems.push(unread(setting, "policy", error.to_string(), UNREAD_RULE)),
        }
    }
    for setting in said(&setup.loaded.hooks) {
        if let Err(error) = command_hooks(&setting.value, &HookEnvironment::default()) {
            problems.push(unread(setting, "hooks", error.to_string(), UNREAD_HOOK));
        }
    }
    problems
}

fn rules(setting: &RawSetting) -> serde_json::Result<Policy> {
    serde_json::from_value(setting.value.clone())
}

/// Rules that name a server which is not configured: perhaps it is misspelt, and then they rule nothing.
fn strangers(setup: &Setup, setting: &RawSetting, policy: &Policy) -> Vec<Problem> {
    // Where the configured ones are left out, those that are meant may be among them.
    if setup.is_partial() {
        return Vec::new();
    }
    let names = setup.names();
    let strange =
        policy.rules.iter().flat_map(|rule| rule.when.strangers(&names).into_iter().map(move |name| (rule, name)));
    let told = |(rule, name): (&Rule, &str)| {
        let message = format!("the rule `{}` names the server `{name}`, which is not configured", rule.when);
        let problem = about(setting, "policy", Severity::Warning, message);
        match nearest(name, names.iter().copied()) {
            Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
            None => problem,
        }
    };
    strange.map(told).collect()
}

fn about(setting: &RawSetting, key: &str, severity: Severity, message: String) -> Problem {
    let problem = Problem::of_file(severity, &setting.origin.file, message);
    Problem { line: setting.origin.line, path: key.to_owned(), ..problem }
}

/// Says yes: for commands that are themselves what a person wants done.
pub(crate) struct Approving;

impl UserPrompt for Approving {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        match question.asked {
            QuestionKind::Approve(_) => Box::pin(std::future::ready(UserAnswer::Approval(ApprovalAnswer::Yes))),
            QuestionKind::Elicit { .. } | QuestionKind::Sample { .. } => NoUserPrompt.ask(question),
        }
    }

    fn abilities(&self) -> ClientCapabilities {
        NoUserPrompt.abilities()
    }
}

/// What those say who may; a project does not, whatever stands in its file.
fn said(settings: &[RawSetting]) -> impl Iterator<Item = &RawSetting> {
    settings.iter().filter(|setting| matches!(setting.scope, Scope::Enterprise | Scope::Local | Scope::User))
}

fn place(setting: &RawSetting) -> String {
    format!("{}:{}", setting.origin.file.display(), setting.origin.line)
}

fn hook_surroundings() -> HookEnvironment {
    let watcher: Arc<dyn GroupWatcher> = Guard::start();
    HookEnvironment { environment: surroundings::shared(), cwd: None, watcher: Some(watcher) }
}

fn most_tokens(globals: &Globals) -> usize {
    let Some(value) = variable(&[MOST_TOKENS]) else { return DEFAULT_OUTPUT_TOKENS };
    match value.trim().parse() {
        Ok(tokens) if tokens > 0 => tokens,
        _ => {
            if !globals.quiet {
                render::warning(&format!(
                    "{MOST_TOKENS} is `{value}`, no number of tokens; {DEFAULT_OUTPUT_TOKENS} is used"
                ));
            }
            DEFAULT_OUTPUT_TOKENS
        }
    }
}
