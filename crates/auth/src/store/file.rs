//! Sign-ins in a file, which any number of processes share.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::contents::{Contents, Flaw};
use super::lock::{lock, on_disk};
use super::{Account, RegisteredClient, RenewalGuard, SignIn, Store, StoreError};
use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, digest, replace_file};

/// The file, and what is locked by whoever changes it: the file itself is another one after each change.
const FILE: &str = "credentials.json";
const LOCK: &str = "credentials.lock";
/// The largest file that is read or written: a thousand times what most people need.
pub(super) const LARGEST: u64 = 4 * 1024 * 1024;
/// How long others may take to change the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long others may take to renew a sign-in: they wait for its issuer.
const PATIENCE_FOR_A_TURN: Duration = Duration::from_secs(60);
/// How the files of this folder are written. Locking creates the folder.
pub(crate) const REPLACE_OPTIONS: ReplaceOptions = ReplaceOptions {
    mode: FileMode::Private,
    durability: Durability::ContentsAndName,
    folder: MissingFolder::Fail,
    follow_symlinks: false,
};

/// Sign-ins in the file `credentials.json` of a folder, which only its owner can read.
///
/// Nothing is held in memory: what one process keeps, all others see. A file that is not understood is an error, and is
/// left as it is. Only a file that is not there is an empty one.
#[derive(Clone, Debug)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// Sign-ins that are kept in this folder. It is made when something is kept.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Needs no lock: the file is replaced as a whole.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Contents) -> Result<T, Flaw> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = self.file();
        on_disk("read", &self.file(), move || look(&read(&file)?).map_err(|flaw| StoreError::flawed(&file, flaw))).await
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<T, Flaw> + Send + 'static,
    ) -> Result<T, StoreError> {
        let held = lock(&self.folder.join(LOCK), PATIENCE).await?;
        let file = self.file();
        on_disk("write", &self.file(), move || {
            // Until the work is done, and not until nobody waits for it.
            let _held = held;
            let before = read(&file)?;
            let mut after = before.clone();
            let changed = change(&mut after).map_err(|flaw| StoreError::flawed(&file, flaw))?;
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
        Box::pin(self.look(move |contents| contents.sign_in(&account)))
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
        let (issuer, profile) = (issuer.to_owned(), profile.to_owned());
        Box::pin(self.look(move |contents| contents.client(&issuer, &profile)))
    }

    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (issuer, profile) = (issuer.to_owned(), profile.to_owned());
        Box::pin(self.change(move |contents| contents.keep_client(&issuer, &profile, client)))
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (issuer, profile) = (issuer.to_owned(), profile.to_owned());
        Box::pin(self.change(move |contents| {
            contents.forget_client(&issuer, &profile);
            Ok(())
        }))
    }

    /// Each account has a lock of its own, so that an issuer that is slow to renew one holds up no other.
    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>> {
        let Account { endpoint, profile } = account;
        let name = format!("turn-{}.lock", digest(&format!("{endpoint}\n{profile}")));
        Box::pin(async move { Ok(RenewalGuard::holding(lock(&self.folder.join(name), PATIENCE_FOR_A_TURN).await?)) })
    }
}

fn read(file: &Path) -> Result<Contents, StoreError> {
    let failed = |error| StoreError::disk("read", file, error);
    let broken = |flaw: String| StoreError::Broken { file: file.to_owned(), flaw };
    let found = match std::fs::metadata(file) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        found => found.map_err(failed)?,
    };
    // Opening a pipe, for one, might never end.
    if !found.is_file() {
        return Err(broken("it is no file".to_owned()));
    }
    let opened = File::open(file).map_err(failed)?;
    if opened.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
        return Err(StoreError::TooOpen { file: file.to_owned() });
    }
    let mut text = Vec::new();
    opened.take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(broken(format!("it is larger than {LARGEST} bytes")));
    }
    Contents::parse(&text).map_err(|flaw| StoreError::flawed(file, flaw))
}

fn write(file: &Path, contents: &Contents) -> Result<(), StoreError> {
    let failed = |error| StoreError::disk("write", file, error);
    let text = contents.text().map_err(|error| failed(error.into()))?;
    if text.len() as u64 > LARGEST {
        return Err(StoreError::Full { file: file.to_owned(), largest: LARGEST });
    }
    replace_file(file, &text, REPLACE_OPTIONS).map(drop).map_err(failed)
}
