//! Stores credentials in a keychain of the system, each account in its own item.
//!
//! Credentials in an older file are used, and move into the keychain when they are next stored. Locks are those of the file
//! store, so that one process at a time refreshes tokens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use wharf_io::digest;

use super::account::{Account, RegisteredClient, SignIn};
use super::contents::{Contents, InvalidContents};
use super::error::StoreError;
use super::file::FileStore;
use super::interface::{RenewalGuard, Store};

/// Timeout of a keychain operation: some keychains prompt the user to unlock them.
const VAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The name of the vault in errors.
const VAULT_NAME: &str = "the keychain";

/// A keychain that stores secret texts by name. Its methods may block. Their errors must not quote a text.
pub trait Vault: Send + Sync + 'static {
    /// Returns the text with a name.
    ///
    /// # Errors
    /// If the keychain cannot be read, with the reason.
    fn read(&self, name: &str) -> Result<Option<String>, String>;

    /// Stores a text, and replaces an earlier one.
    ///
    /// # Errors
    /// If the keychain cannot be written, with the reason.
    fn write(&self, name: &str, text: &str) -> Result<(), String>;

    /// Deletes a text, if it exists.
    ///
    /// # Errors
    /// If the keychain cannot be written, with the reason.
    fn forget(&self, name: &str) -> Result<(), String>;
}

/// Stores credentials in a [`Vault`].
#[derive(Clone)]
pub struct VaultStore {
    vault: Arc<dyn Vault>,
    file: FileStore,
}

impl VaultStore {
    /// Creates a store from a vault, and a file store for older credentials and for locks.
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
        match tokio::time::timeout(VAULT_TIMEOUT, tokio::task::spawn_blocking(move || work(&*vault))).await {
            Ok(Ok(done)) => done.map_err(failed),
            Ok(Err(_)) => Err(failed("the worker thread panicked".to_owned())),
            Err(_) => Err(failed(format!("no response within {} s", VAULT_TIMEOUT.as_secs()))),
        }
    }

    /// Reads an item, if it exists.
    async fn item<T>(
        &self,
        name: String,
        get: impl FnOnce(&Contents) -> Result<Option<T>, InvalidContents>,
    ) -> Result<Option<T>, StoreError> {
        let text = self.with("read", move |vault| vault.read(&name)).await?;
        let Some(text) = text else { return Ok(None) };
        Contents::parse(text.as_bytes())
            .and_then(|contents| get(&contents))
            .map_err(|invalid| StoreError::invalid(Path::new(VAULT_NAME), invalid))
    }

    async fn put(
        &self,
        name: String,
        change: impl FnOnce(&mut Contents) -> Result<(), InvalidContents>,
    ) -> Result<(), StoreError> {
        let mut contents = Contents::default();
        change(&mut contents).map_err(|invalid| StoreError::invalid(Path::new(VAULT_NAME), invalid))?;
        let unwritable =
            |_| StoreError::Vault { action: "write", reason: "the content cannot be serialized".to_owned() };
        let text = String::from_utf8(contents.text().map_err(unwritable)?).unwrap_or_default();
        self.with("write", move |vault| vault.write(&name, &text)).await
    }
}

impl Store for VaultStore {
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            match self.item(account_item(&account), |contents| contents.sign_in(&account)).await? {
                None => self.file.sign_in(&account).await,
                found => Ok(found),
            }
        })
    }

    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            self.put(account_item(&account), |contents| contents.keep(&account, sign_in)).await?;
            if self.file.sign_in(&account).await?.is_some() {
                self.file.remove(&account).await?;
            }
            Ok(())
        })
    }

    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            let name = account_item(&account);
            let stored = self.item(name.clone(), |contents| contents.sign_in(&account)).await?;
            if stored.is_some() {
                self.with("change", move |vault| vault.forget(&name)).await?;
            }
            if self.file.sign_in(&account).await?.is_none() {
                return Ok(stored);
            }
            let older = self.file.remove(&account).await?;
            Ok(stored.or(older))
        })
    }

    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>> {
        let issuer = issuer.to_owned();
        let profile = profile.to_owned();
        Box::pin(async move {
            match self.item(client_item(&issuer, &profile), |contents| contents.client(&issuer, &profile)).await? {
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
        let issuer = issuer.to_owned();
        let profile = profile.to_owned();
        Box::pin(async move {
            let name = client_item(&issuer, &profile);
            self.put(name, |contents| contents.keep_client(&issuer, &profile, client)).await?;
            self.forget_in_file(&issuer, &profile).await
        })
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let issuer = issuer.to_owned();
        let profile = profile.to_owned();
        Box::pin(async move {
            let name = client_item(&issuer, &profile);
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

fn account_item(Account { endpoint, profile }: &Account) -> String {
    format!("sign-in {}", digest(&format!("{endpoint}\n{profile}")))
}

fn client_item(issuer: &str, profile: &str) -> String {
    format!("client {}", digest(&format!("{issuer}\n{profile}")))
}
