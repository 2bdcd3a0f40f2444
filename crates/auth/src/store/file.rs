//! Stores credentials in a file that several processes share.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;

use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, digest, replace_file};

use super::account::{Account, RegisteredClient, SignIn};
use super::contents::{Contents, InvalidContents};
use super::error::StoreError;
use super::interface::{RenewalGuard, Store};
use super::lock::{lock, on_disk};

/// The file, and its lock file. The file itself cannot be locked, since every change replaces it.
const FILE: &str = "credentials.json";
const LOCK: &str = "credentials.lock";
/// Maximum size of the file: a thousand times what most users need.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum time to wait for the lock of the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to wait for a refresh by another process, which waits for the issuer.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(60);
/// How the files of the directory are written. Locking creates the directory.
pub(crate) const REPLACE_OPTIONS: ReplaceOptions = ReplaceOptions {
    mode: FileMode::Private,
    durability: Durability::ContentsAndName,
    folder: MissingFolder::Fail,
    follow_symlinks: false,
};

/// Stores credentials in the file `credentials.json` of a directory, readable by its owner only.
///
/// Nothing is cached in memory: a change by one process is visible to all others. An invalid file is an error and is left
/// unchanged. Only a missing file counts as empty.
#[derive(Clone, Debug)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// Creates a store in a directory. The directory is created when something is stored.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Reads without a lock: the file is replaced atomically.
    async fn read<T: Send + 'static>(
        &self,
        get: impl FnOnce(&Contents) -> Result<T, InvalidContents> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = self.file();
        on_disk("read", &self.file(), move || get(&read(&file)?).map_err(|invalid| StoreError::invalid(&file, invalid)))
            .await
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<T, InvalidContents> + Send + 'static,
    ) -> Result<T, StoreError> {
        let held = lock(&self.folder.join(LOCK), LOCK_TIMEOUT).await?;
        let file = self.file();
        on_disk("write", &self.file(), move || {
            // Held until the work is done, even if the caller is dropped.
            let _held = held;
            let before = read(&file)?;
            let mut after = before.clone();
            let changed = change(&mut after).map_err(|invalid| StoreError::invalid(&file, invalid))?;
            if after != before {
                write(&file, &after)?;
            }
            Ok(changed)
        })
        .await
    }
}

impl Store for FileStore {
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(self.read(move |contents| contents.sign_in(&account)))
    }

    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>> {
        let account = account.clone();
        Box::pin(self.change(move |contents| contents.keep(&account, sign_in)))
    }

    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(self.change(move |contents| contents.remove(&account)))
    }

    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>> {
        let issuer = issuer.to_owned();
        let profile = profile.to_owned();
        Box::pin(self.read(move |contents| contents.client(&issuer, &profile)))
    }

    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let issuer = issuer.to_owned();
        let profile = profile.to_owned();
        Box::pin(self.change(move |contents| contents.keep_client(&issuer, &profile, client)))
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let issuer = issuer.to_owned();
        let profile = profile.to_owned();
        Box::pin(self.change(move |contents| {
            contents.forget_client(&issuer, &profile);
            Ok(())
        }))
    }

    /// Each account has its own lock, so that a slow issuer delays no other account.
    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>> {
        let Account { endpoint, profile } = account;
        let name = format!("turn-{}.lock", digest(&format!("{endpoint}\n{profile}")));
        Box::pin(async move { Ok(RenewalGuard::holding(lock(&self.folder.join(name), RENEWAL_TIMEOUT).await?)) })
    }
}

fn read(file: &Path) -> Result<Contents, StoreError> {
    let failed = |error| StoreError::disk("read", file, error);
    let broken = |flaw: String| StoreError::Broken { file: file.to_owned(), flaw };
    let found = match std::fs::metadata(file) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        found => found.map_err(failed)?,
    };
    // Opening a pipe would block.
    if !found.is_file() {
        return Err(broken("not a regular file".to_owned()));
    }
    let opened = File::open(file).map_err(failed)?;
    if opened.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
        return Err(StoreError::TooOpen { file: file.to_owned() });
    }
    let mut text = Vec::new();
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(broken(format!("larger than {MAX_FILE_BYTES} bytes")));
    }
    Contents::parse(&text).map_err(|invalid| StoreError::invalid(file, invalid))
}

fn write(file: &Path, contents: &Contents) -> Result<(), StoreError> {
    let failed = |error| StoreError::disk("write", file, error);
    let text = contents.text().map_err(|error| failed(error.into()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(StoreError::Full { file: file.to_owned(), largest: MAX_FILE_BYTES });
    }
    replace_file(file, &text, REPLACE_OPTIONS).map(drop).map_err(failed)
}
