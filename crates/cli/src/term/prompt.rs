//! Questions on the terminal: whether a tool may be called, and values that a server requests.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;
use wharf::agent::Model;
use wharf::fleet::dispatch::{
    ApprovalAnswer, NoUserPrompt, Question, QuestionKind, TimedPrompt, UserAnswer, UserPrompt,
};
use wharf::{BoxFuture, ClientCapabilities, Refusal};

use super::approval::approve;
use super::elicitation::fill_in;
use super::sampling;
use super::text::is_dumb;

pub(crate) use super::elicitation::SecretFields;

/// The user at the terminal. Asks one question at a time.
pub(crate) struct TerminalPrompt {
    turn: Semaphore,
    secret_fields: SecretFields,
    /// The model for completions that servers request.
    model: Option<Arc<dyn Model>>,
}

/// Whether a question is on the screen: then nothing else may be drawn there.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Whether the user is being asked.
pub(crate) fn is_asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// Marks a question as being on the screen for as long as it lives.
struct Asking;

impl Asking {
    fn begin() -> Self {
        ASKING.store(true, Ordering::Relaxed);
        // A progress line may be where the question goes.
        if !is_dumb() {
            let mut stderr = std::io::stderr();
            let _ = stderr.write_all(b"\r\x1b[2K").and_then(|()| stderr.flush());
        }
        Self
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.store(false, Ordering::Relaxed);
    }
}

/// Whether stdin and stderr are terminals, so that a user can be asked.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns a prompt on the terminal, or one that declines everything where none exists. With a model, servers may request
/// completions, which the user reviews.
pub(crate) fn user_prompt(secret_fields: SecretFields, model: Option<Arc<dyn Model>>) -> Arc<dyn UserPrompt> {
    if is_interactive() {
        let terminal = TerminalPrompt { turn: Semaphore::new(1), secret_fields, model };
        Arc::new(TimedPrompt::new(Arc::new(terminal)))
    } else {
        Arc::new(NoTerminal)
    }
}

/// Declines everything, and declares to servers that it could answer. Some list tools for such clients only.
pub(crate) struct DeclineAll;

impl UserPrompt for DeclineAll {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        NoUserPrompt.ask(question)
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: true, ..ClientCapabilities::default() }
    }
}

/// Declines everything, and says how to approve a call without a terminal.
struct NoTerminal;

impl UserPrompt for NoTerminal {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        let QuestionKind::Approve(request) = &question.kind else { return NoUserPrompt.ask(question) };
        let reason = format!(
            "it needs approval, and there is no terminal to ask at; --allow {} allows it, unless a rule demands approval",
            request.name
        );
        Box::pin(std::future::ready(UserAnswer::Approval(ApprovalAnswer::No(reason))))
    }

    fn capabilities(&self) -> ClientCapabilities {
        NoUserPrompt.capabilities()
    }
}

impl UserPrompt for TerminalPrompt {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        Box::pin(async move {
            let _turn = self.turn.acquire().await;
            let _asking = Asking::begin();
            match question.kind {
                QuestionKind::Approve(request) => UserAnswer::Approval(approve(&request).await),
                QuestionKind::Elicit { server, elicitation } => {
                    UserAnswer::Form(fill_in(&server, &elicitation, self.secret_fields).await)
                }
                QuestionKind::Sample { server, request } => UserAnswer::Sample(match &self.model {
                    Some(model) => sampling::answer(&server, &request, &**model).await,
                    None => Err(Refusal("this client has no model for sampling".to_owned())),
                }),
            }
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: self.model.is_some(), ..ClientCapabilities::default() }
    }
}
