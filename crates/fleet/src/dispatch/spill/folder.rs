//! The folder of one process's stored outputs. A lock shows the others that the process is alive.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

/// What the name of every folder starts with.
const PREFIX: &str = "wharf-outputs-";
/// The locked file. It gets its name only once it is locked, so a folder without it is never taken for a stale one.
const LOCK: &str = "lock";

/// A folder that only its owner can open. Dropping it removes it.
#[derive(Debug)]
pub(super) struct SpillFolder {
    folder: TempDir,
    /// Held until the folder is removed. The system releases it when the process ends, even if it is killed.
    _lock: File,
}

impl SpillFolder {
    /// Creates a folder in `parent`, and removes those of processes that ended without doing so.
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
        // The umask may have removed some of the permissions.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700))?;
        let lock = NamedTempFile::new_in(folder.path())?;
        lock.as_file().try_lock().map_err(io::Error::from)?;
        let lock = lock.persist(folder.path().join(LOCK)).map_err(|error| error.error)?;
        remove_stale(parent, folder.path());
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of the same user whose lock no process holds. Failures are harmless: the next process tries again.
fn remove_stale(parent: &Path, own: &Path) {
    let Ok(user) = fs::metadata(own).map(|own| own.uid()) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX) && path != own;
        // Not followed: in a shared folder, another user may have put a link there.
        let is_folder = || path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if !is_ours || !is_folder() {
            continue;
        }
        let is_stale = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_stale && let Err(error) = fs::remove_dir_all(&path) {
            tracing::debug!(%error, folder = %path.display(), "cannot remove stored outputs of another process");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_folders_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let alive = SpillFolder::create(parent.path()).unwrap();
        assert_eq!(fs::metadata(alive.path()).unwrap().mode() & 0o777, 0o700);
        // A killed process leaves its folder, and the system releases its lock.
        let dead = parent.path().join(format!("{PREFIX}dead"));
        let elsewhere = parent.path().join("elsewhere");
        let unlocked = parent.path().join(format!("{PREFIX}starting"));
        for folder in [&dead, &elsewhere, &unlocked] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(dead.join("output"), "secret").unwrap();
        fs::write(elsewhere.join(LOCK), "").unwrap();
        let link = parent.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let next = SpillFolder::create(parent.path()).unwrap();
        assert!(!dead.exists(), "its process is gone");
        assert!(alive.path().exists() && next.path().exists() && unlocked.exists() && elsewhere.join(LOCK).exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
