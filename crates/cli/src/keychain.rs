//! The keychain of the system, where this binary was built with one: the Secret Service on Linux, the Keychain on macOS.

use std::path::Path;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use keyring_core::{CredentialStore, Entry, Error};
use wharf::auth::Vault;

/// How long is waited for it to be there.
const PATIENCE: Duration = Duration::from_secs(10);

static FOUND: OnceLock<Result<Arc<CredentialStore>, String>> = OnceLock::new();

/// The items of one folder of sign-ins: another folder is another person's.
pub(crate) struct Keychain {
    store: Arc<CredentialStore>,
    service: String,
}

impl Keychain {
    /// The keychain, if there is one; if not, why not.
    pub(crate) fn of(folder: &Path) -> Result<Self, String> {
        let store = FOUND.get_or_init(found).clone()?;
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

/// Looks for it on a thread of its own: whoever guards it may never answer.
fn found() -> Result<Arc<CredentialStore>, String> {
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let opened = open().map_err(|error| error.to_string()).and_then(|store| {
            // A bus may be there, and nobody on it who keeps anything.
            let keychain = Keychain { store: Arc::clone(&store), service: "wharf".to_owned() };
            keychain.read("is anybody there").map(|_| store)
        });
        let _ = tell.send(opened);
    });
    hear.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("it does not answer".to_owned()))
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
    use wharf::auth::{Account, Client, FileStore, SignIn, Store as _, VaultStore};

    use super::*;

    fn sign_in(access: &str) -> SignIn {
        SignIn {
            issuer: "https://issuer.example".to_owned(),
            client: Client::public("me"),
            access: Secret::new(access),
            refresh: Some(Secret::new("r")),
            expires_at: None,
            scopes: Vec::new(),
            asked: Vec::new(),
            resource: None,
            token_endpoint: "https://issuer.example/token".to_owned(),
            revocation_endpoint: None,
        }
    }

    #[tokio::test]
    async fn sign_ins_are_in_the_keychain_and_in_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<CredentialStore> = keyring_core::mock::Store::new().expect("it keeps nothing");
        let of = |service: &str| {
            let keychain = Keychain { store: Arc::clone(&store), service: service.to_owned() };
            VaultStore::new(Arc::new(keychain), FileStore::at(folder.path()))
        };
        let one = Account { endpoint: "https://one.example/mcp".to_owned(), profile: "default".to_owned() };
        let work = Account { profile: "work".to_owned(), ..one.clone() };
        of("a").keep(&one, sign_in("1")).await.expect("it is kept");
        of("a").keep(&one, sign_in("2")).await.expect("it is kept");
        assert_eq!(of("a").sign_in(&one).await.expect("it is there"), Some(sign_in("2")));
        assert_eq!(of("a").sign_in(&work).await.expect("it can be asked"), None);
        assert_eq!(of("b").sign_in(&one).await.expect("it can be asked"), None);
        assert!(!FileStore::at(folder.path()).file().exists());
        assert_eq!(of("a").remove(&one).await.expect("it is there"), Some(sign_in("2")));
        assert_eq!(of("a").remove(&one).await.expect("it can be asked"), None);
        assert_eq!(of("a").sign_in(&one).await.expect("it can be asked"), None);
    }
}
