//! One tool call from the model's request to the output it reads: check, permit, execute, cap and trace.

mod call_failure;
mod call_trace;
mod command_hook;
mod condition;
mod freshness;
mod hooks;
mod messages;
mod output;
mod policy;
mod policy_evaluator;
mod read_output;
mod retries;
mod spill;
mod user_prompt;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Instrument as _;
use wharf_client::{BoxFuture, CallOptions};
use wharf_protocol::{
    CallFailed, Content, Json, ServerInstructions, ServerName, Tool, ToolCall, ToolDefinition, ToolOutput, Tools,
    TraceSink, TraceStep,
};

use crate::catalog::{AbsentServer, Catalog, Entry, NotAdmitted};
pub use call_failure::CallFailure;
pub use command_hook::{CommandHooks, HookEnvironment, InvalidHooks, command_hooks};
pub use condition::{Condition, InvalidCondition};
pub use hooks::{AfterCall, BeforeCall, CallChanges, CallView, Hook};
pub use output::DEFAULT_OUTPUT_TOKENS;
pub use policy::{Decision, Policy, PolicyMode, Rule, RuleAction};
pub use spill::{ReadError, Spill};
pub use user_prompt::{
    ApprovalAnswer, ApprovalRequest, NoUserPrompt, PromptingHost, Question, QuestionKind, TimedPrompt, UserAnswer,
    UserPrompt, host,
};

use call_trace::CallTrace;
use freshness::{refresh_tool, trace_drift};
use output::OutputLimit;
use policy_evaluator::PolicyEvaluator;
use retries::{Retries, before_retry};

/// How long the user may take to approve a call.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Checks that take no longer are not counted against the call's total timeout, which errors quote as it was set.
const QUICK_CHECK: Duration = Duration::from_millis(100);

/// Executes the calls of one run. Every tool, a server's or the host's, takes the same path.
pub struct Dispatcher {
    policy: PolicyEvaluator,
    hooks: Vec<Arc<dyn Hook>>,
    user_prompt: Arc<dyn UserPrompt>,
    spill: Option<Spill>,
    trace: Option<Arc<dyn TraceSink>>,
    max_output: OutputLimit,
    total: Option<Duration>,
    idle: Option<Duration>,
    /// The tools that the user always approves, with their definitions at that time.
    approved: Mutex<HashMap<Arc<str>, Json>>,
}

/// The tools of one turn of an agent: a catalog, and the dispatcher of its calls.
pub struct Turn {
    /// The tools that the model sees.
    pub catalog: Arc<Catalog>,
    /// The dispatcher that executes them.
    pub dispatcher: Arc<Dispatcher>,
    instructions: Vec<ServerInstructions>,
    search_tool: Option<Arc<str>>,
}

impl Turn {
    /// Creates a turn with the tools that the model sees, and the dispatcher that executes them.
    pub fn new(catalog: Arc<Catalog>, dispatcher: Arc<Dispatcher>) -> Self {
        let instructions = catalog.instructions().to_vec();
        Self { catalog, dispatcher, instructions, search_tool: None }
    }

    /// Names the tool of the catalog with which the model finds the others.
    #[must_use]
    pub fn with_search_tool(mut self, name: Arc<str>) -> Self {
        self.search_tool = Some(name);
        self
    }

    /// Adds notices about servers to what the model reads.
    #[must_use]
    pub fn with_notices(mut self, notices: impl IntoIterator<Item = ServerInstructions>) -> Self {
        self.instructions.extend(notices);
        self
    }
}

impl Tools for Turn {
    fn offered(&self) -> &[ToolDefinition] {
        self.catalog.offered()
    }

    fn search_tool(&self) -> Option<&str> {
        self.search_tool.as_deref()
    }

    fn instructions(&self) -> &[ServerInstructions] {
        &self.instructions
    }

    fn time_asked(&self) -> Duration {
        self.dispatcher.user_prompt.time_asked()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(self.dispatcher.call(&self.catalog, call))
    }
}

/// The output of a call; if the server did not answer properly, the text for the model and the cause.
type Answered = (ToolOutput, Option<CallFailure>);

/// Why a call ends early.
enum Stop {
    /// The model reads this text. The cause is for the user.
    Refused(String, CallFailure),
    /// The host has to handle the error.
    Failed(CallFailed, CallFailure),
}

impl Stop {
    fn not_admitted(entry: &Entry, reason: NotAdmitted) -> Self {
        match reason {
            NotAdmitted::Violation(fault) => {
                Self::Refused(messages::invalid_arguments(entry, &fault), CallFailure::Arguments(Box::new(fault)))
            }
            NotAdmitted::TimedOut => Self::Refused(messages::check_timed_out(entry), CallFailure::CheckTimedOut),
        }
    }

    /// The model reads `text`, and the user reads the reason, which is a part of it.
    fn refused(text: String, reason: impl Into<String>) -> Self {
        Self::Refused(text, CallFailure::Refused(reason.into()))
    }
}

/// The arguments of a call: the model's own if they are valid, so that few calls have to copy them.
struct Arguments<'a> {
    sent: Cow<'a, Json>,
    /// The arguments without bound ones, if any are bound.
    without_bound: Option<Json>,
}

impl Arguments<'_> {
    /// The arguments as everything but the tool sees them.
    fn visible(&self) -> &Json {
        self.without_bound.as_ref().unwrap_or(&self.sent)
    }

    fn into_owned(self) -> Arguments<'static> {
        Arguments { sent: Cow::Owned(self.sent.into_owned()), without_bound: self.without_bound }
    }
}

/// A call whose arguments and tool are checked.
#[derive(Clone, Copy)]
struct CheckedCall<'a> {
    entry: &'a Arc<Entry>,
    /// The tool as its server describes it now.
    tool: &'a Arc<Tool>,
    /// The arguments to send.
    sent: &'a Json,
    /// The arguments without bound ones.
    visible: &'a Json,
    /// What the checks have left of the call's total timeout.
    total: Option<Duration>,
}

/// What the hooks decide about the permission of a call.
enum HookPermission {
    None,
    /// Do not ask the user. Names the hook.
    Allow(String),
    /// Ask the user, for this reason.
    Ask(String),
}

impl Dispatcher {
    /// Executes one call. What the model can act on is an output; an error is for the host.
    pub async fn call(&self, catalog: &Catalog, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        self.call_explained(catalog, call).await.0
    }

    /// Executes one call. If the tool returned no output of its own, also returns the cause, for the user.
    pub async fn call_explained(
        &self,
        catalog: &Catalog,
        call: &ToolCall,
    ) -> (Result<ToolOutput, CallFailed>, Option<CallFailure>) {
        let entry = catalog.get(&call.name);
        let server = entry.and_then(|entry| entry.server.as_ref()).map(ServerName::as_str);
        let span = tracing::info_span!("call", server, tool = &*call.name, call = &*call.id);
        let mut trace = CallTrace::begin(self.trace.as_deref(), call, &*self.user_prompt);
        let Some(entry) = entry else {
            let (text, cause) = if let Some(absent) = catalog.absent_server(&call.name) {
                let AbsentServer { server, reason, .. } = absent.clone();
                trace.step(|| TraceStep::ServerDown { server, reason });
                (messages::server_down(absent, &call.name), CallFailure::ServerDown(absent.to_string()))
            } else {
                trace.step(|| TraceStep::NotOffered);
                (messages::not_offered(catalog, &call.name), CallFailure::NotOffered)
            };
            let result = Ok(ToolOutput::error(text));
            trace.end(&result);
            return (result, Some(cause));
        };
        trace.set_entry(entry);
        // Instrumenting moves the future, and this one is large: it is boxed, and only if spans are recorded.
        let finished = if span.is_disabled() {
            self.run_call(entry, call, &mut trace).await
        } else {
            Box::pin(self.run_call(entry, call, &mut trace).instrument(span)).await
        };
        let (result, cause) = match finished {
            Ok((output, cause)) => (Ok(output), cause),
            Err(Stop::Refused(text, cause)) => (Ok(ToolOutput::error(text)), Some(cause)),
            Err(Stop::Failed(failed, cause)) => (Err(failed), Some(cause)),
        };
        trace.end(&result);
        (result, cause)
    }

    async fn run_call(&self, entry: &Arc<Entry>, call: &ToolCall, trace: &mut CallTrace<'_>) -> Result<Answered, Stop> {
        let mut total = entry.settings.timeout.or(self.total).or_else(|| entry.executor.default_timeout());
        let mut arguments = admit(entry, &call.arguments, &mut total, trace)
            .await
            .map_err(|reason| Stop::not_admitted(entry, reason))?;
        let newer = refresh_tool(entry, trace).await?;
        let tool = newer.as_ref().unwrap_or(&entry.tool);

        let mut permission = HookPermission::None;
        let mut annotations = Vec::new();
        for hook in &self.hooks {
            if !hook.condition().matches(entry, arguments.visible()) {
                continue;
            }
            let by = || hook.name().to_owned();
            let changes = match hook.before(&CallView { id: &call.id, entry, arguments: arguments.visible() }).await {
                BeforeCall::Proceed(changes) => changes,
                BeforeCall::Allow(changes) => {
                    permission = permission.or_allow(hook.name());
                    changes
                }
                BeforeCall::Ask(reason, changes) => {
                    permission = HookPermission::Ask(reason);
                    changes
                }
                BeforeCall::Block(reason) => {
                    trace.step(|| TraceStep::Blocked { by: by(), reason: reason.clone() });
                    return Err(Stop::refused(messages::blocked(entry, &reason), reason));
                }
                BeforeCall::Failed(reason) => {
                    trace.step(|| TraceStep::HookFailed { by: by(), reason });
                    continue;
                }
            };
            annotations.extend(changes.context.map(|text| (hook.name(), text)));
            if let Some(rewritten) = changes.arguments {
                trace.step(|| TraceStep::Rewritten { by: by() });
                let admitted = Box::pin(admit(entry, &rewritten, &mut total, trace)).await.map(Arguments::into_owned);
                arguments = admitted.map_err(|fault| {
                    let reason = messages::invalid_rewrite(hook.name(), &fault);
                    Stop::refused(messages::not_called(entry, &format!("{reason}.")), reason)
                })?;
            }
        }

        let checked = CheckedCall { entry, tool, sent: &arguments.sent, visible: arguments.visible(), total };
        self.permit(checked, permission, trace).await?;
        trace.sent(arguments.visible());
        let (mut output, mut cause) = self.execute(checked, trace).await?;
        trace.answered();
        if self.max_output != OutputLimit::None
            && let Some(tokens) = output::large(&output)
        {
            trace.step(|| TraceStep::LargeOutput { tokens });
        }
        // Hooks see the whole output. What they withhold is never stored, so it cannot be read back.
        let mut is_withheld = false;
        let mut annotations_after = Vec::new();
        for hook in &self.hooks {
            if !hook.condition().matches(entry, arguments.visible()) {
                continue;
            }
            let by = || hook.name().to_owned();
            match hook.after(&CallView { id: &call.id, entry, arguments: arguments.visible() }, &output).await {
                AfterCall::Keep => {}
                AfterCall::Annotate(text) => annotations_after.push((hook.name(), text)),
                AfterCall::Replace(replaced) => {
                    cause = None;
                    is_withheld = false;
                    trace.withhold_output();
                    trace.step(|| TraceStep::Replaced { by: by() });
                    output = replaced;
                }
                AfterCall::Block(reason) => {
                    is_withheld = true;
                    trace.withhold_output();
                    // They may quote the output.
                    annotations_after.clear();
                    output = ToolOutput::error(messages::withheld(entry, &reason));
                    cause = Some(CallFailure::Withheld(reason.clone()));
                    trace.step(|| TraceStep::Blocked { by: by(), reason });
                }
                AfterCall::Failed(reason) => trace.step(|| TraceStep::HookFailed { by: by(), reason }),
            }
        }
        if !is_withheld && let Some(limit) = self.exceeded_limit(entry, &output) {
            output = Box::pin(self.cap(output, limit, trace)).await;
        }
        for (hook, text) in annotations_after.into_iter().chain(annotations) {
            output = annotated(output, hook, text, trace);
        }
        Ok((output, cause))
    }

    /// Decides whether the call is permitted: by the policy, the hooks, and if necessary the user.
    async fn permit(
        &self,
        call: CheckedCall<'_>,
        permission: HookPermission,
        trace: &mut CallTrace<'_>,
    ) -> Result<(), Stop> {
        let entry = call.entry;
        let decision = self.policy.decide(entry, call.visible);
        let forced = matches!(permission, HookPermission::Ask(_));
        let (then, by) = match (decision.then, permission) {
            (RuleAction::Allow | RuleAction::Ask, HookPermission::Ask(why)) => (RuleAction::Ask, Cow::Owned(why)),
            (RuleAction::Ask, HookPermission::Allow(hook)) if !entry.requires_user => {
                (RuleAction::Allow, Cow::Owned(hook))
            }
            (then, _) => (then, Cow::Borrowed(decision.by)),
        };
        match then {
            RuleAction::Allow => trace.step(|| TraceStep::Allowed { by: by.into_owned() }),
            RuleAction::Deny => {
                let text = messages::denied(entry, &by);
                let reason = format!("denied by the policy ({by})");
                trace.step(|| TraceStep::Denied { by: by.into_owned() });
                return Err(Stop::refused(text, reason));
            }
            RuleAction::Ask if !forced && self.is_approved(call) => {
                trace.step(|| TraceStep::Allowed { by: "an earlier answer".to_owned() });
            }
            RuleAction::Ask => Box::pin(self.ask_user(call, by.into_owned(), trace)).await?,
        }
        Ok(())
    }

    async fn ask_user(&self, call: CheckedCall<'_>, why: String, trace: &mut CallTrace<'_>) -> Result<(), Stop> {
        let entry = call.entry;
        let request = ApprovalRequest {
            name: Arc::clone(&entry.name),
            server: entry.server.clone(),
            tool: Arc::clone(&entry.tool.name),
            arguments: call.visible.clone(),
            why: why.clone(),
        };
        let answer = self.user_prompt.ask(Question::new(QuestionKind::Approve(request)));
        let approval = match timeout(APPROVAL_TIMEOUT, answer).await {
            Ok(answer) => answer.into_approval(),
            Err(_) => ApprovalAnswer::No("the approval request was not answered".to_owned()),
        };
        let words = match approval {
            ApprovalAnswer::Yes => None,
            ApprovalAnswer::YesAlways => {
                self.approve(call);
                Some("always".to_owned())
            }
            ApprovalAnswer::No(reason) => {
                let refusal = Stop::refused(messages::rejected(entry, &reason), reason.clone());
                trace.step(|| TraceStep::Asked { by: why, approved: false, words: Some(reason) });
                return Err(refusal);
            }
            ApprovalAnswer::Unavailable => {
                let text = messages::not_called(entry, messages::APPROVAL_UNAVAILABLE);
                let words = Some(messages::APPROVAL_UNAVAILABLE.to_owned());
                trace.step(|| TraceStep::Asked { by: why, approved: false, words });
                return Err(Stop::Refused(text, CallFailure::ApprovalUnavailable));
            }
        };
        trace.step(|| TraceStep::Asked { by: why, approved: true, words });
        Ok(())
    }

    /// Calls the tool that was checked before hooks and the user took their time. If it has changed since, or its session
    /// is gone, the executor does not call it, and it is checked again.
    async fn execute(&self, call: CheckedCall<'_>, trace: &mut CallTrace<'_>) -> Result<Answered, Stop> {
        let entry = call.entry;
        if !Arc::ptr_eq(call.tool, &entry.tool) {
            trace_drift(entry, call.tool, trace);
        }
        let mut total = call.total;
        let deadline = total.and_then(|total| Instant::now().checked_add(total));
        let mut retries = Retries::until(deadline);
        let mut newer: Option<Arc<Tool>> = None;
        loop {
            let tool = newer.as_ref().unwrap_or(call.tool);
            let mut progress = trace.progress();
            let options = CallOptions {
                total,
                idle: self.idle,
                progress: progress.as_mut().map(|sink| sink as _),
                admitted: true,
                ..CallOptions::default()
            };
            let error = match entry.executor.call(tool, call.sent, options).await {
                Ok(output) => return Ok((output, None)),
                Err(error) => error,
            };
            // Few calls fail. What only they need is boxed, which keeps the future of all others small.
            match Box::pin(before_retry(entry, tool, &mut retries, error, trace)).await {
                ControlFlow::Continue(changed) => newer = changed.or(newer),
                ControlFlow::Break(result) => return result,
            }
            total = retries.time_left();
        }
    }

    /// Returns the output limit in characters if the output may exceed it.
    fn exceeded_limit(&self, entry: &Entry, output: &ToolOutput) -> Option<usize> {
        let limit = self.max_output.for_tool(entry)?;
        (!output::is_within(output, limit)).then_some(limit)
    }

    async fn cap(&self, output: ToolOutput, limit: usize, trace: &mut CallTrace<'_>) -> ToolOutput {
        let (output, steps) = output::capped(output, limit, self.spill.as_ref()).await;
        for step in steps {
            trace.step(|| step);
        }
        output
    }

    /// Whether the user always approves this tool. A tool that has changed since is another tool.
    fn is_approved(&self, call: CheckedCall<'_>) -> bool {
        let approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |definition: &Json| *definition == call.tool.raw;
        !call.entry.requires_user && approved.get(&call.entry.name).is_some_and(is_same)
    }

    fn approve(&self, call: CheckedCall<'_>) {
        let mut approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        approved.insert(Arc::clone(&call.entry.name), call.tool.raw.clone());
    }
}

/// Checks and repairs arguments, and traces what was done. The check takes its time from what is left of the call's: a
/// call whose check does not end in time is not made, because its arguments may be invalid.
async fn admit<'a>(
    entry: &Entry,
    written: &'a Json,
    total: &mut Option<Duration>,
    trace: &mut CallTrace<'_>,
) -> Result<Arguments<'a>, NotAdmitted> {
    let started = Instant::now();
    let checked = match *total {
        Some(limit) => timeout(limit, entry.admit(written)).await.unwrap_or(Err(NotAdmitted::TimedOut)),
        None => entry.admit(written).await,
    };
    let elapsed = started.elapsed();
    if elapsed > QUICK_CHECK {
        *total = total.map(|total| total.saturating_sub(elapsed));
    }
    let admitted = checked.inspect_err(|reason| {
        trace.step(|| match reason {
            NotAdmitted::Violation(fault) => TraceStep::Misfit { fault: fault.to_string() },
            NotAdmitted::TimedOut => TraceStep::Misfit { fault: "checking the arguments took too long".to_owned() },
        });
    })?;
    if admitted.repaired {
        trace.step(|| TraceStep::Repaired);
    }
    if let Some(reason) = admitted.unchecked {
        trace.step(|| TraceStep::Unchecked { reason });
    }
    if entry.bound().next().is_some() {
        trace.step(|| TraceStep::Bound { names: entry.bound().map(str::to_owned).collect() });
    }
    let without_bound = entry.without_bound_arguments(&admitted.arguments);
    Ok(Arguments { sent: admitted.arguments, without_bound })
}

fn annotated(mut output: ToolOutput, hook: &str, text: String, trace: &mut CallTrace<'_>) -> ToolOutput {
    output.content.push(Content::text(text.as_str()));
    trace.step(|| TraceStep::Annotated { by: hook.to_owned(), words: text });
    output.rebuilt()
}

impl HookPermission {
    /// One hook that asks the user outweighs all that allow the call.
    fn or_allow(self, hook: &str) -> Self {
        match self {
            Self::Ask(why) => Self::Ask(why),
            Self::None | Self::Allow(_) => Self::Allow(hook.to_owned()),
        }
    }
}

/// A dispatcher with the standard policy and nothing else: questions to the user are answered with no.
impl Default for Dispatcher {
    fn default() -> Self {
        Self {
            policy: PolicyEvaluator::new(Policy::default()),
            hooks: Vec::new(),
            user_prompt: Arc::new(NoUserPrompt),
            spill: None,
            trace: None,
            max_output: OutputLimit::Default,
            total: None,
            idle: None,
            approved: Mutex::default(),
        }
    }
}

impl Dispatcher {
    /// Creates a dispatcher with a policy.
    pub fn new(policy: Policy) -> Self {
        Self { policy: PolicyEvaluator::new(policy), ..Self::default() }
    }

    /// Adds a hook. Hooks run in the order in which they are added.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Sets who answers questions to the user.
    #[must_use]
    pub fn with_user_prompt(mut self, user_prompt: Arc<dyn UserPrompt>) -> Self {
        self.user_prompt = user_prompt;
        self
    }

    /// Sets the store for outputs that exceed their limit; [`Dispatcher::read_output`] reads from it.
    #[must_use]
    pub fn with_spill(mut self, spill: Spill) -> Self {
        self.spill = Some(spill);
        self
    }

    /// Sets the receiver of trace events.
    #[must_use]
    pub fn with_trace(mut self, trace: Arc<dyn TraceSink>) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets the user's output limit, in tokens of about four characters. A server's own setting overrides it. A tool may
    /// request less, but more only where neither is set.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: usize) -> Self {
        self.max_output = OutputLimit::Tokens(tokens);
        self
    }

    /// Removes the output limit, for a host that shows outputs to the user.
    #[must_use]
    pub fn with_unlimited_outputs(mut self) -> Self {
        self.max_output = OutputLimit::None;
        self
    }

    /// Sets the total timeout of calls whose server has none, and the idle timeout.
    #[must_use]
    pub fn with_limits(mut self, total: Option<Duration>, idle: Option<Duration>) -> Self {
        self.total = total;
        self.idle = idle;
        self
    }

    /// Returns the tool `read_output` for the catalog, if the dispatcher has a store for long outputs.
    pub fn read_output(&self) -> Option<Arc<Entry>> {
        Some(read_output::read_output(self.spill.clone()?, self.max_output.chars()))
    }
}
