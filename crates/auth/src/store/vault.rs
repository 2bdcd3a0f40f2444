//! Sign-ins in a place that the system guards, a keychain for one: each in an item of its own.
//!
//! A sign-in that is found in the file from before is used, and moves into the vault when it is next kept. The locks are
//! the file's: a renewal is still one process's at a time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::contents::{Contents, Flaw};
use super::{Account, FileStore, RegisteredClient, RenewalGuard, SignIn, Store, StoreError};
use wharf_io::digest;

/// How long a vault may take: some ask a person to open them.
const PATIENCE: Duration = Duration::from_secs(120);
/// What it is called where something is wrong with it.
const PLACE: &str = "the keychain";

/// Keeps texts that nobody else is to see, by name. Its methods may block. What they fail with must not quote a text.
pub trait Vault: Send + Sync + 'static {
    /// The text of that name.
    fn read(&self, name: &str) -> Result<Option<String>, String>;

    /// Keeps a text, in place of the one before.
    fn write(&self, name: &str, text: &str) -> Result<(), String>;

    /// Forgets a text, if there is one.
    fn forget(&self, name: &str) -> Result<(), String>;
}

/// Sign-ins in a [`Vault`].
#[derive(Clone)]
pub struct VaultStore {
    vault: Arc<dyn Vault>,
    file: FileStore,
}

impl VaultStore {
    /// Sign-ins in this vault, and those that are still in the file. The locks are beside the file.
    pub fn new(vault: Arc<dyn Vault>, file: FileStore) -> Self {
        Self { vault, file }
    }

    async fn with<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&dyn Vault) -> Result<T, String> + Send + 'static,
    ) -> Result<T, StoreError> {
        let vault = Arc::clone(&self.vault);
        let failed = |reason: String| StoreError::Vault { action, reason };
        match tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(move || work(&*vault))).await {
            Ok(Ok(done)) => done.map_err(failed),
            Ok(Err(_)) => Err(failed("the thread for it died".to_owned())),
            Err(_) => Err(failed(format!("it did not answer within {} s", PATIENCE.as_secs()))),
        }
    }

    /// What is in an item, if there is one.
    async fn item<T>(
        &self,
        name: String,
        look: impl FnOnce(&Contents) -> Result<Option<T>, Flaw>,
    ) -> Result<Option<T>, StoreError> {
        let text = self.with("read", move |vault| vault.read(&name)).await?;
        let Some(text) = text else { return Ok(None) };
        Contents::parse(text.as_bytes())
            .and_then(|contents| look(&contents))
            .map_err(|flaw| StoreError::flawed(Path::new(PLACE), flaw))
    }

    async fn put(
        &self,
        name: String,
        change: impl FnOnce(&mut Contents) -> Result<(), Flaw>,
    ) -> Result<(), StoreError> {
        let mut contents = Contents::default();
        change(&mut contents).map_err(|flaw| StoreError::flawed(Path::new(PLACE), flaw))?;
        let unwritable = |_| StoreError::Vault { action: "write", reason: "it is no text".to_owned() };
        let text = String::from_utf8(contents.text().map_err(unwritable)?).unwrap_or_default();
        self.with("write", move |vault| vault.write(&name, &text)).await
    }
}

impl Store for VaultStore {
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            match self.item(of_account(&account), |contents| contents.sign_in(&account)).await? {
                None => self.file.sign_in(&account).await,
                found => Ok(found),
            }
        })
    }

    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            self.put(of_account(&account), |contents| contents.keep(&account, sign_in)).await?;
            if self.file.sign_in(&account).await?.is_some() {
                self.file.remove(&account).await?;
            }
            Ok(())
        })
    }

    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            let name = of_account(&account);
            let kept = self.item(name.clone(), |contents| contents.sign_in(&account)).await?;
            if kept.is_some() {
                self.with("change", move |vault| vault.forget(&name)).await?;
            }
            if self.file.sign_in(&account).await?.is_none() {
                return Ok(kept);
            }
            let older = self.file.remove(&account).await?;
            Ok(kept.or(older))
        })
    }

    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>> {
        let (issuer, profile) = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            match self.item(of_client(&issuer, &profile), |contents| contents.client(&issuer, &profile)).await? {
                None => self.file.client(&issuer, &profile).await,
                found => Ok(found),
            }
        })
    }

    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (issuer, profile) = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            let name = of_client(&issuer, &profile);
            self.put(name, |contents| contents.keep_client(&issuer, &profile, client)).await?;
            self.forget_in_file(&issuer, &profile).await
        })
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (issuer, profile) = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            let name = of_client(&issuer, &profile);
            self.with("change", move |vault| vault.forget(&name)).await?;
            self.forget_in_file(&issuer, &profile).await
        })
    }

    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>> {
        self.file.turn(account)
    }
}

impl VaultStore {
    async fn forget_in_file(&self, issuer: &str, profile: &str) -> Result<(), StoreError> {
        match self.file.client(issuer, profile).await? {
            Some(_) => self.file.forget_client(issuer, profile).await,
            None => Ok(()),
        }
    }
}

fn of_account(Account { endpoint, profile }: &Account) -> String {
    format!("sign-in {}", digest(&format!("{endpoint}\n{profile}")))
}

fn of_client(issuer: &str, profile: &str) -> String {
    format!("client {}", digest(&format!("{issuer}\n{profile}")))
}
