//! Questions to a person, or to whoever answers for one: approval, forms, and a model's words for a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wharf_client::{BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Notification, Refusal, Root};
use wharf_protocol::{Json, ServerName};

/// Whoever is asked.
pub trait UserPrompt: Send + Sync {
    /// Asks, and waits for the answer.
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer>;

    /// What servers are told that they may ask for.
    fn abilities(&self) -> ClientCapabilities;
}

/// One question.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its number; no other question of this process has it.
    pub id: u64,
    /// What is asked.
    pub asked: QuestionKind,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// Whether a tool may be called. Answered by [`UserAnswer::ApprovalAnswer`].
    Approve(ApprovalRequest),
    /// A server wants something from a person. Answered by [`UserAnswer::Form`].
    Elicit {
        /// The server.
        server: ServerName,
        /// What it wants.
        elicitation: Elicitation,
    },
    /// A server wants a model's answer. Answered by [`UserAnswer::Sample`].
    Sample {
        /// The server.
        server: ServerName,
        /// What it asks, in the protocol's own shape.
        request: Json,
    },
}

/// A call that waits for approval.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The name the model called.
    pub name: Arc<str>,
    /// The server, for a tool that lives on one.
    pub server: Option<ServerName>,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The arguments.
    pub arguments: Json,
    /// Why it is asked.
    pub why: String,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum UserAnswer {
    /// To [`QuestionKind::Approve`].
    Approval(ApprovalAnswer),
    /// To [`QuestionKind::Elicit`].
    Form(ElicitationAnswer),
    /// To [`QuestionKind::Sample`].
    Sample(Result<Json, Refusal>),
}

/// Whether a tool may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes, this once.
    Yes,
    /// Yes, and this tool need not be asked about again in this run.
    YesAlways,
    /// No, and why not.
    No(String),
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Question {
    pub(crate) fn new(asked: QuestionKind) -> Self {
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), asked }
    }
}

impl UserAnswer {
    /// As an approval; an answer to another question is a no.
    pub fn into_approval(self) -> ApprovalAnswer {
        match self {
            Self::Approval(approval) => approval,
            _ => ApprovalAnswer::No("the answer was to another question".to_owned()),
        }
    }
}

/// Nobody: what would have to be asked about is not done.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUserPrompt;

impl UserPrompt for NoUserPrompt {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        let answer = match question.asked {
            QuestionKind::Approve(_) => {
                UserAnswer::Approval(ApprovalAnswer::No("it needs approval, and no user can be asked".to_owned()))
            }
            QuestionKind::Elicit { .. } => UserAnswer::Form(ElicitationAnswer::Decline),
            QuestionKind::Sample { .. } => {
                UserAnswer::Sample(Err(Refusal("this host has no model to offer".to_owned())))
            }
        };
        Box::pin(std::future::ready(answer))
    }

    fn abilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }
}

/// A session's host that passes what its server asks on to an [`UserPrompt`], and what it tells to a function.
pub struct PromptingHost {
    server: ServerName,
    asker: Arc<dyn UserPrompt>,
    roots: Vec<Root>,
    notice: Box<dyn Fn(Notification) + Send + Sync>,
}

/// The host of one server's session.
pub fn host(
    server: ServerName,
    asker: Arc<dyn UserPrompt>,
    notice: impl Fn(Notification) + Send + Sync + 'static,
) -> PromptingHost {
    PromptingHost { server, asker, roots: Vec::new(), notice: Box::new(notice) }
}

impl PromptingHost {
    /// With folders that the server may work in.
    #[must_use]
    pub fn with_roots(mut self, roots: Vec<Root>) -> Self {
        self.roots = roots;
        self
    }
}

impl Host for PromptingHost {
    fn abilities(&self) -> ClientCapabilities {
        let mut abilities = self.asker.abilities();
        abilities.roots |= !self.roots.is_empty();
        abilities
    }

    fn elicit(&self, elicitation: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(async {
            let question = Question::new(QuestionKind::Elicit { server: self.server.clone(), elicitation });
            match self.asker.ask(question).await {
                UserAnswer::Form(answer) => answer,
                _ => ElicitationAnswer::Decline,
            }
        })
    }

    fn sample(&self, request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        Box::pin(async {
            let question = Question::new(QuestionKind::Sample { server: self.server.clone(), request });
            match self.asker.ask(question).await {
                UserAnswer::Sample(answer) => answer,
                _ => Err(Refusal("the answer was to another question".to_owned())),
            }
        })
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }

    fn notice(&self, notice: Notification) {
        (self.notice)(notice);
    }
}
