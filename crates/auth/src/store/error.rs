//! Errors of a store, sorted by what the caller can do about them. Messages never quote the content.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::contents::{InvalidContents, VERSION};

/// Credentials that cannot be read or stored. The file is left unchanged.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the lock: try again.
    #[error("{what} was in use by another process for {} s; try again later", .waited.as_secs())]
    Busy {
        /// The lock file or account.
        what: String,
        /// How long the lock was waited for.
        waited: Duration,
    },
    /// A file operation failed; see the source.
    #[error("cannot {action} {file}")]
    Disk {
        /// The operation, such as `read`.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// A keychain operation failed.
    #[error("cannot {action} the keychain: {reason}")]
    Vault {
        /// The operation, such as `read`.
        action: &'static str,
        /// The cause.
        reason: String,
    },
    /// Other users can read the file and the tokens in it.
    #[error("{file} is readable by other users; restrict it with `chmod 600 '{file}'`")]
    TooOpen {
        /// The file.
        file: PathBuf,
    },
    /// The file is corrupt.
    #[error("{file} is corrupt: {flaw}; fix it, or move it away and sign in again")]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is invalid.
        flaw: String,
    },
    /// The file would exceed its maximum size.
    #[error("{file} would be larger than {largest} bytes; sign out of unused servers")]
    Full {
        /// The file.
        file: PathBuf,
        /// The maximum size in bytes.
        largest: u64,
    },
    /// A later version of Wharf wrote the file.
    #[error(
        "{file} has format {found}, but only {VERSION} is supported; upgrade, or move the file away and sign in again"
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// The format of the file.
        found: u64,
    },
}

impl StoreError {
    pub(crate) fn disk(action: &'static str, file: &Path, source: io::Error) -> Self {
        Self::Disk { action, file: file.to_owned(), source: Arc::new(source) }
    }

    pub(super) fn invalid(file: &Path, invalid: InvalidContents) -> Self {
        let file = file.to_owned();
        match invalid {
            InvalidContents::Corrupt(flaw) => Self::Broken { file, flaw },
            InvalidContents::Newer(found) => Self::Newer { file, found },
        }
    }
}
