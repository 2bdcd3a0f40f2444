//! Sign-ins in a file, which any number of processes share.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::contents::{Contents, Flaw};
use super::lock::{lock, on_disk};
use super::{Account, RegisteredClient, RenewalGuard, SignIn, Store, StoreError};
use wharf_io::digest;

/// The file, and what is locked by whoever changes it: the file itself is another one after each change.
const FILE: &str = "credentials.json";
const LOCK: &str = "credentials.lock";
/// The largest file that is read or written: a thousand times what most people need.
pub(super) const LARGEST: u64 = 4 * 1024 * 1024;
/// How long others may take to change the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long others may take to renew a sign-in: they wait for its issuer.
const PATIENCE_FOR_A_TURN: Duration = Duration::from_secs(60);
/// Counts the files that were begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

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
    replace(file, &text).map_err(failed)
}

/// Whoever reads the file meanwhile sees all of the old or all of the new, and so does whoever comes after a crash.
pub(crate) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let (own, mut begun) = begin(file)?;
    begun
        .write_all(text)
        .and_then(|()| begun.sync_all())
        .and_then(|()| std::fs::rename(&own, file))
        .inspect_err(|_| drop(std::fs::remove_file(&own)))?;
    // What is kept is kept by now. Some file systems cannot do this, and there it is not needed.
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(%error, "the folder of the sign-ins cannot be flushed to the disk");
    }
    Ok(())
}

/// A new file beside the others. It is closed to others from its first moment.
fn begin(file: &Path) -> io::Result<(PathBuf, File)> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().display();
    loop {
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let own = folder.join(format!(".{}.{number}.{name}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own) {
            // Left behind by a process that died, and had the id that is ours now: in a container all have.
            Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {}
            begun => return Ok((own, begun?)),
        }
    }
}
