//! Where runs are written down, so that they go on after the process that drove them is gone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use wharf_protocol::BoxFuture;

use crate::{InvalidRun, Run};

/// How much may be added to a file before it is written anew, besides four times what it began with.
const SLACK: usize = 1 << 20;

/// Writes runs down.
pub trait Checkpoint: Send + Sync {
    /// Writes down how far a run is. What was written before may be forgotten.
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>>;
}

/// A file that holds one run. It begins with all of it, and what comes is added line by line; now and then it is replaced
/// as a whole. So there is always a run in it that can be read, and writing takes no longer the longer a run is.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    /// What is in it, as far as it is from us.
    written: Mutex<Option<Written>>,
}

#[derive(Debug)]
struct Written {
    file: File,
    session_id: String,
    /// How many messages of it.
    messages: usize,
    /// How long it was as a whole, and what has been added.
    whole: usize,
    added: usize,
}

impl CheckpointFile {
    /// Writes to this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), written: Mutex::new(None) }
    }

    /// Reads the run in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no run.
    pub async fn read(path: &Path) -> Result<Run, InvalidRun> {
        let shown = path.display().to_string();
        let unreadable = |error: String| InvalidRun(format!("{shown} cannot be read: {error}"));
        let path = path.to_owned();
        let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        Run::read(&text.map_err(|error| unreadable(error.to_string()))?)
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Option<Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checkpoint for CheckpointFile {
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            // Whoever fails to write leaves nothing here, and the next one begins anew.
            let written = self.written().take().filter(|written| written.can_take(run));
            let mut text = run.write_since(written.as_ref().map_or(0, |written| written.messages));
            text.push('\n');
            let (path, session_id, messages) = (self.path.clone(), run.session_id().to_owned(), run.messages().len());
            let writing = tokio::task::spawn_blocking(move || match written {
                Some(written) => written.add(&text, messages),
                None => replace(&path, &text).map(|file| {
                    let whole = text.len();
                    Written { file, session_id, messages, whole, added: 0 }
                }),
            });
            let written = writing.await.map_err(|error| error.to_string())?;
            *self.written() = Some(written.map_err(|error| format!("{}: {error}", self.path.display()))?);
            Ok(())
        })
    }
}

impl Written {
    fn can_take(&self, run: &Run) -> bool {
        let is_same = self.session_id == run.session_id() && self.messages <= run.messages().len();
        is_same && self.added <= SLACK + 4 * self.whole
    }

    fn add(mut self, text: &str, messages: usize) -> io::Result<Self> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        Ok(Self { messages, added: self.added + text.len(), ..self })
    }
}

/// Only we may read it: it holds whatever was said.
fn replace(path: &Path, text: &str) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    std::fs::rename(&new, path)?;
    Ok(file)
}
