//! Tests of all stores, and of the file format.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wharf_protocol::Secret;
use wharf_testkit::{eventually, soon};

use super::file::MAX_FILE_BYTES;
use super::*;

fn account(name: &str) -> Account {
    Account { endpoint: format!("https://{name}.example/mcp"), profile: "default".to_owned() }
}

fn client() -> RegisteredClient {
    RegisteredClient {
        id: "client-1".to_owned(),
        secret: Some(Secret::new("hush-client")),
        secret_expires_at: Some(2_000_000_000),
        token_endpoint_auth_method: "client_secret_basic".to_owned(),
        redirect_uri: Some("http://127.0.0.1:3000/callback".to_owned()),
    }
}

fn sign_in(access: &str) -> SignIn {
    SignIn {
        issuer: "https://issuer.example".to_owned(),
        client: client(),
        access: Secret::new(access),
        refresh: Some(Secret::new("hush-refresh")),
        expires_at: Some(1_900_000_000),
        scopes: vec!["read".to_owned()],
        asked: vec!["read".to_owned(), "write".to_owned()],
        resource: Some("https://one.example/mcp".to_owned()),
        token_endpoint: "https://issuer.example/token".to_owned(),
        revocation_endpoint: Some("https://issuer.example/revoke".to_owned()),
        dpop_key: Some(Secret::new("hush-dpop-key")),
    }
}

/// Credentials with required fields only.
fn bare() -> SignIn {
    let client = RegisteredClient {
        secret: None,
        secret_expires_at: None,
        token_endpoint_auth_method: "none".to_owned(),
        ..client()
    };
    SignIn {
        client,
        refresh: None,
        expires_at: None,
        scopes: Vec::new(),
        asked: Vec::new(),
        resource: None,
        revocation_endpoint: None,
        dpop_key: None,
        ..sign_in("hush-bare")
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn parsed(store: &FileStore) -> Value {
    serde_json::from_slice(&std::fs::read(store.file()).unwrap()).unwrap()
}

/// Creates a store whose file has this content.
fn store_with(text: impl AsRef<[u8]>) -> (TempDir, FileStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::at(folder.path());
    std::fs::write(store.file(), text).unwrap();
    std::fs::set_permissions(store.file(), Permissions::from_mode(0o600)).unwrap();
    (folder, store)
}

/// Checks that a file is neither read nor changed, and returns the error.
async fn refusal(store: &FileStore) -> String {
    let before = std::fs::read(store.file()).unwrap();
    let modified = std::fs::metadata(store.file()).unwrap().modified().unwrap();
    let one = account("one");
    let why = store.sign_in(&one).await.unwrap_err();
    let others = [
        store.keep(&one, sign_in("hush-new")).await.unwrap_err(),
        store.remove(&one).await.unwrap_err(),
        store.client("https://issuer.example", "default").await.unwrap_err(),
        store.keep_client("https://issuer.example", "default", client()).await.unwrap_err(),
        store.forget_client("https://issuer.example", "default").await.unwrap_err(),
    ];
    for other in others {
        assert_eq!(other.to_string(), why.to_string());
    }
    assert!(!format!("{why} {why:?}").contains("hush"), "{why:?}");
    assert_eq!(std::fs::read(store.file()).unwrap(), before);
    assert_eq!(std::fs::metadata(store.file()).unwrap().modified().unwrap(), modified);
    why.to_string().replace(&store.file().display().to_string(), "FILE")
}

/// Checks the basic operations of a store through two handles.
async fn check_operations(store: &dyn Store, other: &dyn Store) {
    let one = account("one");
    let two = account("two");
    let work = Account { profile: "work".to_owned(), ..one.clone() };
    assert_eq!(store.sign_in(&one).await.unwrap(), None);
    assert_eq!(store.remove(&one).await.unwrap(), None);
    store.keep(&one, sign_in("hush-1")).await.unwrap();
    other.keep(&work, bare()).await.unwrap();
    assert_eq!(other.sign_in(&one).await.unwrap(), Some(sign_in("hush-1")));
    assert_eq!(store.sign_in(&work).await.unwrap(), Some(bare()));
    assert_eq!(store.sign_in(&two).await.unwrap(), None);
    other.keep(&one, sign_in("hush-2")).await.unwrap();
    assert_eq!(store.sign_in(&one).await.unwrap(), Some(sign_in("hush-2")));

    let issuer = "https://issuer.example";
    store.keep_client(issuer, "default", client()).await.unwrap();
    assert_eq!(other.remove(&one).await.unwrap(), Some(sign_in("hush-2")));
    assert_eq!(store.sign_in(&one).await.unwrap(), None);
    assert_eq!(store.sign_in(&work).await.unwrap(), Some(bare()));
    // The client outlives the credentials.
    assert_eq!(other.client(issuer, "default").await.unwrap(), Some(client()));
    assert_eq!(other.client(issuer, "work").await.unwrap(), None);
    assert_eq!(other.client("https://other.example", "default").await.unwrap(), None);
    other.keep_client(issuer, "default", bare().client).await.unwrap();
    assert_eq!(store.client(issuer, "default").await.unwrap(), Some(bare().client));
    other.forget_client(issuer, "default").await.unwrap();
    assert_eq!(store.client(issuer, "default").await.unwrap(), None);
}

/// Checks that renewals of an account are exclusive, through two handles and under a paused clock.
async fn check_renewal_guard(store: &dyn Store, other: &dyn Store) {
    let one = account("one");
    let two = account("two");
    let turn = store.turn(&one).await.unwrap();
    assert!(timeout(Duration::from_secs(1), other.turn(&one)).await.is_err());
    let _free = timeout(Duration::from_secs(1), other.turn(&two)).await.unwrap().unwrap();
    // The store can be read and changed meanwhile, as a refresh does.
    store.keep(&one, sign_in("hush-1")).await.unwrap();
    assert_eq!(other.sign_in(&one).await.unwrap(), Some(sign_in("hush-1")));
    let late = other.turn(&one).await.unwrap_err();
    assert!(matches!(late, StoreError::Busy { waited, .. } if waited == Duration::from_secs(60)), "{late:?}");
    drop(turn);
    let _next = timeout(Duration::from_secs(1), other.turn(&one)).await.unwrap().unwrap();
}

#[tokio::test]
async fn stored_credentials_are_visible_through_all_handles() {
    let folder = tempfile::tempdir().unwrap();
    check_operations(&FileStore::at(folder.path()), &FileStore::at(folder.path())).await;
    let store = MemoryStore::default();
    check_operations(&store, &store).await;
    let folder = tempfile::tempdir().unwrap();
    let chest = Arc::new(Chest::default());
    let vault = || VaultStore::new(Arc::clone(&chest) as _, FileStore::at(folder.path()));
    check_operations(&vault(), &vault()).await;
    assert!(!FileStore::at(folder.path()).file().exists());
}

/// A fake keychain.
#[derive(Default)]
struct Chest {
    texts: Mutex<BTreeMap<String, String>>,
    is_locked: AtomicBool,
}

impl Chest {
    fn open(&self) -> Result<MutexGuard<'_, BTreeMap<String, String>>, String> {
        if self.is_locked.load(Ordering::Relaxed) {
            return Err("it is locked".to_owned());
        }
        Ok(self.texts.lock().unwrap())
    }
}

impl Vault for Chest {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        Ok(self.open()?.get(name).cloned())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        self.open()?.insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    fn forget(&self, name: &str) -> Result<(), String> {
        self.open()?.remove(name);
        Ok(())
    }
}

#[tokio::test]
async fn credentials_in_an_older_file_move_into_the_vault() {
    let folder = tempfile::tempdir().unwrap();
    let chest = Arc::new(Chest::default());
    let file = FileStore::at(folder.path());
    let one = account("one");
    let two = account("two");
    file.keep(&one, sign_in("hush-1")).await.unwrap();
    file.keep(&two, sign_in("hush-2")).await.unwrap();
    file.keep_client("https://issuer.example", "default", client()).await.unwrap();
    let store = VaultStore::new(Arc::clone(&chest) as _, file.clone());
    assert_eq!(store.sign_in(&one).await.unwrap(), Some(sign_in("hush-1")));
    assert_eq!(store.client("https://issuer.example", "default").await.unwrap(), Some(client()));
    store.keep(&one, sign_in("hush-3")).await.unwrap();
    assert_eq!(
        (store.sign_in(&one).await.unwrap(), file.sign_in(&one).await.unwrap()),
        (Some(sign_in("hush-3")), None)
    );
    // Deleted credentials are deleted in both.
    assert_eq!(store.remove(&two).await.unwrap(), Some(sign_in("hush-2")));
    store.forget_client("https://issuer.example", "default").await.unwrap();
    let text = std::fs::read_to_string(file.file()).unwrap();
    assert!(!text.contains("hush"), "{text}");
    assert!(chest.texts.lock().unwrap().keys().all(|name| !name.contains("example")));
    chest.is_locked.store(true, Ordering::Relaxed);
    let why = store.sign_in(&one).await.unwrap_err().to_string();
    assert_eq!(why, "cannot read the keychain: it is locked");
    assert!(store.keep(&one, sign_in("hush-4")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn renewals_of_one_account_are_exclusive_and_other_accounts_do_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    eventually(check_renewal_guard(&FileStore::at(folder.path()), &FileStore::at(folder.path()))).await;
    let store = MemoryStore::default();
    eventually(check_renewal_guard(&store, &store)).await;
    // Processes with and without a keychain exclude each other too.
    let vault = VaultStore::new(Arc::new(Chest::default()), FileStore::at(folder.path()));
    eventually(check_renewal_guard(&FileStore::at(folder.path()), &vault)).await;
}

#[tokio::test]
async fn secrets_are_in_the_file_and_not_in_debug_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileStore::at(folder.path());
    let memory = MemoryStore::default();
    file.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    memory.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    let written = std::fs::read_to_string(file.file()).unwrap();
    for secret in ["hush-1", "hush-refresh", "hush-client", "hush-dpop-key"] {
        assert_eq!(written.matches(secret).count(), 1, "{secret}");
    }
    let printed = format!("{file:?} {memory:?} {:?}", file.sign_in(&account("one")).await);
    assert!(printed.contains("Secret(..)") && !printed.contains("hush"), "{printed}");
}

#[tokio::test]
async fn the_directory_and_its_files_are_private() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("deep/er");
    let store = FileStore::at(&folder);
    let _turn = store.turn(&account("one")).await.unwrap();
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    store.keep(&account("two"), sign_in("hush-2")).await.unwrap();
    assert_eq!([mode(&root.path().join("deep")), mode(&folder)], [0o700, 0o700]);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    // The file, its lock, and the lock of one account. No temporary file is left.
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writers = JoinSet::new();
    for number in 0..50 {
        let store = FileStore::at(folder.path());
        writers.spawn(async move {
            let account = account(&number.to_string());
            let sign_in = sign_in(&format!("hush-{number}"));
            // On a slow disk, some of them must try again.
            while let Err(error) = store.keep(&account, sign_in.clone()).await {
                assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
            }
        });
    }
    // Concurrent reads find complete files.
    let store = FileStore::at(folder.path());
    while let Some(written) = soon(writers.join_next()).await {
        written.unwrap();
        store.sign_in(&account("0")).await.unwrap();
    }
    assert_eq!(parsed(&store)["accounts"].as_array().unwrap().len(), 50);
    for number in 0..50 {
        let stored = store.sign_in(&account(&number.to_string())).await.unwrap();
        assert_eq!(stored, Some(sign_in(&format!("hush-{number}"))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_never_released_is_an_error_that_names_it() {
    let (folder, store) = store_with(r#"{"version":1}"#);
    let file = folder.path().join("credentials.lock");
    let held = std::fs::File::create(&file).unwrap();
    held.lock().unwrap();
    let error = eventually(store.keep(&account("one"), sign_in("hush-1"))).await.unwrap_err();
    let error = error.to_string().replace(&file.display().to_string(), "FILE");
    insta::assert_snapshot!(error, @"FILE was in use by another process for 10 s; try again later");
    // Reading does not wait.
    assert_eq!(store.sign_in(&account("one")).await.unwrap(), None);
    drop(held);
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
}

#[tokio::test]
async fn an_invalid_file_is_an_error_and_left_unchanged() {
    for text in ["", "{\"version\":1,\"hush\":\n\"hush\",,}", "[]", "{}", "{\"version\":\"hush\"}"] {
        let (_folder, store) = store_with(text);
        let why = refusal(&store).await;
        assert!(why.starts_with("FILE is corrupt: invalid "), "{text}: {why}");
    }
    let (_folder, store) = store_with("{\"version\":1,\"hush\":\n\"hush\",,}");
    insta::assert_snapshot!(refusal(&store).await, @"FILE is corrupt: invalid JSON at line 2, column 8; fix it, or move it away and sign in again");
    let (_folder, store) = store_with(r#"{"version":1,"accounts":"hush"}"#);
    insta::assert_snapshot!(refusal(&store).await, @"FILE is corrupt: `accounts` or `clients` is not a list; fix it, or move it away and sign in again");
    let (_folder, store) = store_with(" ".repeat(usize::try_from(MAX_FILE_BYTES).unwrap() + 1));
    insta::assert_snapshot!(refusal(&store).await, @"FILE is corrupt: larger than 4194304 bytes; fix it, or move it away and sign in again");
    let (_folder, store) = store_with(r#"{"version":2,"accounts":{"https://one.example/mcp":"hush"}}"#);
    insta::assert_snapshot!(refusal(&store).await, @"FILE has format 2, but only 1 is supported; upgrade, or move the file away and sign in again");
}

#[tokio::test]
async fn a_file_that_others_can_read_is_refused_until_it_is_private() {
    let (_folder, store) = store_with(r#"{"version":1}"#);
    for open in [0o640, 0o604, 0o620, 0o602] {
        std::fs::set_permissions(store.file(), Permissions::from_mode(open)).unwrap();
        assert_eq!(refusal(&store).await, "FILE is readable by other users; restrict it with `chmod 600 'FILE'`");
        assert_eq!(mode(&store.file()), open);
    }
    std::fs::set_permissions(store.file(), Permissions::from_mode(0o600)).unwrap();
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
}

#[tokio::test]
async fn a_pipe_or_directory_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::at(folder.path());
    std::fs::create_dir(store.file()).unwrap();
    let error = store.keep(&account("one"), sign_in("hush-1")).await.unwrap_err();
    assert!(matches!(error, StoreError::Broken { .. }), "{error:?}");
    let store = FileStore::at(folder.path().join("credentials.lock/below"));
    let error = store.sign_in(&account("one")).await.unwrap_err();
    assert!(matches!(error, StoreError::Disk { action: "read", .. }), "{error:?}");
}

#[tokio::test]
async fn an_invalid_entry_does_not_affect_others_and_can_be_replaced() {
    let (_folder, store) = store_with(
        r#"{"version":1,"accounts":[7,{"endpoint":"https://one.example/mcp","profile":"default","access":["hush"]}]}"#,
    );
    store.keep(&account("two"), sign_in("hush-2")).await.unwrap();
    let error = store.sign_in(&account("one")).await.unwrap_err();
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    let error = error.to_string().replace(&store.file().display().to_string(), "FILE");
    insta::assert_snapshot!(error, @"FILE is corrupt: invalid account entry for https://one.example/mcp; fix it, or move it away and sign in again");
    assert!(store.remove(&account("one")).await.is_err());
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    assert_eq!(store.sign_in(&account("one")).await.unwrap(), Some(sign_in("hush-1")));
    assert_eq!(store.sign_in(&account("two")).await.unwrap(), Some(sign_in("hush-2")));
    assert_eq!(parsed(&store)["accounts"][0], 7);
}

#[tokio::test]
async fn a_file_of_the_first_release_is_read() {
    let entry = r#""issuer": "https://issuer.example", "profile": "default""#;
    let client_fields = r#""id": "client-1", "secret": "hush-client", "secret_expires_at": 2000000000,
        "token_endpoint_auth_method": "client_secret_basic", "redirect_uri": "http://127.0.0.1:3000/callback""#;
    let (_folder, store) = store_with(format!(
        r#"{{"version": 1, "accounts": [{{"endpoint": "https://one.example/mcp", {entry}, "client": {{{client_fields}}},
            "access": "hush-access", "refresh": "hush-refresh", "expires_at": 1900000000, "scopes": ["read"],
            "asked": ["read", "write"], "resource": "https://one.example/mcp",
            "token_endpoint": "https://issuer.example/token",
            "revocation_endpoint": "https://issuer.example/revoke"}}],
        "clients": [{{{entry}, {client_fields}}}]}}"#
    ));
    let stored = store.sign_in(&account("one")).await.unwrap();
    // Sender-constrained tokens came later.
    assert_eq!(stored, Some(SignIn { dpop_key: None, ..sign_in("hush-access") }));
    assert_eq!(store.client("https://issuer.example", "default").await.unwrap(), Some(client()));
}

#[tokio::test]
async fn unknown_keys_are_preserved() {
    let (_folder, store) = store_with("");
    std::fs::remove_file(store.file()).unwrap();
    let issuer = "https://issuer.example";
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    store.keep_client(issuer, "default", client()).await.unwrap();
    let mut later = parsed(&store);
    later["since"] = json!("later");
    later["accounts"][0]["dpop"] = json!({ "key": [1, 2.5, null] });
    later["accounts"][0]["client"]["jwks"] = json!("later");
    later["clients"][0]["software"] = json!("later");
    std::fs::write(store.file(), later.to_string()).unwrap();
    // Known keys can be read.
    assert_eq!(store.sign_in(&account("one")).await.unwrap(), Some(sign_in("hush-1")));
    assert_eq!(store.client(issuer, "default").await.unwrap(), Some(client()));
    store.keep(&account("two"), bare()).await.unwrap();
    store.keep_client(issuer, "work", client()).await.unwrap();
    store.remove(&account("two")).await.unwrap();
    store.forget_client(issuer, "work").await.unwrap();
    assert_eq!(parsed(&store), later);
}

#[tokio::test]
async fn an_interrupted_write_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::at(folder.path());
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    // Files of a crashed process with the same id, with the names that this one would use next.
    let left: Vec<_> = (0..1000)
        .map(|number| folder.path().join(format!(".{}.{number}.credentials.json", std::process::id())))
        .collect();
    for file in &left {
        std::fs::write(file, "{\"version\":1,").unwrap();
    }
    store.keep(&account("two"), sign_in("hush-2")).await.unwrap();
    assert_eq!(store.sign_in(&account("one")).await.unwrap(), Some(sign_in("hush-1")));
    assert_eq!(store.sign_in(&account("two")).await.unwrap(), Some(sign_in("hush-2")));
    assert!(left.iter().all(|file| std::fs::read(file).unwrap() == b"{\"version\":1,"));
}

#[tokio::test]
async fn a_full_file_rejects_writes_and_can_still_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::at(folder.path());
    store.keep(&account("one"), sign_in("hush-1")).await.unwrap();
    let long = "x".repeat(usize::try_from(MAX_FILE_BYTES).unwrap());
    let error = store.keep(&account("two"), sign_in(&long)).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }));
    assert_eq!(store.sign_in(&account("one")).await.unwrap(), Some(sign_in("hush-1")));
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changes() {
    let (folder, store) = store_with(r#"{"version":1}"#);
    store.remove(&account("one")).await.unwrap();
    store.forget_client("https://issuer.example", "default").await.unwrap();
    assert_eq!(std::fs::read(store.file()).unwrap(), br#"{"version":1}"#);
    let empty = FileStore::at(folder.path().join("empty"));
    assert_eq!(empty.sign_in(&account("one")).await.unwrap(), None);
    assert!(!folder.path().join("empty").exists());
}
