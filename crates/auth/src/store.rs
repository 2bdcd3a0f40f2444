//! Stores credentials: in memory, in a file that only its owner can read, or in the system's keychain.
//!
//! Credentials are found by the URL of the server, never by its name: a name that is given to another server must not
//! bring a token along. A store returns what it was given; the caller checks whether it is still valid, and for whom.

mod account;
mod contents;
mod error;
mod file;
mod interface;
mod lock;
mod memory;
#[cfg(test)]
mod tests;
mod vault;

pub use account::{Account, RegisteredClient, SignIn};
pub use error::StoreError;
pub use file::FileStore;
pub(super) use file::REPLACE_OPTIONS;
pub use interface::{RenewalGuard, Store};
pub(super) use lock::{lock, on_disk};
pub use memory::MemoryStore;
pub use vault::{Vault, VaultStore};
