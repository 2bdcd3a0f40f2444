//! Stores credentials for the lifetime of the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::account::{Account, RegisteredClient, SignIn};
use super::error::StoreError;
use super::interface::{RenewalGuard, Store};

/// Maximum time to wait for a concurrent refresh, which waits for the issuer.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Stores credentials in memory, for hosts without persistent storage and for tests.
#[derive(Debug, Default)]
pub struct MemoryStore {
    contents: Mutex<StoredAccounts>,
}

#[derive(Debug, Default)]
struct StoredAccounts {
    accounts: BTreeMap<Account, SignIn>,
    /// By issuer and profile.
    clients: BTreeMap<(String, String), RegisteredClient>,
    turns: BTreeMap<Account, Arc<Semaphore>>,
}

impl MemoryStore {
    fn contents(&self) -> MutexGuard<'_, StoredAccounts> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move { Ok(self.contents().accounts.get(&account).cloned()) })
    }

    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            self.contents().accounts.insert(account, sign_in);
            Ok(())
        })
    }

    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move { Ok(self.contents().accounts.remove(&account)) })
    }

    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move { Ok(self.contents().clients.get(&key).cloned()) })
    }

    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            self.contents().clients.insert(key, client);
            Ok(())
        })
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            self.contents().clients.remove(&key);
            Ok(())
        })
    }

    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>> {
        let semaphore =
            Arc::clone(self.contents().turns.entry(account.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))));
        let what = format!("the account at {}", account.endpoint);
        Box::pin(async move {
            match tokio::time::timeout(RENEWAL_TIMEOUT, semaphore.acquire_owned()).await {
                Ok(Ok(turn)) => Ok(RenewalGuard::holding(turn)),
                _ => Err(StoreError::Busy { what, waited: RENEWAL_TIMEOUT }),
            }
        })
    }
}
