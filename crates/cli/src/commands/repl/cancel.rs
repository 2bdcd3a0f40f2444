//! Questions that end with the call that Ctrl-C cancels. Otherwise they would wait for the lines typed next.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use wharf::fleet::dispatch::{ApprovalAnswer, Question, QuestionKind, UserAnswer, UserPrompt};
use wharf::{BoxFuture, ClientCapabilities, ElicitationAnswer, Refusal};

/// A user prompt whose questions can be canceled.
pub(super) struct CancellablePrompt {
    prompt: Arc<dyn UserPrompt>,
    /// Changes when a call is canceled.
    canceled: watch::Sender<()>,
}

impl CancellablePrompt {
    pub(super) fn new(prompt: Arc<dyn UserPrompt>) -> Arc<Self> {
        Arc::new(Self { prompt, canceled: watch::Sender::new(()) })
    }

    /// Cancels all questions on the screen.
    pub(super) fn cancel(&self) {
        self.canceled.send_replace(());
    }
}

impl UserPrompt for CancellablePrompt {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        let reason = || "the user canceled the call".to_owned();
        let answer = match &question.kind {
            QuestionKind::Approve(_) => UserAnswer::Approval(ApprovalAnswer::No(reason())),
            QuestionKind::Elicit { .. } => UserAnswer::Form(ElicitationAnswer::Cancel),
            QuestionKind::Sample { .. } => UserAnswer::Sample(Err(Refusal(reason()))),
        };
        let mut canceled = self.canceled.subscribe();
        Box::pin(async move {
            tokio::select! {
                given = self.prompt.ask(question) => given,
                _ = canceled.changed() => answer,
            }
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.prompt.capabilities()
    }

    fn time_asked(&self) -> Duration {
        self.prompt.time_asked()
    }
}
