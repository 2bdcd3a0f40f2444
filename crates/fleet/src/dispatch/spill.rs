//! Stores outputs that are too long for a model, so that it can read them in parts.

mod folder;

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folder::SpillFolder;
use tempfile::NamedTempFile;

/// The default capacity, in bytes.
const DEFAULT_CAPACITY: u64 = 256 * 1024 * 1024;

/// A store of long texts in files that only the current user can read. Dropping it removes them. What a process could not
/// remove because it was killed, the next store in the same folder removes.
#[derive(Clone, Debug)]
pub struct Spill(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: SpillFolder,
    capacity: u64,
    stored: Mutex<Stored>,
}

#[derive(Debug, Default)]
struct Stored {
    files: VecDeque<StoredFile>,
    bytes: u64,
    last_number: u64,
}

#[derive(Debug)]
struct StoredFile {
    number: u64,
    bytes: u64,
    file: Arc<NamedTempFile>,
}

/// Why a stored output cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The id is unknown.
    #[error("unknown output `{0}`")]
    Unknown(String),
    /// The output was removed to make room for newer ones.
    #[error("the output `{0}` was removed to make room for newer ones; call the tool again")]
    Dropped(String),
    /// The file cannot be read.
    #[error("cannot read the output `{id}`: {reason}")]
    Broken {
        /// The id of the output.
        id: String,
        /// The error of the file system.
        reason: String,
    },
}

/// A part of a stored text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) text: String,
    /// The first character.
    pub(super) from: usize,
    /// The length of the whole text in characters.
    pub(super) of: usize,
}

impl Spill {
    /// Creates a store in a new directory inside `folder`.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Self::with_capacity(folder, DEFAULT_CAPACITY)
    }

    /// Creates a store with a capacity in bytes. The oldest texts make room for new ones.
    pub fn with_capacity(folder: &Path, capacity: u64) -> io::Result<Self> {
        let folder = SpillFolder::create(folder)?;
        Ok(Self(Arc::new(Inner { folder, capacity, stored: Mutex::default() })))
    }

    /// Stores a text and returns its id, or the reason why it is not stored.
    pub async fn store(&self, text: String) -> Result<String, String> {
        let inner = Arc::clone(&self.0);
        let stored = tokio::task::spawn_blocking(move || inner.store(&text)).await;
        stored.unwrap_or_else(|error| Err(error.to_string()))
    }

    pub(super) async fn read(&self, id: &str, from: usize, length: usize) -> Result<Range, ReadError> {
        let inner = Arc::clone(&self.0);
        let owned_id = id.to_owned();
        let read = tokio::task::spawn_blocking(move || inner.read(&owned_id, from, length)).await;
        read.unwrap_or_else(|error| Err(ReadError::Broken { id: id.to_owned(), reason: error.to_string() }))
    }
}

impl Inner {
    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, text: &str) -> Result<String, String> {
        let bytes = text.len() as u64;
        if bytes > self.capacity {
            return Err(format!("larger than the capacity of {} bytes", self.capacity));
        }
        let written = NamedTempFile::new_in(self.folder.path()).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            Ok(file)
        });
        let file = Arc::new(written.map_err(|error| error.to_string())?);
        let mut stored = self.stored();
        while stored.bytes + bytes > self.capacity {
            let Some(oldest) = stored.files.pop_front() else { break };
            stored.bytes -= oldest.bytes;
        }
        stored.last_number += 1;
        stored.bytes += bytes;
        let number = stored.last_number;
        stored.files.push_back(StoredFile { number, bytes, file });
        Ok(format!("out-{number}"))
    }

    fn read(&self, id: &str, from: usize, length: usize) -> Result<Range, ReadError> {
        let number = id.strip_prefix("out-").and_then(|number| number.parse::<u64>().ok());
        let file = {
            let stored = self.stored();
            let known = number.filter(|number| (1..=stored.last_number).contains(number));
            let Some(number) = known else { return Err(ReadError::Unknown(id.to_owned())) };
            let found = stored.files.iter().find(|file| file.number == number);
            Arc::clone(&found.ok_or_else(|| ReadError::Dropped(id.to_owned()))?.file)
        };
        let broken = |error: io::Error| ReadError::Broken { id: id.to_owned(), reason: error.to_string() };
        let mut text = String::new();
        file.reopen().and_then(|mut file| file.read_to_string(&mut text)).map_err(broken)?;
        let of = text.chars().count();
        Ok(Range { text: text.chars().skip(from).take(length).collect(), from: from.min(of), of })
    }
}
