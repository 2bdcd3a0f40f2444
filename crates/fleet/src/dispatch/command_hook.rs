//! Hooks that are commands, configured and spoken to as other hosts do it.
//!
//! The command gets the call as JSON on its stdin and says on its stdout, as JSON too, what it thinks of it. Status 2
//! blocks, with stderr as the reason; status 0 and nothing on stdout lets the call go on. Anything else is a failure:
//! before a call that blocks it, unless the hook is told to `proceed`, and after a call it is recorded.

mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wharf_client::BoxFuture;
use wharf_io::{Child, ChildSpec, Environment, Exit, GroupWatcher};
use wharf_protocol::{Json, ServerName, ToolOutput, nearest};

use super::condition::Condition;
use super::hooks::{AfterCall, BeforeCall, CallView, Hook};
use verdict::Verdict;

/// How long a hook may take where it does not say otherwise.
const USUAL_LIMIT: Duration = Duration::from_secs(60);
/// The most a hook may say.
const MOST_SAID: u64 = 1024 * 1024;
/// The most of its stderr that becomes a reason, in characters.
const LONGEST_REASON: usize = 2000;
/// The status that blocks.
const BLOCKS: i32 = 2;

/// Events of other hosts that have nothing to do with calls.
const ELSEWHERE: [&str; 8] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "Notification",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
];

/// What commands run in.
#[derive(Clone, Default)]
pub struct HookEnvironment {
    /// The variables they see.
    pub environment: Environment,
    /// The folder they run in; that of the host if absent.
    pub cwd: Option<PathBuf>,
    /// Who hears of their process groups.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
}

/// A configuration of hooks that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct InvalidHooks {
    /// Where, for example `PreToolUse[0].hooks[1]`.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    PreToolUse,
    PostToolUse,
}

/// One command.
struct CommandHook {
    name: String,
    event: Event,
    condition: Condition,
    command: Vec<String>,
    limit: Duration,
    goes_on: bool,
    surroundings: HookEnvironment,
}

/// Hooks that were configured.
pub struct CommandHooks {
    /// The hooks, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// What was passed over.
    pub notes: Vec<String>,
}

/// Reads hooks in the shape other hosts have them: `{"PreToolUse":[{"matcher":"…","hooks":[{"type":"command","command":
/// "…"}]}],"PostToolUse":[…]}`. Events of other hosts that are not about calls are passed over with a note; one that nobody
/// has may be a misspelt one, and is an error.
pub fn command_hooks(config: &Value, surroundings: &HookEnvironment) -> Result<CommandHooks, InvalidHooks> {
    let Value::Object(events) = config else { return Err(invalid("hooks", &"they are no object of events")) };
    let mut all = CommandHooks { hooks: Vec::new(), notes: Vec::new() };
    for (name, groups) in events {
        let event = match name.as_str() {
            "PreToolUse" => Event::PreToolUse,
            "PostToolUse" => Event::PostToolUse,
            other if ELSEWHERE.contains(&other) => {
                all.notes.push(format!("hooks for `{other}` are passed over: there is no such event here"));
                continue;
            }
            other => {
                let meant = nearest(other, ["PreToolUse", "PostToolUse"]);
                let meant = meant.map(|event| format!("; did you mean `{event}`?")).unwrap_or_default();
                return Err(invalid(other, &format!("there is no such event{meant}")));
            }
        };
        let Value::Array(groups) = groups else { return Err(invalid(name, &"it is no list of matchers")) };
        for (number, group) in groups.iter().enumerate() {
            let place = format!("{name}[{number}]");
            let group = Group::deserialize(group).map_err(|error| invalid(&place, &error))?;
            for (number, written) in group.hooks.into_iter().enumerate() {
                let place = format!("{place}.hooks[{number}]");
                let hook = written.read(event, &group.matcher, surroundings);
                all.hooks.push(Arc::new(hook.map_err(|reason| invalid(&place, &reason))?));
            }
        }
    }
    Ok(all)
}

fn invalid(place: &str, reason: &impl ToString) -> InvalidHooks {
    InvalidHooks { place: place.to_owned(), reason: reason.to_string() }
}

/// What a command is told.
#[derive(Serialize)]
struct Told<'a> {
    hook_event_name: &'static str,
    tool_name: &'a str,
    tool_input: &'a Json,
    server: Option<&'a ServerName>,
    tool: &'a str,
    tool_use_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_response: Option<&'a Json>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `matcher` and `hooks`")]
struct Group {
    #[serde(default)]
    matcher: Condition,
    hooks: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with `type` and `command`")]
struct Written {
    r#type: String,
    #[serde(default)]
    command: String,
    /// In seconds.
    timeout: Option<f64>,
    #[serde(default)]
    on_failure: OnFailure,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnFailure {
    #[default]
    Block,
    Proceed,
}

impl Written {
    fn read(self, event: Event, matcher: &Condition, surroundings: &HookEnvironment) -> Result<CommandHook, String> {
        if self.r#type != "command" {
            return Err(format!("there are no hooks of the type `{}`, only `command`", self.r#type));
        }
        let command = shlex::split(&self.command).ok_or("a quotation mark in `command` is never closed")?;
        if command.is_empty() {
            return Err("`command` is empty".to_owned());
        }
        let limit = match self.timeout {
            None => USUAL_LIMIT,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|limit| !limit.is_zero())
                .ok_or_else(|| format!("`timeout` is {seconds}, and seconds are counted from 0 up"))?,
        };
        Ok(CommandHook {
            name: self.command,
            event,
            condition: matcher.clone(),
            command,
            limit,
            goes_on: self.on_failure == OnFailure::Proceed,
            surroundings: surroundings.clone(),
        })
    }
}

impl Hook for CommandHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn before<'a>(&'a self, call: &'a CallView<'a>) -> BoxFuture<'a, BeforeCall> {
        Box::pin(async move {
            if self.event != Event::PreToolUse {
                return BeforeCall::proceed();
            }
            match self.run(call, None).await.and_then(Verdict::before) {
                Ok(before) => before,
                Err(reason) if self.goes_on => BeforeCall::Failed(reason),
                Err(reason) => BeforeCall::Block(format!("the hook `{}` failed: it {reason}", self.name)),
            }
        })
    }

    fn after<'a>(&'a self, call: &'a CallView<'a>, output: &'a ToolOutput) -> BoxFuture<'a, AfterCall> {
        Box::pin(async move {
            if self.event != Event::PostToolUse {
                return AfterCall::Keep;
            }
            match self.run(call, Some(output)).await.and_then(|verdict| verdict.after(output)) {
                Ok(after) => after,
                Err(reason) => AfterCall::Failed(reason),
            }
        })
    }
}

impl CommandHook {
    async fn run(&self, call: &CallView<'_>, output: Option<&ToolOutput>) -> Result<Verdict, String> {
        let told = self.told(call, output)?;
        let (exit, said, stderr) = match tokio::time::timeout(self.limit, self.talk(told.as_bytes())).await {
            Ok(heard) => heard?,
            // Dropping the child has killed its group.
            Err(_) => return Err(format!("did not end within {} s and was killed", self.limit.as_secs_f64())),
        };
        match exit {
            Exit::Status(0) => Verdict::read(&said),
            Exit::Status(BLOCKS) => Ok(Verdict::blocked(reason(&stderr))),
            exit => Err(format!("{exit}: {}", reason(&stderr))),
        }
    }

    fn told(&self, call: &CallView<'_>, output: Option<&ToolOutput>) -> Result<String, String> {
        let told = Told {
            hook_event_name: match self.event {
                Event::PreToolUse => "PreToolUse",
                Event::PostToolUse => "PostToolUse",
            },
            tool_name: call.name(),
            tool_input: call.arguments,
            server: call.server(),
            tool: &call.entry.tool.name,
            tool_use_id: call.id,
            tool_response: output.map(|output| &output.raw),
        };
        serde_json::to_string(&told).map_err(|error| format!("cannot be told of the call: {error}"))
    }

    /// Runs the command: how it ended, what it said, and the last of its stderr.
    async fn talk(&self, told: &[u8]) -> Result<(Exit, Vec<u8>, Vec<String>), String> {
        let HookEnvironment { environment, cwd, watcher } = self.surroundings.clone();
        let mut words = self.command.iter().map(OsString::from);
        let command = words.next().unwrap_or_default();
        let spec = ChildSpec { command, args: words.collect(), environment, cwd, watcher };
        let (child, pipes) = Child::spawn(&spec).await.map_err(|error| format!("cannot be run: {error}"))?;
        let (mut stdin, stdout) = (pipes.stdin, pipes.stdout);
        let tell = async move {
            // A hook that does not read what it is told is none the worse for it.
            let _ = stdin.write_all(told).await;
            Ok(())
        };
        let hear = async move {
            let mut said = Vec::new();
            let read = stdout.take(MOST_SAID + 1).read_to_end(&mut said).await;
            read.map_err(|error| format!("cannot be heard: {error}"))?;
            if said.len() as u64 > MOST_SAID { Err(format!("said more than {MOST_SAID} bytes")) } else { Ok(said) }
        };
        // The end of the leader sweeps its group, so nobody is left to keep the pipes open. Who says too much waits to be
        // heard, and is ended instead.
        let ended = async { Ok(child.exited().await) };
        let ((), exit, said) = tokio::try_join!(tell, ended, hear)?;
        let stderr = child.stderr().lines();
        Ok((exit, said, stderr))
    }
}

/// The last of a hook's stderr as one text.
fn reason(stderr: &[String]) -> String {
    let all = stderr.join("\n");
    let all = all.trim();
    if all.is_empty() {
        return "it gave no reason".to_owned();
    }
    all.chars().take(LONGEST_REASON).collect()
}
