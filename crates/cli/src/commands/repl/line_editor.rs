//! The line editor: rustyline with our completion and history.

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};

use super::history::{History, MAX_LINES};
use super::words::SharedWords;

/// What the user typed.
pub(super) enum TypedLine {
    Line(String),
    /// Ctrl-C: the line is dropped.
    Dropped,
    /// Ctrl-D, or the end of the input.
    End,
    Failed(String),
}

/// Reads lines at a terminal.
pub(super) struct LineEditor {
    /// `None` while a thread reads.
    editor: Option<Editor<ReplHelper, MemHistory>>,
    history: History,
}

struct ReplHelper(SharedWords);

impl LineEditor {
    /// Creates an editor; `None` if the terminal cannot be used.
    pub(super) fn new(words: SharedWords, history: History) -> Option<Self> {
        let config = Config::builder().completion_type(CompletionType::List).behavior(Behavior::PreferTerm);
        let config = config.max_history_size(MAX_LINES).ok()?.build();
        let mut editor = Editor::with_history(config.clone(), MemHistory::with_config(&config)).ok()?;
        editor.set_helper(Some(ReplHelper(words)));
        for line in history.lines() {
            let _ = editor.add_history_entry(line);
        }
        Some(Self { editor: Some(editor), history })
    }

    /// Reads a line on a blocking thread. If the future is dropped, the editor cannot be used any more.
    pub(super) async fn read(&mut self, prompt: String) -> TypedLine {
        let Some(mut editor) = self.editor.take() else { return TypedLine::End };
        let read = move || {
            let line = editor.readline(&prompt);
            (editor, line)
        };
        let (mut editor, line) = match tokio::task::spawn_blocking(read).await {
            Ok(read) => read,
            Err(error) => return TypedLine::Failed(error.to_string()),
        };
        let typed = match line {
            Ok(line) => {
                // The lines of this session stay available, also those that are not stored.
                let _ = editor.add_history_entry(line.as_str());
                self.history.add(&line);
                TypedLine::Line(line)
            }
            Err(ReadlineError::Interrupted) => TypedLine::Dropped,
            Err(ReadlineError::Eof) => TypedLine::End,
            Err(error) => TypedLine::Failed(error.to_string()),
        };
        self.editor = Some(editor);
        typed
    }
}

impl Completer for ReplHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.0.complete(&line[..pos]))
    }
}

impl Hinter for ReplHelper {
    type Hint = String;
}

impl Highlighter for ReplHelper {}

impl Validator for ReplHelper {}

impl Helper for ReplHelper {}
