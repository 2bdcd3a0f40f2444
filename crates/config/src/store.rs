//! Replaces files atomically, without losing changes by other processes.

use std::fs;
use std::io;
use std::path::Path;

use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, StagedFile};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// The owner only: the file may contain secrets.
    Owner,
    /// The default permissions of the user.
    Default,
}

/// Why a file was not written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// The content changed since it was read.
    Raced,
    Io(io::Error),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Replaces the content of a file. `seen` is the content that the caller read, `None` if the file did not exist.
///
/// A link stays a link; its target is replaced. A file that is read-only stays as it is. A crash leaves the old file or the new one.
pub(crate) fn replace(file: &Path, seen: Option<&[u8]>, content: &[u8], readers: Readers) -> Result<(), NotWritten> {
    let owner_only = readers == Readers::Owner;
    let options = ReplaceOptions {
        mode: if owner_only { FileMode::Private } else { FileMode::Preserve },
        durability: Durability::ContentsAndNameStrict,
        folder: if owner_only { MissingFolder::CreatePrivate } else { MissingFolder::Create },
        follow_symlinks: true,
    };
    let staged = StagedFile::write(file, content, options)?;
    // A rename would replace it, whatever its permissions are.
    if fs::metadata(staged.target()).is_ok_and(|found| found.permissions().readonly()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only").into());
    }
    // As late as possible, to keep the race window short.
    if current(staged.target())?.as_deref() != seen {
        return Err(NotWritten::Raced);
    }
    staged.commit()?;
    Ok(())
}

fn current(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
