//! Sign-ins that end with the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::{Account, RegisteredClient, RenewalGuard, SignIn, Store, StoreError};

/// How long others may take to renew a sign-in: they wait for its issuer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sign-ins in memory, for a host that keeps them nowhere, and for tests.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    accounts: BTreeMap<Account, SignIn>,
    /// By issuer and profile.
    clients: BTreeMap<(String, String), RegisteredClient>,
    turns: BTreeMap<Account, Arc<Semaphore>>,
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move { Ok(self.kept().accounts.get(&account).cloned()) })
    }

    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>> {
        let account = account.clone();
        Box::pin(async move {
            self.kept().accounts.insert(account, sign_in);
            Ok(())
        })
    }

    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        let account = account.clone();
        Box::pin(async move { Ok(self.kept().accounts.remove(&account)) })
    }

    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move { Ok(self.kept().clients.get(&key).cloned()) })
    }

    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            self.kept().clients.insert(key, client);
            Ok(())
        })
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let key = (issuer.to_owned(), profile.to_owned());
        Box::pin(async move {
            self.kept().clients.remove(&key);
            Ok(())
        })
    }

    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>> {
        let one = Arc::clone(self.kept().turns.entry(account.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))));
        let what = format!("the sign-in to {}", account.endpoint);
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, one.acquire_owned()).await {
                Ok(Ok(turn)) => Ok(RenewalGuard::holding(turn)),
                _ => Err(StoreError::Busy { what, waited: PATIENCE }),
            }
        })
    }
}
