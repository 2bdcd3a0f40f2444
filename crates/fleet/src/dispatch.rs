//! How one call is carried out, from the model's words to what it reads: checked, permitted, called, cut and recorded.

mod ask;
mod cause;
mod command_hook;
mod condition;
mod hooks;
mod judge;
mod output;
mod policy;
mod read_output;
mod spill;
mod story;
mod words;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument as _;
use wharf_client::{BoxFuture, CallError, CallErrorKind, CallOptions, SchemaViolation};
use wharf_protocol::{
    CallFailed, Content, Json, ServerName, Tool, ToolCall, ToolDefinition, ToolOutput, Tools, TraceSink, TraceStep,
};

use crate::catalog::{Catalog, Drift, Entry, ToolFreshness, drift};
pub use ask::{
    ApprovalAnswer, ApprovalRequest, NoUserPrompt, PromptingHost, Question, QuestionKind, UserAnswer, UserPrompt, host,
};
pub use cause::CallFailure;
pub use command_hook::{CommandHooks, HookEnvironment, InvalidHooks, command_hooks};
pub use condition::{Condition, InvalidCondition};
pub use hooks::{AfterCall, BeforeCall, CallChanges, CallView, Hook};
pub use output::DEFAULT_OUTPUT_TOKENS;
pub use policy::{Decision, Policy, PolicyMode, Rule, RuleAction};
pub use spill::{ReadError, Spill};

use judge::Judge;
use story::Story;

/// How long a person may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Carries out the calls of one run. Every tool goes the same way.
pub struct Dispatcher {
    policy: Judge,
    hooks: Vec<Arc<dyn Hook>>,
    asker: Arc<dyn UserPrompt>,
    spill: Option<Spill>,
    trace: Option<Arc<dyn TraceSink>>,
    /// The longest output in tokens; `None` where outputs stay whole.
    most_tokens: Option<usize>,
    total: Option<Duration>,
    idle: Option<Duration>,
    /// Tools that need not be asked about again, as they were described when that was said.
    approved: Mutex<HashMap<Arc<str>, Json>>,
}

/// What one turn of an agent has: what it is offered, and who carries out its calls.
pub struct Turn {
    /// What is offered.
    pub catalog: Arc<Catalog>,
    /// Who carries out calls.
    pub dispatcher: Arc<Dispatcher>,
}

impl Tools for Turn {
    fn offered(&self) -> &[ToolDefinition] {
        self.catalog.offered()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(self.dispatcher.call(&self.catalog, call))
    }
}

/// What a tool answered; where its server did not answer properly, the words for the model and the cause.
type Answered = (ToolOutput, Option<CallFailure>);

/// Why a call goes no further.
enum Stop {
    /// The model is told this, because of that.
    Refused(String, CallFailure),
    /// The host has to handle it.
    Failed(CallFailed, Box<CallError>),
}

impl Stop {
    fn misfit(entry: &Entry, fault: SchemaViolation) -> Self {
        Self::Refused(words::misfit(entry, &fault), CallFailure::Arguments(fault))
    }

    /// The model is told `words`; a person is told why, which is part of them.
    fn refused(words: String, why: impl Into<String>) -> Self {
        Self::Refused(words, CallFailure::Refused(why.into()))
    }
}

/// The arguments of a call: those of the model where they fit, which hardly any call has to copy.
struct Arguments<'a> {
    sent: Cow<'a, Json>,
    /// Without those that the configuration sets, if it sets any.
    without_bound: Option<Json>,
}

impl Arguments<'_> {
    /// What everybody but the tool sees.
    fn seen(&self) -> &Json {
        self.without_bound.as_ref().unwrap_or(&self.sent)
    }

    fn into_owned(self) -> Arguments<'static> {
        Arguments { sent: Cow::Owned(self.sent.into_owned()), without_bound: self.without_bound }
    }
}

/// A call that is about to be made.
#[derive(Clone, Copy)]
struct Planned<'a> {
    entry: &'a Arc<Entry>,
    /// The tool as it is now.
    tool: &'a Arc<Tool>,
    /// The arguments, without those that the configuration sets.
    seen: &'a Json,
}

/// What hooks wish about the question whether a call may be made.
enum Wish {
    Nothing,
    Allow(String),
    Ask(String),
}

impl Dispatcher {
    /// Carries out one call. What the model can act on is an output; an error is for the host.
    pub async fn call(&self, catalog: &Catalog, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        self.call_explained(catalog, call).await.0
    }

    /// The same, and where the tool gave no answer also the cause, for a person.
    pub async fn call_explained(
        &self,
        catalog: &Catalog,
        call: &ToolCall,
    ) -> (Result<ToolOutput, CallFailed>, Option<CallFailure>) {
        let entry = catalog.get(&call.name);
        let server = entry.and_then(|entry| entry.server.as_ref()).map(ServerName::as_str);
        let span = tracing::info_span!("call", server, tool = &*call.name, call = &*call.id);
        let mut story = Story::begin(self.trace.as_deref(), call);
        // What is instrumented is moved about, and that is too large for it where nobody listens.
        let carried_out = if span.is_disabled() {
            self.carry_out((catalog, entry), call, &mut story).await
        } else {
            Box::pin(self.carry_out((catalog, entry), call, &mut story).instrument(span)).await
        };
        let (result, cause) = match carried_out {
            Ok((output, cause)) => (Ok(output), cause),
            Err(Stop::Refused(words, cause)) => (Ok(ToolOutput::error(words)), Some(cause)),
            Err(Stop::Failed(failed, error)) => (Err(failed), Some(CallFailure::Error(error))),
        };
        story.ends(&result);
        (result, cause)
    }

    async fn carry_out<'a>(
        &self,
        (catalog, entry): (&'a Catalog, Option<&'a Arc<Entry>>),
        call: &ToolCall,
        story: &mut Story<'a>,
    ) -> Result<Answered, Stop> {
        let Some(entry) = entry else {
            story.step(|| TraceStep::NotOffered);
            return Err(Stop::Refused(words::not_offered(catalog, &call.name), CallFailure::NotOffered));
        };
        story.is_about(entry);
        let mut arguments = fit(entry, &call.arguments, story).map_err(|fault| Stop::misfit(entry, fault))?;
        let newer = as_it_is(entry, story).await?;
        let tool = newer.as_ref().unwrap_or(&entry.tool);

        let (mut wish, mut notes) = (Wish::Nothing, Vec::new());
        for hook in &self.hooks {
            if !hook.condition().holds(entry, arguments.seen()) {
                continue;
            }
            let by = || hook.name().to_owned();
            let changes = match hook.before(&CallView { id: &call.id, entry, arguments: arguments.seen() }).await {
                BeforeCall::Proceed(changes) => changes,
                BeforeCall::Allow(changes) => {
                    wish = wish.or_allow(hook.name());
                    changes
                }
                BeforeCall::Ask(why, changes) => {
                    wish = Wish::Ask(why);
                    changes
                }
                BeforeCall::Block(reason) => {
                    story.step(|| TraceStep::Blocked { by: by(), reason: reason.clone() });
                    return Err(Stop::refused(words::blocked(entry, &reason), reason));
                }
                BeforeCall::Failed(reason) => {
                    story.step(|| TraceStep::HookFailed { by: by(), reason });
                    continue;
                }
            };
            notes.extend(changes.words.map(|words| (hook.name(), words)));
            if let Some(rewritten) = changes.arguments {
                story.step(|| TraceStep::Rewritten { by: by() });
                let fitted = fit(entry, &rewritten, story).map(Arguments::into_owned);
                arguments = fitted.map_err(|fault| {
                    let why = format!("the hook `{}` wrote arguments that do not fit its schema: {fault}", hook.name());
                    Stop::refused(words::rewritten_misfit(entry, hook.name(), &fault), why)
                })?;
            }
        }

        self.permit(Planned { entry, tool, seen: arguments.seen() }, wish, story).await?;
        story.goes_out(arguments.seen());
        let (mut output, mut cause) = self.ask_callee((entry, tool), &arguments.sent, story).await?;
        story.came_back();
        if let Some(limit) = self.exceeded(entry, &output) {
            output = Box::pin(self.capped(output, limit, story)).await;
        }

        for hook in &self.hooks {
            if !hook.condition().holds(entry, arguments.seen()) {
                continue;
            }
            let by = || hook.name().to_owned();
            match hook.after(&CallView { id: &call.id, entry, arguments: arguments.seen() }, &output).await {
                AfterCall::Keep => {}
                AfterCall::Annotate(words) => output = annotated(output, hook.name(), words, story),
                AfterCall::Replace(replaced) => {
                    cause = None;
                    story.step(|| TraceStep::Replaced { by: by() });
                    output = replaced;
                    if let Some(limit) = self.exceeded(entry, &output) {
                        output = Box::pin(self.capped(output, limit, story)).await;
                    }
                }
                AfterCall::Block(reason) => {
                    output = ToolOutput::error(words::withheld(entry, &reason));
                    cause = Some(CallFailure::Withheld(reason.clone()));
                    story.step(|| TraceStep::Blocked { by: by(), reason });
                }
                AfterCall::Failed(reason) => story.step(|| TraceStep::HookFailed { by: by(), reason }),
            }
        }
        for (hook, words) in notes {
            output = annotated(output, hook, words, story);
        }
        Ok((output, cause))
    }

    /// Whether the call may be made, as far as that can be said without making it.
    async fn permit(&self, planned: Planned<'_>, wish: Wish, story: &mut Story<'_>) -> Result<(), Stop> {
        let Planned { entry, seen, .. } = planned;
        let decision = self.policy.decide(entry, seen);
        let forced = matches!(wish, Wish::Ask(_));
        let (then, by) = match (decision.then, wish) {
            (RuleAction::Allow | RuleAction::Ask, Wish::Ask(why)) => (RuleAction::Ask, Cow::Owned(why)),
            (RuleAction::Ask, Wish::Allow(hook)) if !entry.needs_person => (RuleAction::Allow, Cow::Owned(hook)),
            (then, _) => (then, Cow::Borrowed(decision.by)),
        };
        match then {
            RuleAction::Allow => story.step(|| TraceStep::Allowed { by: by.into_owned() }),
            RuleAction::Deny => {
                let words = words::denied(entry, &by);
                let why = format!("the policy forbids it ({by})");
                story.step(|| TraceStep::Denied { by: by.into_owned() });
                return Err(Stop::refused(words, why));
            }
            RuleAction::Ask if !forced && self.is_approved(planned) => {
                story.step(|| TraceStep::Allowed { by: "an earlier answer".to_owned() });
            }
            RuleAction::Ask => Box::pin(self.ask(planned, by.into_owned(), story)).await?,
        }
        Ok(())
    }

    async fn ask(&self, planned: Planned<'_>, why: String, story: &mut Story<'_>) -> Result<(), Stop> {
        let Planned { entry, seen, .. } = planned;
        let request = ApprovalRequest {
            name: Arc::clone(&entry.name),
            server: entry.server.clone(),
            tool: Arc::clone(&entry.tool.name),
            arguments: seen.clone(),
            why: why.clone(),
        };
        let answer = self.asker.ask(Question::new(QuestionKind::Approve(request)));
        let approval = match tokio::time::timeout(ANSWER_LIMIT, answer).await {
            Ok(answer) => answer.into_approval(),
            Err(_) => ApprovalAnswer::No("nobody answered whether it may be called".to_owned()),
        };
        let words = match approval {
            ApprovalAnswer::Yes => None,
            ApprovalAnswer::YesAlways => {
                self.approve(planned);
                Some("always".to_owned())
            }
            ApprovalAnswer::No(words) => {
                let refusal = Stop::refused(words::refused(entry, &words), words.clone());
                story.step(|| TraceStep::Asked { by: why, approved: false, words: Some(words) });
                return Err(refusal);
            }
        };
        story.step(|| TraceStep::Asked { by: why, approved: true, words });
        Ok(())
    }

    /// Calls the tool that was looked at before hooks and people took their time. Where it is another by now, or lives on
    /// another session, the callee does not call it, and it is looked at once more.
    async fn ask_callee(
        &self,
        (entry, tool): (&Entry, &Arc<Tool>),
        arguments: &Json,
        story: &mut Story<'_>,
    ) -> Result<Answered, Stop> {
        let total = entry.settings.timeout.or(self.total);
        let ends = total.and_then(|total| Instant::now().checked_add(total));
        let error = match self.call_once(entry, tool, arguments, (total, story)).await {
            Ok(output) => return Ok((output, None)),
            Err(error) => error,
        };
        // Hardly any call comes here, and none should be as large as those that do.
        Box::pin(self.not_answered(entry, arguments, (ends, story), error)).await
    }

    /// What becomes of a call that failed with `error`.
    async fn not_answered(
        &self,
        entry: &Entry,
        arguments: &Json,
        (ends, story): (Option<Instant>, &mut Story<'_>),
        mut error: CallError,
    ) -> Result<Answered, Stop> {
        if matches!(error.kind, CallErrorKind::SessionLost { .. }) {
            // It did not run. On the next session the tool may be another, or gone.
            let newer = as_it_is(entry, story).await?;
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            match self.call_once(entry, newer.as_ref().unwrap_or(&entry.tool), arguments, (left, story)).await {
                Ok(output) => return Ok((output, None)),
                Err(another) => error = another,
            }
        }
        match &error.kind {
            CallErrorKind::Output { fault, .. } => story.step(|| TraceStep::OutputMisfit { fault: fault.to_string() }),
            CallErrorKind::Arguments { fault, .. } => story.step(|| TraceStep::Misfit { fault: fault.to_string() }),
            _ => {}
        }
        let cause = Box::new(error.clone());
        match words::unanswered(entry, error) {
            Ok(output) => Ok((output, Some(CallFailure::Error(cause)))),
            Err(failed) => Err(Stop::Failed(failed, cause)),
        }
    }

    async fn call_once(
        &self,
        entry: &Entry,
        tool: &Arc<Tool>,
        arguments: &Json,
        (total, story): (Option<Duration>, &mut Story<'_>),
    ) -> Result<ToolOutput, CallError> {
        if !Arc::ptr_eq(tool, &entry.tool)
            && let Drift::Harmless(what) = drift(&entry.tool, tool)
        {
            story.step(|| TraceStep::Drifted { what, called: true });
        }
        let mut progress = story.progress();
        let options = CallOptions {
            total,
            idle: self.idle,
            progress: progress.as_mut().map(|heard| heard as _),
            admitted: true,
            ..CallOptions::default()
        };
        entry.callee.call(tool, arguments, options).await
    }

    /// The limit that an output may exceed, if it may.
    fn exceeded(&self, entry: &Entry, output: &ToolOutput) -> Option<usize> {
        let limit = output::limit(entry, self.most_tokens?);
        (!output::fits(output, limit)).then_some(limit)
    }

    async fn capped(&self, output: ToolOutput, limit: usize, story: &mut Story<'_>) -> ToolOutput {
        let (output, steps) = output::capped(output, limit, self.spill.as_ref()).await;
        for step in steps {
            story.step(|| step);
        }
        output
    }

    /// A tool that has changed since somebody approved of it is another tool.
    fn is_approved(&self, Planned { entry, tool, .. }: Planned<'_>) -> bool {
        let approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        !entry.needs_person && approved.get(&entry.name).is_some_and(|as_it_was| *as_it_was == tool.raw)
    }

    fn approve(&self, Planned { entry, tool, .. }: Planned<'_>) {
        let mut approved = self.approved.lock().unwrap_or_else(PoisonError::into_inner);
        approved.insert(Arc::clone(&entry.name), tool.raw.clone());
    }
}

/// Arguments that fit the tool, and what had to be done for that.
fn fit<'a>(entry: &Entry, written: &'a Json, story: &mut Story<'_>) -> Result<Arguments<'a>, SchemaViolation> {
    let fitted =
        entry.fit(written).inspect_err(|fault| story.step(|| TraceStep::Misfit { fault: fault.to_string() }))?;
    if fitted.repaired {
        story.step(|| TraceStep::Repaired);
    }
    if let Some(reason) = fitted.unchecked {
        story.step(|| TraceStep::Unchecked { reason });
    }
    if entry.bound().next().is_some() {
        story.step(|| TraceStep::Bound { names: entry.bound().map(str::to_owned).collect() });
    }
    Ok(Arguments { without_bound: entry.seen(&fitted.arguments), sent: fitted.arguments })
}

/// What the tool has become, if it has, where a call that was made for what the model was told still means the same.
async fn as_it_is(entry: &Entry, story: &mut Story<'_>) -> Result<Option<Arc<Tool>>, Stop> {
    let standing = match entry.callee.glance(&entry.tool) {
        Some(standing) => standing,
        None => entry.callee.look(&entry.tool).await,
    };
    match standing {
        ToolFreshness::Same | ToolFreshness::Unknown => Ok(None),
        ToolFreshness::Gone => {
            story.step(|| TraceStep::Drifted { what: "it is gone".to_owned(), called: false });
            Err(Stop::refused(words::gone(entry), "its server does not offer it any more"))
        }
        ToolFreshness::Changed(new) => match drift(&entry.tool, &new) {
            Drift::Harmless(_) => Ok(Some(new)),
            Drift::Breaking(what) => {
                let words = words::drifted(entry, &new, &what);
                story.step(|| TraceStep::Drifted { what: what.clone(), called: false });
                Err(Stop::refused(words, format!("it has changed on its server meanwhile: {what}")))
            }
        },
    }
}

fn annotated(mut output: ToolOutput, hook: &str, words: String, story: &mut Story<'_>) -> ToolOutput {
    output.content.push(Content::text(words.as_str()));
    story.step(|| TraceStep::Annotated { by: hook.to_owned(), words });
    output.rebuilt()
}

impl Wish {
    /// One hook that wants a person asked outweighs all that do not.
    fn or_allow(self, hook: &str) -> Self {
        match self {
            Self::Ask(why) => Self::Ask(why),
            Self::Nothing | Self::Allow(_) => Self::Allow(hook.to_owned()),
        }
    }
}

/// With the standard policy, nobody to ask, and nothing else.
impl Default for Dispatcher {
    fn default() -> Self {
        Self {
            policy: Judge::new(Policy::default()),
            hooks: Vec::new(),
            asker: Arc::new(NoUserPrompt),
            spill: None,
            trace: None,
            most_tokens: Some(DEFAULT_OUTPUT_TOKENS),
            total: None,
            idle: None,
            approved: Mutex::default(),
        }
    }
}

impl Dispatcher {
    /// A dispatcher with a policy.
    pub fn new(policy: Policy) -> Self {
        Self { policy: Judge::new(policy), ..Self::default() }
    }

    /// With one more hook; hooks are run in the order they come.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// With somebody to ask.
    #[must_use]
    pub fn with_asker(mut self, asker: Arc<dyn UserPrompt>) -> Self {
        self.asker = asker;
        self
    }

    /// With a store for outputs that are too long; [`Dispatcher::read_output`] reads in it.
    #[must_use]
    pub fn with_spill(mut self, spill: Spill) -> Self {
        self.spill = Some(spill);
        self
    }

    /// With somebody who hears what happens.
    #[must_use]
    pub fn with_trace(mut self, trace: Arc<dyn TraceSink>) -> Self {
        self.trace = Some(trace);
        self
    }

    /// With another limit for outputs, in tokens of about four characters. A server's own setting counts more, and what
    /// a tool asks for counts most.
    #[must_use]
    pub fn with_most_tokens(mut self, tokens: usize) -> Self {
        self.most_tokens = Some(tokens);
        self
    }

    /// With outputs as long as they are, for a host that shows them to a person.
    #[must_use]
    pub fn with_whole_outputs(mut self) -> Self {
        self.most_tokens = None;
        self
    }

    /// With a limit for whole calls, where their server has none of its own, and one for silence.
    #[must_use]
    pub fn with_limits(mut self, total: Option<Duration>, idle: Option<Duration>) -> Self {
        (self.total, self.idle) = (total, idle);
        self
    }

    /// The tool `read_output`, for the catalog, if long outputs are kept.
    pub fn read_output(&self) -> Option<Arc<Entry>> {
        let most = self.most_tokens.map_or(usize::MAX, |tokens| tokens.saturating_mul(output::CHARACTERS_PER_TOKEN));
        Some(read_output::read_output(self.spill.clone()?, most))
    }
}
