//! Where runs are written down, so that they go on after the process that drove them is gone.

use std::fs::File;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, replace_file};
use wharf_protocol::{BoxFuture, Message, Redactor};

use crate::{InvalidRun, Run};

/// Number of bytes that may be appended to a file before it is rewritten, in addition to four times its initial size.
const REWRITE_SLACK: usize = 1 << 20;

/// Timeout of saving: a hanging disk does not block the run.
const SAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Stores the state of runs.
pub trait Checkpoint: Send + Sync {
    /// Saves the state of a run. It may replace the state that was saved before.
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>>;
}

/// What happens to a run that cannot be saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCheckpointFailure {
    /// The run ends before its next model request or tool call: what is paid for or has an effect needs its record.
    #[default]
    Stop,
    /// The run continues with a warning.
    Warn,
}

/// A file with the state of one run. It starts with the whole run, and changes are appended. Now and then it is
/// replaced as a whole. So the file always contains a readable run, and the time for saving does not grow with the run.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    redactor: Redactor,
    /// The state of the file, if this process wrote it. The writer holds the lock until it is done, even if the caller
    /// stops waiting, so there is only one writer at a time.
    state: Arc<Mutex<Option<FileState>>>,
}

#[derive(Debug)]
struct FileState {
    file: File,
    session_id: String,
    /// Number of saved messages.
    messages: usize,
    /// Digest of the last saved message.
    last: u64,
    /// Size of the file when it was rewritten.
    initial_size: usize,
    /// Number of bytes that were appended since.
    appended: usize,
}

impl CheckpointFile {
    /// Saves to this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), redactor: Redactor::default(), state: Arc::default() }
    }

    /// Removes secrets from what is saved. A resumed run then reads what replaced them.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Reads the run of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or does not contain a run.
    pub async fn read(path: &Path) -> Result<Run, InvalidRun> {
        let file = path.display().to_string();
        let unreadable = |error: String| InvalidRun(format!("cannot read {file}: {error}"));
        let path = path.to_owned();
        let text = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        Run::read(text.map_err(|error| unreadable(error.to_string()))?)
    }
}

impl Checkpoint for CheckpointFile {
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>> {
        let saving = async move {
            let mut state = Arc::clone(&self.state).lock_owned().await;
            // A failed save leaves no state, and the next one rewrites the file.
            let current = state.take().filter(|current| current.can_append(run) && current.is_current(&self.path));
            let text = run.write_since(current.as_ref().map_or(0, |current| current.messages));
            let mut text = self.redactor.redact_json(&text).into_owned();
            text.push('\n');
            let path = self.path.clone();
            let session_id = run.session_id().to_owned();
            let messages = run.messages().len();
            let last = digest(run.messages().last());
            let writing = tokio::task::spawn_blocking(move || {
                let saved = match current {
                    Some(current) => current.append(&text)?,
                    None => FileState {
                        file: replace(&path, &text)?,
                        session_id,
                        messages,
                        last,
                        initial_size: text.len(),
                        appended: 0,
                    },
                };
                *state = Some(FileState { messages, last, ..saved });
                io::Result::Ok(())
            });
            let saved = writing.await.map_err(|error| error.to_string())?;
            saved.map_err(|error| format!("{}: {error}", self.path.display()))
        };
        Box::pin(async move {
            let late = |_| Err(format!("{}: writing takes longer than {SAVE_TIMEOUT:?}", self.path.display()));
            tokio::time::timeout(SAVE_TIMEOUT, saving).await.unwrap_or_else(late)
        })
    }
}

impl FileState {
    /// Returns whether the run continues the saved one, and the file has room for changes.
    fn can_append(&self, run: &Run) -> bool {
        let last = self.messages.checked_sub(1).and_then(|last| run.messages().get(last));
        let is_same = self.session_id == run.session_id() && self.last == digest(last);
        is_same && self.appended <= REWRITE_SLACK + 4 * self.initial_size
    }

    /// Returns whether the file was not replaced by another one.
    fn is_current(&self, path: &Path) -> bool {
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        match (self.file.metadata().map(id), std::fs::metadata(path).map(id)) {
            (Ok(ours), Ok(current)) => ours == current,
            _ => false,
        }
    }

    fn append(mut self, text: &str) -> io::Result<Self> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        Ok(Self { appended: self.appended + text.len(), ..self })
    }
}

/// Identifies a message: two runs may have the same id.
fn digest(message: Option<&Message>) -> u64 {
    let text = message.and_then(|message| serde_json::to_string(message).ok());
    BuildHasherDefault::<DefaultHasher>::default().hash_one(text)
}

/// Only the owner may read the file: it holds the whole conversation.
fn replace(path: &Path, text: &str) -> io::Result<File> {
    let options = ReplaceOptions {
        mode: FileMode::Private,
        durability: Durability::Contents,
        folder: MissingFolder::Fail,
        follow_symlinks: false,
    };
    replace_file(path, text.as_bytes(), options)
}
