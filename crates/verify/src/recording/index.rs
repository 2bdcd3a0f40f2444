//! Opening a recording: an index of its trials. The trials stay in the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wharf_protocol::Redactor;

use crate::plan::Trial;

use super::export::blocking;
use super::{FORMAT, RecordedTrial, RecordingError, RecordingHeader, VERSION, WHARF};

/// The maximum length of a line.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// A recording of a run. Only its index is in memory.
#[derive(Debug)]
pub struct Recording {
    path: String,
    header: RecordingHeader,
    redactor: Redactor,
    file: Arc<File>,
    trials: HashMap<TrialKey, Position>,
}

/// A digest of question, model label and replicate.
type TrialKey = [u8; 16];

#[derive(Clone, Copy, Debug)]
struct Position {
    line: u64,
    offset: u64,
    len: usize,
}

/// The parts of a line that identify a trial.
#[derive(Serialize, Deserialize)]
struct Identity {
    question: String,
    model: String,
    replicate: u32,
}

impl Recording {
    /// Opens a recording and reads its index.
    pub async fn open(path: &Path) -> Result<Self, RecordingError> {
        let name = path.display().to_string();
        let path = path.to_owned();
        blocking(&name.clone(), move || Ok(Self::read(&path, name))).await?
    }

    fn read(path: &Path, name: String) -> Result<Self, RecordingError> {
        let io = |error: std::io::Error| RecordingError::Io { path: name.clone(), reason: error.to_string() };
        let invalid = |line, reason| RecordingError::Invalid { path: name.clone(), line, reason };
        let file = File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(io(std::io::Error::other("not a regular file")));
        }
        let mut reader = BufReader::new(&file);
        let mut text = Vec::new();
        let mut header = None;
        let mut trials = HashMap::new();
        let mut offset = 0;
        for line in 1.. {
            text.clear();
            let len = reader.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut text).map_err(io)?;
            if len == 0 {
                break;
            }
            if len as u64 > MAX_LINE_BYTES {
                return Err(invalid(line, format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            if line == 1 {
                header = Some(parse_header(&text).map_err(|reason| invalid(line, reason))?);
            } else {
                let identity: Identity =
                    serde_json::from_slice(&text).map_err(|error| invalid(line, error.to_string()))?;
                let position = Position { line, offset, len };
                let key = trial_key(&identity.question, &identity.model, identity.replicate);
                if trials.insert(key, position).is_some() {
                    let Identity { question, model, replicate } = identity;
                    let reason = format!("question `{question}`, model `{model}`, replicate {replicate} appears twice");
                    return Err(invalid(line, reason));
                }
            }
            offset += len as u64;
        }
        let header = header.ok_or_else(|| invalid(1, "the file is empty".to_owned()))?;
        Ok(Self { path: name, header, redactor: Redactor::default(), file: Arc::new(file), trials })
    }

    /// Sets the secrets of the run, which are redacted in the recording.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Whether this version of Wharf wrote the recording, so that its results have the same digests.
    pub(super) fn is_of_this_version(&self) -> bool {
        self.header.wharf.as_deref() == Some(WHARF)
    }

    /// Returns the first line: the benchmark and the settings of the run.
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// Returns the number of trials.
    pub fn len(&self) -> usize {
        self.trials.len()
    }

    /// Returns whether the recording has no trials.
    pub fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    /// Reads the recorded trial with the question, model label and replicate of `trial`.
    pub async fn trial(&self, trial: &Trial) -> Result<Option<RecordedTrial>, RecordingError> {
        let key = trial_key(trial.question.as_str(), &trial.model, trial.replicate);
        let Some(&Position { line, offset, len }) = self.trials.get(&key) else { return Ok(None) };
        let file = Arc::clone(&self.file);
        let read = move || {
            let mut text = vec![0; len];
            file.read_exact_at(&mut text, offset).map(|()| text)
        };
        let text = blocking(&self.path, read).await?;
        let invalid = |error: serde_json::Error| RecordingError::Invalid {
            path: self.path.clone(),
            line,
            reason: error.to_string(),
        };
        serde_json::from_slice(&text).map(Some).map_err(invalid)
    }
}

fn parse_header(text: &[u8]) -> Result<RecordingHeader, String> {
    #[derive(Deserialize)]
    struct Kind {
        format: String,
        version: u32,
    }
    let kind = serde_json::from_slice::<Kind>(text).ok().filter(|kind| kind.format == FORMAT);
    match kind.map(|kind| kind.version) {
        None => Err("not a recording of a verification run".to_owned()),
        Some(version) if version > VERSION => {
            Err(format!("written by a newer version of Wharf (format {version}; this version supports {VERSION})"))
        }
        Some(_) => serde_json::from_slice(text).map_err(|error| error.to_string()),
    }
}

fn trial_key(question: &str, model: &str, replicate: u32) -> TrialKey {
    let mut hash = Sha256::new();
    for part in [question, model] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(replicate.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let mut key = TrialKey::default();
    key.copy_from_slice(&digest[..16]);
    key
}
