//! The content of the file. The only place where secrets are serialized.
//!
//! Entries are parsed one at a time, on demand. The others are written back unchanged, with keys that a later version may
//! have added.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_protocol::Secret;

use super::account::{Account, RegisteredClient, SignIn};

/// Version of the file format.
pub(super) const VERSION: u64 = 1;

/// All accounts and clients.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Contents {
    version: u64,
    #[serde(default)]
    accounts: Vec<Value>,
    #[serde(default)]
    clients: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Why the content is invalid. The messages of the JSON parser are not used: they quote the content.
#[derive(Debug)]
pub(super) enum InvalidContents {
    Corrupt(String),
    Newer(u64),
}

impl Default for Contents {
    fn default() -> Self {
        Self { version: VERSION, accounts: Vec::new(), clients: Vec::new(), rest: Map::new() }
    }
}

impl Contents {
    pub(super) fn parse(text: &[u8]) -> Result<Self, InvalidContents> {
        let whole: Value = serde_json::from_slice(text).map_err(|error| {
            InvalidContents::Corrupt(format!("invalid JSON at line {}, column {}", error.line(), error.column()))
        })?;
        // Checked first: a later format may have nothing else in common with this one.
        match whole.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(found) if found > VERSION => return Err(InvalidContents::Newer(found)),
            _ => return Err(InvalidContents::Corrupt("invalid `version`".to_owned())),
        }
        serde_json::from_value(whole)
            .map_err(|_| InvalidContents::Corrupt("`accounts` or `clients` is not a list".to_owned()))
    }

    pub(super) fn text(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    pub(super) fn sign_in(&self, account: &Account) -> Result<Option<SignIn>, InvalidContents> {
        let Some(entry) = self.accounts.iter().find(|entry| is_account(entry, account)) else { return Ok(None) };
        let entry = AccountEntry::deserialize(entry).map_err(|_| invalid_entry("account", &account.endpoint))?;
        Ok(Some(entry.sign_in))
    }

    pub(super) fn keep(&mut self, account: &Account, sign_in: SignIn) -> Result<(), InvalidContents> {
        let Account { endpoint, profile } = account.clone();
        let entry = serde_json::to_value(AccountEntry { endpoint, profile, sign_in });
        let entry = entry.map_err(|_| invalid_entry("account", &account.endpoint))?;
        put(&mut self.accounts, entry, |entry| is_account(entry, account));
        Ok(())
    }

    pub(super) fn remove(&mut self, account: &Account) -> Result<Option<SignIn>, InvalidContents> {
        let removed = self.sign_in(account)?;
        self.accounts.retain(|entry| !is_account(entry, account));
        Ok(removed)
    }

    pub(super) fn client(&self, issuer: &str, profile: &str) -> Result<Option<RegisteredClient>, InvalidContents> {
        let Some(entry) = self.clients.iter().find(|entry| is_client(entry, issuer, profile)) else { return Ok(None) };
        let entry = ClientEntry::deserialize(entry).map_err(|_| invalid_entry("client", issuer))?;
        Ok(Some(entry.client))
    }

    pub(super) fn keep_client(
        &mut self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> Result<(), InvalidContents> {
        let entry = ClientEntry { issuer: issuer.to_owned(), profile: profile.to_owned(), client };
        let entry = serde_json::to_value(entry).map_err(|_| invalid_entry("client", issuer))?;
        put(&mut self.clients, entry, |entry| is_client(entry, issuer, profile));
        Ok(())
    }

    pub(super) fn forget_client(&mut self, issuer: &str, profile: &str) {
        self.clients.retain(|entry| !is_client(entry, issuer, profile));
    }
}

fn is_account(entry: &Value, account: &Account) -> bool {
    has_text(entry, "endpoint", &account.endpoint) && has_text(entry, "profile", &account.profile)
}

fn is_client(entry: &Value, issuer: &str, profile: &str) -> bool {
    has_text(entry, "issuer", issuer) && has_text(entry, "profile", profile)
}

fn has_text(entry: &Value, field: &str, text: &str) -> bool {
    entry.get(field).and_then(Value::as_str) == Some(text)
}

/// Replaces an entry in place, so that other entries do not move in the file.
fn put(entries: &mut Vec<Value>, entry: Value, is_same: impl Fn(&Value) -> bool) {
    match entries.iter_mut().find(|entry| is_same(entry)) {
        Some(before) => *before = entry,
        None => entries.push(entry),
    }
}

fn invalid_entry(what: &str, whose: &str) -> InvalidContents {
    InvalidContents::Corrupt(format!("invalid {what} entry for {whose}"))
}

#[derive(Serialize, Deserialize)]
struct AccountEntry {
    endpoint: String,
    profile: String,
    #[serde(flatten, with = "SignInFields")]
    sign_in: SignIn,
}

#[derive(Serialize, Deserialize)]
struct ClientEntry {
    issuer: String,
    profile: String,
    #[serde(flatten, with = "ClientFields")]
    client: RegisteredClient,
}

/// The serialized form of a [`SignIn`], which is not `Serialize` itself so that it cannot be logged by accident.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SignIn")]
struct SignInFields {
    issuer: String,
    #[serde(with = "ClientFields")]
    client: RegisteredClient,
    #[serde(with = "exposed")]
    access: Secret,
    #[serde(default, with = "exposed_option", skip_serializing_if = "Option::is_none")]
    refresh: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    asked: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    #[serde(default, with = "exposed_option", skip_serializing_if = "Option::is_none")]
    dpop_key: Option<Secret>,
}

/// The serialized form of a [`RegisteredClient`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "RegisteredClient")]
struct ClientFields {
    id: String,
    #[serde(default, with = "exposed_option", skip_serializing_if = "Option::is_none")]
    secret: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret_expires_at: Option<u64>,
    token_endpoint_auth_method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redirect_uri: Option<String>,
}

mod exposed {
    use serde::{Deserialize, Deserializer, Serializer};
    use wharf_protocol::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::from)
    }
}

mod exposed_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use wharf_protocol::Secret;

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<Secret>, to: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Secret::from))
    }
}
