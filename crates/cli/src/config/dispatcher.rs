//! The dispatcher of the configuration: policy, hooks, and the limit for outputs.
//!
//! A rule or hook that cannot be read stops every call: users must not learn from a call that went through that a rule
//! did not apply.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wharf::config::{Problem, RawSetting, Severity};
use wharf::fleet::dispatch::{
    ApprovalAnswer, Condition, DEFAULT_OUTPUT_TOKENS, Hook, HookEnvironment, Policy, Question, QuestionKind, Rule,
    RuleAction, Spill, UserAnswer, UserPrompt, command_hooks,
};
use wharf::fleet::{Dispatcher, Scope};
use wharf::{BoxFuture, ClientCapabilities, GroupWatcher, create_private_folder};

use super::setup::Setup;
use crate::env::{self, variable};
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::guard::Guard;
use crate::term;
use wharf::nearest;

/// The variable that limits a tool's output to a model, in tokens.
const MAX_OUTPUT_TOKENS: &str = "MAX_MCP_OUTPUT_TOKENS";

const INVALID_RULE: &str = "no tool is called while a rule is invalid";
const INVALID_HOOK: &str = "no tool is called while a hook is invalid";

/// Returns the policy: the rules of all scopes, and the mode of the highest scope that sets one.
pub(crate) fn policy(setup: &Setup) -> Result<Policy, UsageError> {
    // An invalid file may hold the rule or hook that matters.
    let may_rule = |scope: &Scope| matches!(scope, Scope::Enterprise | Scope::Local | Scope::User);
    if let Some((scope, file)) = setup.loaded.lost.iter().find(|(scope, _)| may_rule(scope)) {
        let message = format!("{}: cannot read the rules and hooks of the {scope} scope", file.display());
        return Err(usage_error(message, Some("fix the file; no tool is called while a rule is invalid")));
    }
    let mut policy = Policy::default();
    let mut mode = None;
    for setting in trusted(&setup.loaded.policy) {
        let read = rules(setting)
            .map_err(|error| usage_error(format!("{}: invalid policy: {error}", place(setting)), Some(INVALID_RULE)))?;
        if setup.is_verbose() {
            rules_of_unknown_servers(setup, setting, &read).iter().for_each(term::problem);
        }
        mode = mode.or_else(|| setting.value.get("mode").map(|_| read.mode));
        policy.rules.extend(read.rules);
    }
    policy.mode = mode.unwrap_or_default();
    Ok(policy)
}

/// A policy, the configured hooks and the environment's limit for outputs: what every dispatcher of a command has.
pub(crate) struct DispatcherSettings {
    policy: Policy,
    hooks: Vec<Arc<dyn Hook>>,
    max_output_tokens: Option<usize>,
}

impl DispatcherSettings {
    /// Reads the hooks of all scopes and the limit for outputs.
    pub(crate) fn read(globals: &Globals, setup: &Setup, policy: Policy) -> Result<Self, UsageError> {
        let mut hooks = Vec::new();
        for setting in trusted(&setup.loaded.hooks) {
            let read = command_hooks(&setting.value, &hook_environment(setting)).map_err(|error| {
                usage_error(format!("{}: invalid hooks: {error}", place(setting)), Some(INVALID_HOOK))
            })?;
            if globals.is_verbose() {
                read.notes.iter().for_each(|note| term::note(&format!("{}: {note}", place(setting))));
            }
            hooks.extend(read.hooks);
        }
        Ok(Self { policy, hooks, max_output_tokens: max_output_tokens(globals) })
    }

    /// Returns a new dispatcher. The command adds the user prompt and the trace sink.
    pub(crate) fn dispatcher(&self) -> Dispatcher {
        let dispatcher = Dispatcher::new(self.policy.clone());
        let dispatcher = match self.max_output_tokens {
            Some(tokens) => dispatcher.with_max_output_tokens(tokens),
            None => dispatcher,
        };
        self.hooks.iter().cloned().fold(dispatcher, Dispatcher::with_hook)
    }
}

/// Returns the only dispatcher of a command.
pub(crate) fn dispatcher(globals: &Globals, setup: &Setup, policy: Policy) -> Result<Dispatcher, UsageError> {
    Ok(DispatcherSettings::read(globals, setup, policy)?.dispatcher())
}

/// Returns the store for outputs that are too long for a model: in the cache, where the next run finds what a killed one
/// left behind, or in the temporary directory.
pub(crate) fn spill(setup: &Setup) -> Result<Spill, UsageError> {
    let folder = setup.paths.cache.as_ref().map(|cache| cache.join("outputs"));
    let create = |folder: PathBuf| {
        create_private_folder(&folder).ok()?;
        Spill::new(&folder).ok()
    };
    if let Some(spill) = folder.and_then(create) {
        return Ok(spill);
    }
    let directory = std::env::temp_dir();
    Spill::new(&directory)
        .map_err(|error| usage_error(format!("cannot store outputs in {}: {error}", directory.display()), None))
}

/// Returns the rule of one `--allow`.
pub(crate) fn allow_rule(text: &str) -> Result<Rule, UsageError> {
    let when: Condition = text.parse().map_err(|error| usage_error(format!("--allow {text}: {error}"), None))?;
    Ok(Rule { when, then: RuleAction::Allow, name: Some(format!("--allow {text}")) })
}

/// Prints invalid rules and hooks, for commands that do without them; with `--verbose` also rules of unknown servers.
pub(crate) fn print_problems(setup: &Setup) {
    let is_wanted = |problem: &&Problem| problem.is_error() || setup.is_verbose();
    problems(setup).iter().filter(is_wanted).for_each(term::problem);
}

/// Returns the problems of rules and hooks: invalid ones, and rules of unknown servers.
pub(crate) fn problems(setup: &Setup) -> Vec<Problem> {
    let invalid = |setting: &RawSetting, key: &str, error: String, hint: &str| {
        let problem = about(setting, key, Severity::Error, format!("invalid: {error}"));
        problem.with_hint(hint)
    };
    let mut problems = Vec::new();
    for setting in trusted(&setup.loaded.policy) {
        match rules(setting) {
            Ok(policy) => problems.extend(rules_of_unknown_servers(setup, setting, &policy)),
            Err(error) => problems.push(invalid(setting, "policy", error.to_string(), INVALID_RULE)),
        }
    }
    for setting in trusted(&setup.loaded.hooks) {
        if let Err(error) = command_hooks(&setting.value, &HookEnvironment::default()) {
            problems.push(invalid(setting, "hooks", error.to_string(), INVALID_HOOK));
        }
    }
    problems
}

fn rules(setting: &RawSetting) -> serde_json::Result<Policy> {
    serde_json::from_value(setting.value.clone())
}

/// Returns a warning for each rule that names an unknown server. A misspelled rule would never apply.
fn rules_of_unknown_servers(setup: &Setup, setting: &RawSetting, policy: &Policy) -> Vec<Problem> {
    // Rules may be for configured servers that were left out.
    if setup.is_partial() {
        return Vec::new();
    }
    let names = setup.names();
    let unknown = policy
        .rules
        .iter()
        .flat_map(|rule| rule.when.unknown_servers(&names).into_iter().map(move |name| (rule, name)));
    let warn = |(rule, name): (&Rule, &str)| {
        let message = format!("rule `{}` names the unknown server `{name}`", rule.when);
        let problem = about(setting, "policy", Severity::Warning, message);
        match nearest(name, names.iter().copied()) {
            Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
            None => problem,
        }
    };
    unknown.map(warn).collect()
}

fn about(setting: &RawSetting, key: &str, severity: Severity, message: String) -> Problem {
    let problem = Problem::of_file(severity, &setting.origin.file, message);
    Problem { line: setting.origin.line, path: key.to_owned(), ..problem }
}

/// Approves every call, for commands by which the user requests the call. Questions of servers go to the user.
pub(crate) struct ApproveAll(pub(crate) Arc<dyn UserPrompt>);

impl UserPrompt for ApproveAll {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        match question.kind {
            QuestionKind::Approve(_) => Box::pin(std::future::ready(UserAnswer::Approval(ApprovalAnswer::Yes))),
            QuestionKind::Elicit { .. } | QuestionKind::Sample { .. } => self.0.ask(question),
        }
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.0.capabilities()
    }

    fn time_asked(&self) -> Duration {
        self.0.time_asked()
    }
}

/// Returns the settings that may contain rules: not those of a project.
fn trusted(settings: &[RawSetting]) -> impl Iterator<Item = &RawSetting> {
    settings.iter().filter(|setting| matches!(setting.scope, Scope::Enterprise | Scope::Local | Scope::User))
}

fn place(setting: &RawSetting) -> String {
    format!("{}:{}", setting.origin.file.display(), setting.origin.line)
}

/// Returns the environment of a file's hooks. They run in the directory of the file: the current directory may be a
/// repository, whose files must not run in place of the hook's.
fn hook_environment(setting: &RawSetting) -> HookEnvironment {
    let watcher: Arc<dyn GroupWatcher> = Guard::start();
    let file = std::path::absolute(&setting.origin.file).ok();
    let cwd = file.as_deref().and_then(Path::parent).map(Path::to_owned);
    HookEnvironment { environment: env::for_servers(), cwd, watcher: Some(watcher) }
}

/// Returns the user's limit for outputs, if the environment sets one.
fn max_output_tokens(globals: &Globals) -> Option<usize> {
    let value = variable(&[MAX_OUTPUT_TOKENS])?;
    match value.trim().parse() {
        Ok(tokens) if tokens > 0 => Some(tokens),
        _ => {
            if !globals.quiet {
                term::warning(&format!(
                    "invalid {MAX_OUTPUT_TOKENS} `{value}`: expected a number of tokens; using {DEFAULT_OUTPUT_TOKENS}"
                ));
            }
            None
        }
    }
}
