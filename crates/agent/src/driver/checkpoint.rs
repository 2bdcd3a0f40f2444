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
use wharf_protocol::{BoxFuture, Message};

use crate::{InvalidRun, Run};

/// How much may be added to a file before it is written anew, besides four times what it began with.
const SLACK: usize = 1 << 20;

/// How long writing may take: a disk that hangs does not keep a run from going on.
const LONGEST: Duration = Duration::from_secs(30);

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
    /// What is in it, as far as it is from us. Whoever writes holds this, also when nobody waits for it any more: two never
    /// write at once.
    written: Arc<Mutex<Option<Written>>>,
}

#[derive(Debug)]
struct Written {
    file: File,
    session_id: String,
    /// How many messages of it, and what the last of them was.
    messages: usize,
    last: u64,
    /// How long it was as a whole, and what has been added.
    whole: usize,
    added: usize,
}

impl CheckpointFile {
    /// Writes to this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), written: Arc::default() }
    }

    /// Reads the run in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no run.
    pub async fn read(path: &Path) -> Result<Run, InvalidRun> {
        let shown = path.display().to_string();
        let unreadable = |error: String| InvalidRun(format!("{shown} cannot be read: {error}"));
        let path = path.to_owned();
        let text = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        Run::read(text.map_err(|error| unreadable(error.to_string()))?)
    }
}

impl Checkpoint for CheckpointFile {
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>> {
        let saving = async move {
            let mut turn = Arc::clone(&self.written).lock_owned().await;
            // Whoever fails to write leaves nothing here, and the next one begins anew.
            let written = turn.take().filter(|written| written.can_take(run) && written.is_there(&self.path));
            let mut text = run.write_since(written.as_ref().map_or(0, |written| written.messages));
            text.push('\n');
            let (path, session_id, messages) = (self.path.clone(), run.session_id().to_owned(), run.messages().len());
            let last = digest(run.messages().last());
            let writing = tokio::task::spawn_blocking(move || {
                let written = match written {
                    Some(written) => written.add(&text)?,
                    None => Written {
                        file: replace(&path, &text)?,
                        session_id,
                        messages,
                        last,
                        whole: text.len(),
                        added: 0,
                    },
                };
                *turn = Some(Written { messages, last, ..written });
                io::Result::Ok(())
            });
            let written = writing.await.map_err(|error| error.to_string())?;
            written.map_err(|error| format!("{}: {error}", self.path.display()))
        };
        Box::pin(async move {
            let late = |_| Err(format!("{}: it takes longer than {LONGEST:?}", self.path.display()));
            tokio::time::timeout(LONGEST, saving).await.unwrap_or_else(late)
        })
    }
}

impl Written {
    fn can_take(&self, run: &Run) -> bool {
        let last = self.messages.checked_sub(1).and_then(|last| run.messages().get(last));
        let is_same = self.session_id == run.session_id() && self.last == digest(last);
        is_same && self.added <= SLACK + 4 * self.whole
    }

    /// Whether the file is still the one at its place.
    fn is_there(&self, path: &Path) -> bool {
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let (ours, there) = (self.file.metadata().map(id), std::fs::metadata(path).map(id));
        matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
    }

    fn add(mut self, text: &str) -> io::Result<Self> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        Ok(Self { added: self.added + text.len(), ..self })
    }
}

/// Tells a message from others: a run may have the name of another one.
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
