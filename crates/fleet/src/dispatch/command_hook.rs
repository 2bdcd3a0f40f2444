//! Hooks that are commands, in the format of other hosts.
//!
//! The command reads the call as JSON on its stdin and writes its response, JSON too, to its stdout. Status 2 blocks the
//! call, with stderr as the reason. Status 0 with an empty stdout lets the call proceed. Anything else is a failure: it
//! blocks the call or withholds its output, unless the hook is set to `proceed`.

mod response;

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
use response::HookResponse;

/// The default timeout of a hook.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of a hook's response.
const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;
/// The maximum length of a reason from stderr, in characters.
const MAX_REASON_CHARS: usize = 2000;
/// The exit status that blocks a call.
const BLOCKING_STATUS: i32 = 2;

/// Events of other hosts that are not about calls.
const OTHER_EVENTS: [&str; 8] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "Notification",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
];

/// The environment of hook commands.
#[derive(Clone, Default)]
pub struct HookEnvironment {
    /// Their environment variables.
    pub environment: Environment,
    /// Their working directory; the host's if absent.
    pub cwd: Option<PathBuf>,
    /// Receives their process groups.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
}

/// An invalid hook configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct InvalidHooks {
    /// The path, for example `PreToolUse[0].hooks[1]`.
    pub place: String,
    /// The error.
    pub reason: String,
}

/// When a hook runs.
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
    timeout: Duration,
    on_failure: OnFailure,
    environment: HookEnvironment,
}

/// The configured hooks.
pub struct CommandHooks {
    /// The hooks, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// What was ignored.
    pub notes: Vec<String>,
}

/// Reads hooks in the format of other hosts: `{"PreToolUse":[{"matcher":"…","hooks":[{"type":"command","command":
/// "…"}]}],"PostToolUse":[…]}`. Events of other hosts that are not about calls are ignored with a note. An unknown event may
/// be misspelled and is an error.
pub fn command_hooks(config: &Value, environment: &HookEnvironment) -> Result<CommandHooks, InvalidHooks> {
    let Value::Object(events) = config else { return Err(invalid("hooks", &"expected an object of events")) };
    let mut all = CommandHooks { hooks: Vec::new(), notes: Vec::new() };
    for (name, groups) in events {
        let event = match name.as_str() {
            "PreToolUse" => Event::PreToolUse,
            "PostToolUse" => Event::PostToolUse,
            other if OTHER_EVENTS.contains(&other) => {
                all.notes.push(format!("ignored hooks for the unsupported event `{other}`"));
                continue;
            }
            other => {
                let meant = nearest(other, ["PreToolUse", "PostToolUse"]);
                let meant = meant.map(|event| format!("; did you mean `{event}`?")).unwrap_or_default();
                return Err(invalid(other, &format!("unknown event{meant}")));
            }
        };
        let Value::Array(groups) = groups else { return Err(invalid(name, &"expected a list of matchers")) };
        for (number, group) in groups.iter().enumerate() {
            let place = format!("{name}[{number}]");
            let group = Group::deserialize(group).map_err(|error| invalid(&place, &error))?;
            for (number, raw) in group.hooks.into_iter().enumerate() {
                let place = format!("{place}.hooks[{number}]");
                let hook = raw.read(event, &group.matcher, environment);
                all.hooks.push(Arc::new(hook.map_err(|reason| invalid(&place, &reason))?));
            }
        }
    }
    Ok(all)
}

fn invalid(place: &str, reason: &impl ToString) -> InvalidHooks {
    InvalidHooks { place: place.to_owned(), reason: reason.to_string() }
}

/// The input of a hook command.
#[derive(Serialize)]
struct HookInput<'a> {
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
    hooks: Vec<RawHook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with `type` and `command`")]
struct RawHook {
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

impl RawHook {
    fn read(self, event: Event, matcher: &Condition, environment: &HookEnvironment) -> Result<CommandHook, String> {
        if self.r#type != "command" {
            return Err(format!("unknown hook type `{}`: expected `command`", self.r#type));
        }
        let command = shlex::split(&self.command).ok_or("unclosed quotation mark in `command`")?;
        if command.is_empty() {
            return Err("`command` is empty".to_owned());
        }
        let timeout = match self.timeout {
            None => DEFAULT_TIMEOUT,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|timeout| !timeout.is_zero())
                .ok_or_else(|| format!("invalid `timeout` {seconds}: expected a positive number of seconds"))?,
        };
        Ok(CommandHook {
            name: self.command,
            event,
            condition: matcher.clone(),
            command,
            timeout,
            on_failure: self.on_failure,
            environment: environment.clone(),
        })
    }
}

struct FinishedCommand {
    exit: Exit,
    stdout: Vec<u8>,
    /// The last lines.
    stderr: Vec<String>,
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
            match self.run(call, None).await.map(HookResponse::before) {
                Ok(before) => before,
                Err(reason) if self.on_failure == OnFailure::Proceed => BeforeCall::Failed(reason),
                Err(reason) => BeforeCall::Block(format!("the hook `{}` failed: {reason}", self.name)),
            }
        })
    }

    fn after<'a>(&'a self, call: &'a CallView<'a>, output: &'a ToolOutput) -> BoxFuture<'a, AfterCall> {
        Box::pin(async move {
            if self.event != Event::PostToolUse {
                return AfterCall::Keep;
            }
            match self.run(call, Some(output)).await.and_then(|response| response.after(output)) {
                Ok(after) => after,
                Err(reason) if self.on_failure == OnFailure::Proceed => AfterCall::Failed(reason),
                Err(reason) => AfterCall::Block(format!("the hook `{}` failed: {reason}", self.name)),
            }
        })
    }
}

impl CommandHook {
    async fn run(&self, call: &CallView<'_>, output: Option<&ToolOutput>) -> Result<HookResponse, String> {
        let input = self.input(call, output)?;
        let finished = match tokio::time::timeout(self.timeout, self.run_command(input.as_bytes())).await {
            Ok(finished) => finished?,
            // Dropping the child has killed its group.
            Err(_) => return Err(format!("it did not exit within {} s and was killed", self.timeout.as_secs_f64())),
        };
        match finished.exit {
            Exit::Status(0) => HookResponse::parse(&finished.stdout),
            Exit::Status(BLOCKING_STATUS) => Ok(HookResponse::blocked(reason(&finished.stderr))),
            exit => Err(format!("it {exit}: {}", reason(&finished.stderr))),
        }
    }

    fn input(&self, call: &CallView<'_>, output: Option<&ToolOutput>) -> Result<String, String> {
        let input = HookInput {
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
        serde_json::to_string(&input).map_err(|error| format!("the call cannot be serialized: {error}"))
    }

    /// Runs the command with this input.
    async fn run_command(&self, input: &[u8]) -> Result<FinishedCommand, String> {
        let HookEnvironment { environment, cwd, watcher } = self.environment.clone();
        let mut arguments = self.command.iter().map(OsString::from);
        let command = arguments.next().unwrap_or_default();
        let spec = ChildSpec { command, args: arguments.collect(), environment, cwd, watcher };
        let (child, pipes) = Child::spawn(&spec).await.map_err(|error| format!("it cannot be started: {error}"))?;
        let mut stdin = pipes.stdin;
        let write = async move {
            // A hook does not have to read its input.
            let _ = stdin.write_all(input).await;
            Ok(())
        };
        let read = async move {
            let mut stdout = Vec::new();
            let read = pipes.stdout.take(MAX_RESPONSE_BYTES + 1).read_to_end(&mut stdout).await;
            read.map_err(|error| format!("its stdout cannot be read: {error}"))?;
            if stdout.len() as u64 > MAX_RESPONSE_BYTES {
                return Err(format!("it wrote more than {MAX_RESPONSE_BYTES} bytes"));
            }
            Ok(stdout)
        };
        // When the leader exits, its whole group is killed, so no process is left to hold the pipes open. A hook that writes
        // too much would block on its pipe, and is killed instead.
        let exited = async { Ok(child.exited().await) };
        let ((), exit, stdout) = tokio::try_join!(write, exited, read)?;
        Ok(FinishedCommand { exit, stdout, stderr: child.stderr().lines() })
    }
}

/// Joins the last lines of a hook's stderr.
fn reason(stderr: &[String]) -> String {
    let all = stderr.join("\n");
    let all = all.trim();
    if all.is_empty() {
        return "no reason given".to_owned();
    }
    all.chars().take(MAX_REASON_CHARS).collect()
}
