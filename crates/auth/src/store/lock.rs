//! File locks between processes. The system releases them when a process exits, even if it crashes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use wharf_io::create_private_folder;

use super::error::StoreError;

/// Pause between attempts to lock. A blocking lock could not be canceled.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Timeout of a file operation: a network file system may never respond.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the lock. It is held until the returned file is dropped.
pub(crate) async fn lock(file: &Path, timeout: Duration) -> Result<File, StoreError> {
    let end = Instant::now() + timeout;
    loop {
        let path = file.to_owned();
        let attempt =
            on_disk("lock", file, move || try_lock(&path).map_err(|error| StoreError::disk("lock", &path, error)));
        if let Some(held) = attempt.await? {
            return Ok(held);
        }
        if Instant::now() >= end {
            return Err(StoreError::Busy { what: file.display().to_string(), waited: timeout });
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Opens the file for each attempt, in case it was deleted meanwhile.
fn try_lock(file: &Path) -> io::Result<Option<File>> {
    let dir = file.parent().unwrap_or(Path::new("."));
    create_private_folder(dir)?;
    let held = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file)?;
    match held.try_lock() {
        Ok(()) => Ok(Some(held)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Runs blocking work on a separate thread. The work completes even if the caller is dropped.
pub(crate) async fn on_disk<T: Send + 'static>(
    action: &'static str,
    file: &Path,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::time::timeout(DISK_TIMEOUT, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(StoreError::disk(action, file, io::Error::other("the worker thread panicked"))),
        Err(_) => Err(StoreError::disk(action, file, io::ErrorKind::TimedOut.into())),
    }
}
