//! Questions on the terminal: whether a tool may be called, and values that a server requests.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use wharf::fleet::dispatch::{
    ApprovalAnswer, ApprovalRequest, NoUserPrompt, Question, QuestionKind, UserAnswer, UserPrompt,
};
use wharf::{BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Refusal, ServerName, schema_accepts};

use super::message::note;
use super::text::{brief, is_dumb, plain};

/// How much of a call's arguments an approval question shows.
const ARGUMENTS_CHARS: usize = 400;

/// The user at the terminal. Asks one question at a time.
pub(crate) struct TerminalPrompt {
    turn: Semaphore,
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

/// Returns a prompt on the terminal, or one that declines everything where none exists.
pub(crate) fn user_prompt() -> Arc<dyn UserPrompt> {
    if is_interactive() { Arc::new(TerminalPrompt { turn: Semaphore::new(1) }) } else { Arc::new(NoTerminal) }
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
                QuestionKind::Elicit { server, elicitation } => UserAnswer::Form(fill_in(&server, &elicitation).await),
                QuestionKind::Sample { .. } => {
                    UserAnswer::Sample(Err(Refusal("this client has no model for sampling".to_owned())))
                }
            }
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, ..ClientCapabilities::default() }
    }
}

async fn approve(request: &ApprovalRequest) -> ApprovalAnswer {
    let arguments = brief(request.arguments.as_str(), ARGUMENTS_CHARS);
    let question = format!("call {} with {arguments}? ({}) [y]es, [a]lways, [N]o: ", request.name, request.why);
    match line(question).await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ApprovalAnswer::Yes,
        Some("a" | "A" | "always") => ApprovalAnswer::YesAlways,
        _ => ApprovalAnswer::No("the user declined".to_owned()),
    }
}

/// Asks for every field of a form. An empty line selects the default or omits the field.
async fn fill_in(server: &ServerName, elicitation: &Elicitation) -> ElicitationAnswer {
    note(&format!("{server} asks: {}", elicitation.message));
    if let Some(url) = &elicitation.url {
        note(&format!("visit {url}"));
        return match line("done? [y/N]: ".to_owned()).await.as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => ElicitationAnswer::Accept(None),
            Some(_) => ElicitationAnswer::Decline,
            None => ElicitationAnswer::Cancel,
        };
    }
    let schema = elicitation.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let mut filled =
        elicitation.defaults().to_value().ok().and_then(|value| value.as_object().cloned()).unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        match fill_in_field(name, field, &mut filled).await {
            Some(()) => {}
            None => return ElicitationAnswer::Cancel,
        }
    }
    match line("send this? [y/N]: ".to_owned()).await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ElicitationAnswer::Accept(Some(Value::Object(filled).into())),
        Some(_) => ElicitationAnswer::Decline,
        None => ElicitationAnswer::Cancel,
    }
}

/// Asks for one field; `None` at the end of the input. A field that does not accept text is parsed as JSON.
async fn fill_in_field(name: &str, field: &Value, filled: &mut Map<String, Value>) -> Option<()> {
    let title = field["title"].as_str().or(field["description"].as_str()).map(|title| format!(" ({title})"));
    let default = filled.get(name).map(|value| format!(" [{value}]"));
    let typed = line(format!("  {name}{}{}: ", title.unwrap_or_default(), default.unwrap_or_default())).await?;
    let typed = typed.trim();
    if !typed.is_empty() {
        let text = || Value::String(typed.to_owned());
        let value = if schema_accepts(field, "string") { text() } else { typed.parse().unwrap_or_else(|_| text()) };
        filled.insert(name.to_owned(), value);
    }
    Some(())
}

/// Reads a line; `None` at the end of the input. A blocking thread reads it, so that Ctrl-C still works.
async fn line(question: String) -> Option<String> {
    let read = move || {
        let mut stderr = std::io::stderr();
        let _ = write!(stderr, "{}", plain(&question));
        let _ = stderr.flush();
        let mut text = String::new();
        let bytes = std::io::stdin().read_line(&mut text).ok()?;
        (bytes > 0).then_some(text)
    };
    tokio::task::spawn_blocking(read).await.ok().flatten()
}
