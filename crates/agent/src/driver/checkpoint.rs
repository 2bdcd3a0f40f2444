//! Where runs are written down, so that they go on after the process that drove them is gone.

use std::path::{Path, PathBuf};

use wharf_protocol::BoxFuture;

use crate::{InvalidRun, Run};

/// Writes runs down.
pub trait Checkpoint: Send + Sync {
    /// Writes down how far a run is. What was written before may be forgotten.
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>>;
}

/// A file that holds one run. It is replaced as a whole, so that there is always one that can be read.
#[derive(Clone, Debug)]
pub struct CheckpointFile {
    path: PathBuf,
}

impl CheckpointFile {
    /// Writes to this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
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
}

impl Checkpoint for CheckpointFile {
    fn save<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (path, text) = (self.path.clone(), run.write());
            let written = tokio::task::spawn_blocking(move || replace(&path, &text)).await;
            let written = written.map_err(|error| error.to_string())?;
            written.map_err(|error| format!("{}: {error}", self.path.display()))
        })
    }
}

/// Only we may read it: it holds whatever was said.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    std::fs::rename(&new, path)
}
