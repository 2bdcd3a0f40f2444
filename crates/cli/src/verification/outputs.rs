//! Result files: written beside their place and moved there when they are complete.
//!
//! A directory gets one log of Inspect per model; the format of a file is that of its extension.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use wharf::verify::report::{ExportError, Format, UnknownFormat, export, inspect_logs};
use wharf::verify::{RunId, RunStore};

use crate::error::{UsageError, usage_error};

/// A result file of `--output`, or a directory of them.
#[derive(Debug)]
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
    target: Target,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    File(Format),
    InspectLogs,
}

/// Checks the files of `--output` before anything is paid for.
pub(crate) fn parse(paths: &[PathBuf]) -> Result<Vec<OutputFile>, UsageError> {
    paths.iter().map(|path| OutputFile::new(path)).collect()
}

/// Checks that no output replaces another file of the run: its store, its benchmark, its models or another output.
pub(crate) fn check_distinct(outputs: &[OutputFile], others: &[(&str, &Path)]) -> Result<(), UsageError> {
    for (index, output) in outputs.iter().enumerate() {
        let earlier = outputs[..index].iter().map(|earlier| ("another output", earlier.path.as_path()));
        if let Some((what, _)) = others.iter().copied().chain(earlier).find(|(_, other)| is_same(&output.path, other)) {
            let message = format!("--output {}: the file is {what} of this run", output.path.display());
            return Err(usage_error(message, Some("choose another file")));
        }
    }
    Ok(())
}

/// Whether two paths name one file. A file that does not exist yet is compared by its folder and name.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| {
        let absolute = std::path::absolute(path).ok()?;
        let folder = absolute.parent()?.canonicalize().ok()?;
        absolute.canonicalize().ok().or_else(|| Some(folder.join(absolute.file_name()?)))
    };
    match (resolved(one), resolved(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

impl OutputFile {
    fn new(path: &Path) -> Result<Self, UsageError> {
        if path.is_dir() {
            return Ok(Self { path: path.to_owned(), target: Target::InspectLogs });
        }
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            let message = format!("--output {}: there is no such directory", path.display());
            return Err(usage_error(message, Some("create it first")));
        }
        let format = Format::of(path)
            .map_err(|error: UnknownFormat| usage_error(format!("--output {}: {error}", path.display()), None))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let message = format!("--output {}: {} is not a directory", path.display(), folder.display());
            return Err(usage_error(message, Some("create it first")));
        }
        Ok(Self { path: path.to_owned(), target: Target::File(format) })
    }

    /// Writes the results of a run. Only the owner can read the files: they hold the conversations.
    pub(crate) async fn write(&self, store: &dyn RunStore, run: &RunId) -> Result<(), ExportError> {
        match self.target {
            Target::File(format) => {
                let file = TemporaryFile::create(&self.path)?;
                export(store, run, format, BufWriter::new(&file.file)).await?;
                file.finish()
            }
            Target::InspectLogs => {
                for log in inspect_logs(store, run).await? {
                    let file = TemporaryFile::create(&self.path.join(&log.file_name))?;
                    log.write(store, run, BufWriter::new(&file.file)).await?;
                    file.finish()?;
                }
                Ok(())
            }
        }
    }
}

/// A file that is moved to its place when it is complete, and removed otherwise.
struct TemporaryFile {
    file: File,
    path: PathBuf,
    place: PathBuf,
}

impl TemporaryFile {
    fn create(place: &Path) -> std::io::Result<Self> {
        // No other process uses this name.
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let path = place.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        Ok(Self { file: create(&path)?, path, place: place.to_owned() })
    }

    fn finish(self) -> Result<(), ExportError> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.place)?;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After the move there is nothing to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(path) {
        // Left behind by a process with the same id that was killed.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}
