//! Where sign-ins are kept: in memory, or in one file that only its owner can read, written by one process at a time.
//!
//! A sign-in is found by where the server is, never by what somebody calls it: a name that is given to another server
//! must not bring a token along. This keeps and returns what it is given; whether it is still good, and for whom, is for
//! the caller to say.

mod contents;
mod error;
mod file;
mod lock;
mod memory;
#[cfg(test)]
mod tests;
mod vault;

use std::fmt;

use futures_util::future::BoxFuture;
use wharf_protocol::Secret;

pub use error::StoreError;
pub use file::FileStore;
pub(super) use file::REPLACE_OPTIONS;
pub(super) use lock::{lock, on_disk};
pub use memory::MemoryStore;
pub use vault::{Vault, VaultStore};

/// Whose sign-in it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// The canonical URL of the server.
    pub endpoint: String,
    /// Tells people apart who sign in to the same server.
    pub profile: String,
}

/// One sign-in: who gave it, as which client, and the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// Who gave the tokens. They are for nobody else: compare it before they are used.
    pub issuer: String,
    /// Who we are to the issuer.
    pub client: RegisteredClient,
    /// What is shown to the server.
    pub access: Secret,
    /// What is exchanged for new tokens.
    pub refresh: Option<Secret>,
    /// When the access token ends, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// What was granted.
    pub scopes: Vec<String>,
    /// Whatever was ever asked for, so that asking for more does not lose what there was.
    pub asked: Vec<String>,
    /// What the tokens are for, if the issuer was told.
    pub resource: Option<String>,
    /// Where new tokens come from.
    pub token_endpoint: String,
    /// Where tokens are given back.
    pub revocation_endpoint: Option<String>,
}

/// Who we are to an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisteredClient {
    /// The name it knows us by.
    pub id: String,
    /// What proves that we are the one, if anything does.
    pub secret: Option<Secret>,
    /// When the secret ends, in seconds since 1970.
    pub secret_expires_at: Option<u64>,
    /// How the secret is shown, in OAuth's words: `none`, `client_secret_basic`, `client_secret_post`.
    pub token_endpoint_auth_method: String,
    /// Where people come back to, as it was registered.
    pub redirect_uri: Option<String>,
}

/// Keeps sign-ins, and who we are to those who give them.
///
/// Others may change what is kept at any time, so every question is answered with the newest there is.
pub trait Store: Send + Sync + 'static {
    /// The sign-in of an account.
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>>;

    /// Keeps the sign-in of an account, in place of the one before.
    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Forgets the sign-in of an account, and returns it: its tokens can still be given back.
    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>>;

    /// Who we are to an issuer. That is known to it even when nobody is signed in, so it outlives sign-ins.
    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>>;

    /// Keeps who we are to an issuer, in place of who we were before.
    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Forgets who we are to an issuer, because it has.
    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Waits for the turn to renew an account's sign-in. One at a time has it, among all who share the store.
    ///
    /// Most refresh tokens are good for one use: two who renew at once end the sign-in. Ask for the sign-in again once it
    /// is your turn, as another may have renewed it meanwhile.
    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>>;
}

/// The turn to renew a sign-in, until it is dropped.
#[must_use = "the turn ends when this is dropped"]
pub struct RenewalGuard {
    _held: Box<dyn Send>,
}

impl RenewalGuard {
    /// A turn that ends when what is held is dropped.
    pub fn holding(held: impl Send + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for RenewalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn(..)")
    }
}
