//! Where outputs are kept that are too long for a model, so that it can read on in them.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::{NamedTempFile, TempDir};

/// How much is kept in all where nobody says otherwise, in bytes.
const USUAL_ROOM: u64 = 256 * 1024 * 1024;

/// A store of long texts, in files that only this user can read. Dropping it removes them.
#[derive(Clone, Debug)]
pub struct Spill(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: TempDir,
    room: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: VecDeque<(u64, u64, Arc<NamedTempFile>)>,
    bytes: u64,
    last: u64,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There never was one with this id.
    #[error("there is no output `{0}`")]
    Unknown(String),
    /// It had to make room for newer ones.
    #[error("the output `{0}` is no longer kept: newer ones took its room; call the tool again")]
    Dropped(String),
    /// The file cannot be read.
    #[error("the output `{id}` cannot be read: {reason}")]
    Broken {
        /// The output.
        id: String,
        /// Why.
        reason: String,
    },
}

/// A part of a text, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) text: String,
    /// Where it begins.
    pub(super) from: usize,
    /// How many characters the whole text has.
    pub(super) of: usize,
}

impl Spill {
    /// A store in a new folder inside of `folder`.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Self::with_room(folder, USUAL_ROOM)
    }

    /// A store that keeps so many bytes at most; the oldest texts make room for new ones.
    pub fn with_room(folder: &Path, room: u64) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("outputs-").tempdir_in(folder)?;
        Ok(Self(Arc::new(Inner { folder, room, kept: Mutex::default() })))
    }

    /// Keeps a text and says under which id; an error says why it is not kept.
    pub async fn keep(&self, text: String) -> Result<String, String> {
        let inner = Arc::clone(&self.0);
        let kept = tokio::task::spawn_blocking(move || inner.keep(&text)).await;
        kept.unwrap_or_else(|error| Err(error.to_string()))
    }

    pub(super) async fn read(&self, id: &str, from: usize, length: usize) -> Result<Range, ReadError> {
        let (inner, own) = (Arc::clone(&self.0), id.to_owned());
        let read = tokio::task::spawn_blocking(move || inner.read(&own, from, length)).await;
        read.unwrap_or_else(|error| Err(ReadError::Broken { id: id.to_owned(), reason: error.to_string() }))
    }
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, text: &str) -> Result<String, String> {
        let size = text.len() as u64;
        if size > self.room {
            return Err(format!("it is larger than the {} bytes there is room for", self.room));
        }
        let written = NamedTempFile::new_in(self.folder.path()).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            Ok(file)
        });
        let file = Arc::new(written.map_err(|error| error.to_string())?);
        let mut kept = self.kept();
        while kept.bytes + size > self.room {
            let Some((_, freed, _)) = kept.files.pop_front() else { break };
            kept.bytes -= freed;
        }
        kept.last += 1;
        kept.bytes += size;
        let number = kept.last;
        kept.files.push_back((number, size, file));
        Ok(format!("out-{number}"))
    }

    fn read(&self, id: &str, from: usize, length: usize) -> Result<Range, ReadError> {
        let number = id.strip_prefix("out-").and_then(|number| number.parse::<u64>().ok());
        let file = {
            let kept = self.kept();
            let known = number.filter(|number| (1..=kept.last).contains(number));
            let Some(number) = known else { return Err(ReadError::Unknown(id.to_owned())) };
            let found = kept.files.iter().find(|(kept, ..)| *kept == number);
            Arc::clone(&found.ok_or_else(|| ReadError::Dropped(id.to_owned()))?.2)
        };
        let broken = |error: io::Error| ReadError::Broken { id: id.to_owned(), reason: error.to_string() };
        let mut text = String::new();
        file.reopen().and_then(|mut file| file.read_to_string(&mut text)).map_err(broken)?;
        let of = text.chars().count();
        Ok(Range { text: text.chars().skip(from).take(length).collect(), from: from.min(of), of })
    }
}
