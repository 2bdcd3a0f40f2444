//! What can go wrong with a store, sorted by what the caller can do about it. No message ever quotes what is kept.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::contents::{Flaw, VERSION};

/// Sign-ins that cannot be read or kept. What is in the file is left as it is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Others had it all the time: try again.
    #[error("{what} was in use for {} s; try again when whoever uses it is done", .waited.as_secs())]
    Busy {
        /// What was waited for: a lock file, or an account.
        what: String,
        /// For how long.
        waited: Duration,
    },
    /// The disk did not do its part: see the source.
    #[error("cannot {action} {file}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// On which file.
        file: PathBuf,
        /// What came of it.
        source: Arc<io::Error>,
    },
    /// The keychain did not do its part.
    #[error("cannot {action} the keychain: {reason}")]
    Vault {
        /// What was tried.
        action: &'static str,
        /// What came of it.
        reason: String,
    },
    /// Others could read the file, and the tokens in it: close it.
    #[error("{file} is open to other users; close it with `chmod 600 '{file}'`")]
    TooOpen {
        /// The file.
        file: PathBuf,
    },
    /// The file is not what we write: somebody has to look at it.
    #[error("{file} is broken: {flaw}; mend it, or move it away and sign in again")]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        flaw: String,
    },
    /// The file would no longer be read if it grew more: sign out somewhere.
    #[error("{file} is full: it would be larger than {largest} bytes; sign out of servers that are not used")]
    Full {
        /// The file.
        file: PathBuf,
        /// The largest it may be.
        largest: u64,
    },
    /// A later version of this program wrote the file: upgrade.
    #[error(
        "{file} is of format {found}, and only {VERSION} is known; upgrade, or move the file away and sign in again"
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// The format it has.
        found: u64,
    },
}

impl StoreError {
    pub(crate) fn disk(action: &'static str, file: &Path, source: io::Error) -> Self {
        Self::Disk { action, file: file.to_owned(), source: Arc::new(source) }
    }

    pub(super) fn flawed(file: &Path, flaw: Flaw) -> Self {
        let file = file.to_owned();
        match flaw {
            Flaw::Broken(flaw) => Self::Broken { file, flaw },
            Flaw::Newer(found) => Self::Newer { file, found },
        }
    }
}
