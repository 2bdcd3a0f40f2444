//! Writing a file so that nobody ever reads half of it, and nobody else's change is lost.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner only: it may hold secrets.
    Owner,
    /// Whoever may read other files of this person.
    Usual,
}

/// Why a file was not written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// Its content is not what it was when it was read.
    Raced,
    Io(io::Error),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Puts new content into a file. `seen` is what it held when it was read, `None` if it was not there.
///
/// A link stays a link; what it leads to is replaced. A crash leaves the old file or the new one.
pub(crate) fn replace(file: &Path, seen: Option<&[u8]>, content: &[u8], readers: Readers) -> Result<(), NotWritten> {
    let target = target(file)?;
    let folder = target.parent().ok_or_else(|| io::Error::other("it is no file in a folder"))?;
    make_folder(folder, readers)?;
    let mode = match (readers, fs::metadata(&target)) {
        (Readers::Owner, _) => 0o600,
        (Readers::Usual, Ok(old)) => old.permissions().mode() & 0o777,
        // What the mask of this process leaves of it.
        (Readers::Usual, Err(_)) => 0o666,
    };
    let mut temporary =
        tempfile::Builder::new().prefix(".wharf-").permissions(fs::Permissions::from_mode(mode)).tempfile_in(folder)?;
    temporary.write_all(content)?;
    if readers == Readers::Usual && target.exists() {
        temporary.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    }
    temporary.as_file().sync_all()?;
    // As late as possible: what remains is the blink of an eye.
    if current(&target)?.as_deref() != seen {
        return Err(NotWritten::Raced);
    }
    temporary.persist(&target).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Where a file really is.
fn target(file: &Path) -> io::Result<PathBuf> {
    match file.canonicalize() {
        Ok(target) => Ok(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match file.symlink_metadata() {
            Ok(_) => Err(io::Error::other("it is a link that leads nowhere")),
            Err(_) => std::path::absolute(file),
        },
        Err(error) => Err(error),
    }
}

fn make_folder(folder: &Path, readers: Readers) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    if readers == Readers::Owner {
        builder.mode(0o700);
    }
    builder.create(folder)
}

fn current(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
