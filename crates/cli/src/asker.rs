//! Questions on the terminal: whether a tool may be called, and what a server wants to know.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use wharf::fleet::dispatch::{
    ApprovalAnswer, ApprovalRequest, NoUserPrompt, Question, QuestionKind, UserAnswer, UserPrompt,
};
use wharf::{BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Refusal, ServerName, schema_accepts};

use crate::render;

/// Somebody at a terminal. One question at a time.
pub(crate) struct Terminal {
    turn: Semaphore,
}

/// Whether a question is on the screen: then nothing else may be drawn there.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Whether somebody is being asked.
pub(crate) fn is_asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// As long as it lives, somebody is being asked.
struct Asking;

impl Asking {
    fn begin() -> Self {
        ASKING.store(true, Ordering::Relaxed);
        // Whatever moved on this line is in the way.
        if !render::is_dumb() {
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

/// Whether there is a person at a terminal.
pub(crate) fn is_anybody_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Whoever is there: a person if there is a terminal to ask at, and nobody otherwise.
pub(crate) fn whoever_is_there() -> Arc<dyn UserPrompt> {
    if is_anybody_there() { Arc::new(Terminal { turn: Semaphore::new(1) }) } else { Arc::new(NoTerminal) }
}

/// No terminal: approvals are refused with a hint, and everything else as without a user.
struct NoTerminal;

impl UserPrompt for NoTerminal {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        let QuestionKind::Approve(request) = &question.kind else { return NoUserPrompt.ask(question) };
        let reason = format!(
            "it needs approval and nobody can be asked here; --allow {} allows it, unless a rule wants it asked about",
            request.name
        );
        Box::pin(std::future::ready(UserAnswer::Approval(ApprovalAnswer::No(reason))))
    }

    fn capabilities(&self) -> ClientCapabilities {
        NoUserPrompt.capabilities()
    }
}

impl UserPrompt for Terminal {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        Box::pin(async move {
            let _turn = self.turn.acquire().await;
            let _asking = Asking::begin();
            match question.kind {
                QuestionKind::Approve(request) => UserAnswer::Approval(approve(&request).await),
                QuestionKind::Elicit { server, elicitation } => UserAnswer::Form(fill_in(&server, &elicitation).await),
                QuestionKind::Sample { .. } => {
                    UserAnswer::Sample(Err(Refusal("there is no model to ask here".to_owned())))
                }
            }
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, ..ClientCapabilities::default() }
    }
}

async fn approve(request: &ApprovalRequest) -> ApprovalAnswer {
    let arguments = render::brief(request.arguments.as_str(), 400);
    let question = format!("call {} with {arguments}? ({}) [y]es, [a]lways, [N]o: ", request.name, request.why);
    match line(question).await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ApprovalAnswer::Yes,
        Some("a" | "A" | "always") => ApprovalAnswer::YesAlways,
        _ => ApprovalAnswer::No("the person said no".to_owned()),
    }
}

/// Asks for every field of a form. What is not text has to be JSON; an empty line takes the default, or leaves it out.
async fn fill_in(server: &ServerName, elicitation: &Elicitation) -> ElicitationAnswer {
    render::note(&format!("{server} asks: {}", elicitation.message));
    if let Some(url) = &elicitation.url {
        render::note(&format!("it wants you to visit {url}"));
        return match line("visited it? [y/N]: ".to_owned()).await.as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => ElicitationAnswer::Accept(None),
            Some(_) => ElicitationAnswer::Decline,
            None => ElicitationAnswer::Cancel,
        };
    }
    let schema = elicitation.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let mut filled =
        elicitation.defaults().to_value().ok().and_then(|value| value.as_object().cloned()).unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        match answer(name, field, &mut filled).await {
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

/// Asks for one field; `None` if nobody is there any more.
async fn answer(name: &str, field: &Value, filled: &mut Map<String, Value>) -> Option<()> {
    let title = field["title"].as_str().or(field["description"].as_str()).map(|title| format!(" ({title})"));
    let default = filled.get(name).map(|value| format!(" [{value}]"));
    let said = line(format!("  {name}{}{}: ", title.unwrap_or_default(), default.unwrap_or_default())).await?;
    let said = said.trim();
    if !said.is_empty() {
        let text = || Value::String(said.to_owned());
        let value = if schema_accepts(field, "string") { text() } else { said.parse().unwrap_or_else(|_| text()) };
        filled.insert(name.to_owned(), value);
    }
    Some(())
}

/// Asks for a line; `None` at the end of the input. It is read elsewhere, so that Ctrl-C is heard meanwhile.
async fn line(question: String) -> Option<String> {
    let read = move || {
        let mut stderr = std::io::stderr();
        let _ = write!(stderr, "{}", render::plain(&question));
        let _ = stderr.flush();
        let mut text = String::new();
        std::io::stdin().read_line(&mut text).ok().filter(|read| *read > 0).map(|_| text)
    };
    tokio::task::spawn_blocking(read).await.ok().flatten()
}
