//! Questions to the user, or to code that answers for the user: approvals, forms, and sampling requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wharf_client::{
    BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Notification, PausableClock, Refusal, Root,
};
use wharf_protocol::{Json, ServerName};

/// Answers questions for the user.
pub trait UserPrompt: Send + Sync {
    /// Asks a question and waits for the answer.
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer>;

    /// The capabilities to declare to servers.
    fn capabilities(&self) -> ClientCapabilities;

    /// Returns for how long the user has been asked so far; see [`TimedPrompt`].
    fn time_asked(&self) -> Duration {
        Duration::ZERO
    }
}

/// A user prompt that measures how long its questions take, so that the durations of calls exclude this time.
pub struct TimedPrompt {
    prompt: Arc<dyn UserPrompt>,
    clock: PausableClock,
}

impl TimedPrompt {
    /// Measures a prompt.
    pub fn new(prompt: Arc<dyn UserPrompt>) -> Self {
        Self { prompt, clock: PausableClock::default() }
    }
}

impl UserPrompt for TimedPrompt {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        Box::pin(async {
            let _paused = self.clock.pause();
            self.prompt.ask(question).await
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.prompt.capabilities()
    }

    fn time_asked(&self) -> Duration {
        self.clock.paused()
    }
}

/// One question to the user.
#[derive(Clone, Debug)]
pub struct Question {
    /// A number that is unique within this process.
    pub id: u64,
    /// The question itself.
    pub kind: QuestionKind,
}

/// The kinds of questions.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// May the tool be called? Answered by [`UserAnswer::Approval`].
    Approve(ApprovalRequest),
    /// A server requests input from the user. Answered by [`UserAnswer::Form`].
    Elicit {
        /// The server's name.
        server: ServerName,
        /// The request.
        elicitation: Elicitation,
    },
    /// A server requests a completion of a model. Answered by [`UserAnswer::Sample`].
    Sample {
        /// The server's name.
        server: ServerName,
        /// The request, as the protocol defines it.
        request: Json,
    },
}

/// A call that needs approval.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The name that the model called.
    pub name: Arc<str>,
    /// The tool's server, if it has one.
    pub server: Option<ServerName>,
    /// The tool's name on its server.
    pub tool: Arc<str>,
    /// The arguments, without bound ones.
    pub arguments: Json,
    /// The rule, hook or mode that requires approval.
    pub why: String,
}

/// An answer to a [`Question`].
#[derive(Clone, Debug)]
pub enum UserAnswer {
    /// The answer to [`QuestionKind::Approve`].
    Approval(ApprovalAnswer),
    /// The answer to [`QuestionKind::Elicit`].
    Form(ElicitationAnswer),
    /// The answer to [`QuestionKind::Sample`].
    Sample(Result<Json, Refusal>),
}

/// The answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes, for this call.
    Yes,
    /// Yes, for all calls of this tool in this run.
    YesAlways,
    /// No, for this reason.
    No(String),
    /// No user can be asked.
    Unavailable,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Question {
    pub(crate) fn new(kind: QuestionKind) -> Self {
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), kind }
    }
}

impl UserAnswer {
    /// Converts to an approval; an answer of another kind is a no.
    pub fn into_approval(self) -> ApprovalAnswer {
        match self {
            Self::Approval(approval) => approval,
            _ => ApprovalAnswer::No("the answer has another kind than the question".to_owned()),
        }
    }
}

/// No user: approvals, forms and sampling requests are refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUserPrompt;

impl UserPrompt for NoUserPrompt {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        let answer = match question.kind {
            QuestionKind::Approve(_) => UserAnswer::Approval(ApprovalAnswer::Unavailable),
            QuestionKind::Elicit { .. } => UserAnswer::Form(ElicitationAnswer::Decline),
            QuestionKind::Sample { .. } => {
                UserAnswer::Sample(Err(Refusal("this host does not support sampling".to_owned())))
            }
        };
        Box::pin(std::future::ready(answer))
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }
}

/// A session's host that passes the server's requests to a [`UserPrompt`] and its notifications to a function.
pub struct PromptingHost {
    server: ServerName,
    user_prompt: Arc<dyn UserPrompt>,
    roots: Vec<Root>,
    notice: Box<dyn Fn(Notification) + Send + Sync>,
}

/// Creates the host of one server's session.
pub fn host(
    server: ServerName,
    user_prompt: Arc<dyn UserPrompt>,
    notice: impl Fn(Notification) + Send + Sync + 'static,
) -> PromptingHost {
    PromptingHost { server, user_prompt, roots: Vec::new(), notice: Box::new(notice) }
}

impl PromptingHost {
    /// Sets the directories that the server may use. Without any, the server cannot ask for them.
    #[must_use]
    pub fn with_roots(mut self, roots: Vec<Root>) -> Self {
        self.roots = roots;
        self
    }
}

impl Host for PromptingHost {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { roots: !self.roots.is_empty(), ..self.user_prompt.capabilities() }
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }

    fn elicit(&self, elicitation: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(async {
            let question = Question::new(QuestionKind::Elicit { server: self.server.clone(), elicitation });
            match self.user_prompt.ask(question).await {
                UserAnswer::Form(answer) => answer,
                _ => ElicitationAnswer::Decline,
            }
        })
    }

    fn sample(&self, request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        Box::pin(async {
            let question = Question::new(QuestionKind::Sample { server: self.server.clone(), request });
            match self.user_prompt.ask(question).await {
                UserAnswer::Sample(answer) => answer,
                _ => Err(Refusal("the answer has another kind than the question".to_owned())),
            }
        })
    }

    fn notify(&self, notice: Notification) {
        (self.notice)(notice);
    }
}
