//! The interface of a store.

use std::fmt;

use futures_util::future::BoxFuture;

use super::account::{Account, RegisteredClient, SignIn};
use super::error::StoreError;

/// Stores credentials and registered clients.
///
/// Other processes may change the store at any time, so every method reads the latest content.
pub trait Store: Send + Sync + 'static {
    /// Returns the credentials of an account.
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>>;

    /// Stores the credentials of an account, and replaces earlier ones.
    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Deletes the credentials of an account. Returns them, so that the tokens can be revoked.
    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>>;

    /// Returns the client that is registered with an issuer. It outlives the credentials of accounts.
    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>>;

    /// Stores the client that is registered with an issuer, and replaces an earlier one.
    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Deletes a client that the issuer no longer knows.
    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Waits for the exclusive right to refresh the tokens of an account, among all processes that share the store.
    ///
    /// Most refresh tokens are single-use: two concurrent refreshes would invalidate them. Read the credentials again
    /// after this returns, since another process may have refreshed them.
    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>>;
}

/// The exclusive right to refresh the tokens of an account. Released on drop.
#[must_use = "the right is released when this is dropped"]
pub struct RenewalGuard {
    _held: Box<dyn Send>,
}

impl RenewalGuard {
    /// Creates a guard that holds a value, such as a lock, until it is dropped.
    pub fn holding(held: impl Send + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for RenewalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RenewalGuard(..)")
    }
}
