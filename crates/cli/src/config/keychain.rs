//! The system's keychain: the Secret Service on Linux, the Keychain on macOS. Needs the feature `keychain`.

use std::path::Path;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use keyring_core::{CredentialStore, Entry, Error};
use wharf::auth::Vault;

const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

static STORE: OnceLock<Result<Arc<CredentialStore>, String>> = OnceLock::new();

/// The credentials of one `auth` directory; another directory has its own.
pub(super) struct Keychain {
    store: Arc<CredentialStore>,
    service: String,
}

impl Keychain {
    /// Returns the keychain, or why none is available.
    pub(super) fn of(folder: &Path) -> Result<Self, String> {
        let store = STORE.get_or_init(open_in_time).clone()?;
        Ok(Self { store, service: format!("wharf: {}", folder.display()) })
    }

    fn entry(&self, name: &str) -> Result<Entry, String> {
        self.store.build(&self.service, name, None).map_err(|error| error.to_string())
    }
}

impl Vault for Keychain {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        match self.entry(name)?.get_password() {
            Ok(text) => Ok(Some(text)),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        self.entry(name)?.set_password(text).map_err(|error| error.to_string())
    }

    fn forget(&self, name: &str) -> Result<(), String> {
        match self.entry(name)?.delete_credential() {
            Ok(()) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Opens the keychain on its own thread: the service may never answer.
fn open_in_time() -> Result<Arc<CredentialStore>, String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let opened = open().map_err(|error| error.to_string()).and_then(|store| {
            // D-Bus may run without a secret service on it.
            let keychain = Keychain { store: Arc::clone(&store), service: "wharf".to_owned() };
            keychain.read("probe").map(|_| store)
        });
        let _ = sender.send(opened);
    });
    receiver.recv_timeout(OPEN_TIMEOUT).unwrap_or_else(|_| Err("it does not respond".to_owned()))
}

#[cfg(target_os = "macos")]
fn open() -> keyring_core::Result<Arc<CredentialStore>> {
    Ok(apple_native_keyring_store::keychain::Store::new()?)
}

#[cfg(not(target_os = "macos"))]
fn open() -> keyring_core::Result<Arc<CredentialStore>> {
    Ok(zbus_secret_service_keyring_store::Store::new()?)
}

#[cfg(test)]
mod tests {
    use wharf::Secret;
    use wharf::auth::{Account, FileStore, RegisteredClient, SignIn, Store as _, VaultStore};

    use super::*;

    fn sign_in(access: &str) -> SignIn {
        SignIn {
            issuer: "https://issuer.example".to_owned(),
            client: RegisteredClient::public("me"),
            access: Secret::new(access),
            refresh: Some(Secret::new("r")),
            expires_at: None,
            scopes: Vec::new(),
            asked: Vec::new(),
            resource: None,
            token_endpoint: "https://issuer.example/token".to_owned(),
            revocation_endpoint: None,
            dpop_key: None,
        }
    }

    #[tokio::test]
    async fn credentials_are_stored_in_the_keychain_and_in_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<CredentialStore> = keyring_core::mock::Store::new().expect("a store");
        let of = |service: &str| {
            let keychain = Keychain { store: Arc::clone(&store), service: service.to_owned() };
            VaultStore::new(Arc::new(keychain), FileStore::at(folder.path()))
        };
        let one = Account { endpoint: "https://one.example/mcp".to_owned(), profile: "default".to_owned() };
        let work = Account { profile: "work".to_owned(), ..one.clone() };
        of("a").keep(&one, sign_in("1")).await.expect("stored");
        of("a").keep(&one, sign_in("2")).await.expect("stored");
        assert_eq!(of("a").sign_in(&one).await.expect("found"), Some(sign_in("2")));
        assert_eq!(of("a").sign_in(&work).await.expect("readable"), None);
        assert_eq!(of("b").sign_in(&one).await.expect("readable"), None);
        assert!(!FileStore::at(folder.path()).file().exists());
        assert_eq!(of("a").remove(&one).await.expect("found"), Some(sign_in("2")));
        assert_eq!(of("a").remove(&one).await.expect("readable"), None);
        assert_eq!(of("a").sign_in(&one).await.expect("readable"), None);
    }
}
