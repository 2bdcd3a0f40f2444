//! Result files: written beside their place and moved there when they are complete.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use wharf::verify::report::{ExportError, Format, UnknownFormat, export};
use wharf::verify::{RunId, RunStore};

use crate::error::{UsageError, usage_error};

/// A result file of `--output`.
#[derive(Debug)]
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
    format: Format,
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
        let format = Format::of(path)
            .map_err(|error: UnknownFormat| usage_error(format!("--output {}: {error}", path.display()), None))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let message = format!("--output {}: {} is not a directory", path.display(), folder.display());
            return Err(usage_error(message, Some("create it first")));
        }
        if path.is_dir() {
            return Err(usage_error(format!("--output {}: it is a directory", path.display()), None));
        }
        Ok(Self { path: path.to_owned(), format })
    }

    /// Writes the results of a run. Only the owner can read the file: it holds the conversations.
    pub(crate) async fn write(&self, store: &dyn RunStore, run: &RunId) -> Result<(), ExportError> {
        let temporary = self.temporary();
        let written = async {
            let file = create(&temporary)?;
            export(store, run, self.format, BufWriter::new(&file)).await?;
            file.sync_all()?;
            std::fs::rename(&temporary, &self.path)?;
            Ok(())
        };
        let written = written.await;
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }

    /// Returns a name in the same directory that no other process uses.
    fn temporary(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
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
