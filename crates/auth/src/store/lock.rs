//! Locks that hold between processes. The system lets go of them when a process dies, however it dies.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::StoreError;

/// How often a lock that others hold is tried again. Waiting for it could not be given up.
const PAUSE: Duration = Duration::from_millis(10);
/// How long one piece of work on the disk may take: some disks are far away, and never answer.
const DISK: Duration = Duration::from_secs(10);

/// Waits for the lock. It is held until the file is dropped.
pub(crate) async fn lock(file: &Path, patience: Duration) -> Result<File, StoreError> {
    let end = Instant::now() + patience;
    loop {
        let own = file.to_owned();
        let tried =
            on_disk("lock", file, move || try_lock(&own).map_err(|error| StoreError::disk("lock", &own, error)));
        if let Some(held) = tried.await? {
            return Ok(held);
        }
        if Instant::now() >= end {
            return Err(StoreError::Busy { what: file.display().to_string(), waited: patience });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Opens the file anew each time: whoever deletes it while we wait does not make us wait for what is gone.
fn try_lock(file: &Path) -> io::Result<Option<File>> {
    let folder = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let held = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file)?;
    match held.try_lock() {
        Ok(()) => Ok(Some(held)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Does what may block, on a thread where it holds up nobody. Once begun it is not abandoned half-way, even if nobody
/// waits for it any more.
pub(crate) async fn on_disk<T: Send + 'static>(
    action: &'static str,
    file: &Path,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::time::timeout(DISK, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(StoreError::disk(action, file, io::Error::other("the thread for it died"))),
        Err(_) => Err(StoreError::disk(action, file, io::ErrorKind::TimedOut.into())),
    }
}
