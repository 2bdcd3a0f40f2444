//! What is in the file, and the only place where secrets become text.
//!
//! Entries are taken apart one at a time, when they are asked for. The others are written back as they were found, with
//! whatever a later version of this program has put into them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_protocol::Secret;

use super::{Account, RegisteredClient, SignIn};

/// The format of the file.
pub(super) const VERSION: u64 = 1;

/// All that is kept.
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

/// Why contents are not understood. The words of the JSON parser are not used: they quote what they stumble over.
#[derive(Debug)]
pub(super) enum Flaw {
    Broken(String),
    Newer(u64),
}

impl Default for Contents {
    fn default() -> Self {
        Self { version: VERSION, accounts: Vec::new(), clients: Vec::new(), rest: Map::new() }
    }
}

impl Contents {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Flaw> {
        let whole: Value = serde_json::from_slice(text).map_err(|error| {
            Flaw::Broken(format!("it is no JSON at line {}, column {}", error.line(), error.column()))
        })?;
        // First of all, as a later format may have nothing else in common with this one.
        match whole.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(found) if found > VERSION => return Err(Flaw::Newer(found)),
            _ => return Err(Flaw::Broken("its `version` is none that ever was".to_owned())),
        }
        serde_json::from_value(whole).map_err(|_| Flaw::Broken("`accounts` or `clients` is no list".to_owned()))
    }

    pub(super) fn text(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }

    pub(super) fn sign_in(&self, account: &Account) -> Result<Option<SignIn>, Flaw> {
        let Some(entry) = self.accounts.iter().find(|entry| is_of(entry, account)) else { return Ok(None) };
        let entry = AccountEntry::deserialize(entry).map_err(|_| unclear("account", &account.endpoint))?;
        Ok(Some(entry.sign_in))
    }

    pub(super) fn keep(&mut self, account: &Account, sign_in: SignIn) -> Result<(), Flaw> {
        let Account { endpoint, profile } = account.clone();
        let entry = serde_json::to_value(AccountEntry { endpoint, profile, sign_in });
        let entry = entry.map_err(|_| unclear("account", &account.endpoint))?;
        put(&mut self.accounts, entry, |entry| is_of(entry, account));
        Ok(())
    }

    pub(super) fn remove(&mut self, account: &Account) -> Result<Option<SignIn>, Flaw> {
        let removed = self.sign_in(account)?;
        self.accounts.retain(|entry| !is_of(entry, account));
        Ok(removed)
    }

    pub(super) fn client(&self, issuer: &str, profile: &str) -> Result<Option<RegisteredClient>, Flaw> {
        let Some(entry) = self.clients.iter().find(|entry| is_at(entry, issuer, profile)) else { return Ok(None) };
        let entry = ClientEntry::deserialize(entry).map_err(|_| unclear("client", issuer))?;
        Ok(Some(entry.client))
    }

    pub(super) fn keep_client(&mut self, issuer: &str, profile: &str, client: RegisteredClient) -> Result<(), Flaw> {
        let entry = ClientEntry { issuer: issuer.to_owned(), profile: profile.to_owned(), client };
        let entry = serde_json::to_value(entry).map_err(|_| unclear("client", issuer))?;
        put(&mut self.clients, entry, |entry| is_at(entry, issuer, profile));
        Ok(())
    }

    pub(super) fn forget_client(&mut self, issuer: &str, profile: &str) {
        self.clients.retain(|entry| !is_at(entry, issuer, profile));
    }
}

fn is_of(entry: &Value, account: &Account) -> bool {
    has(entry, "endpoint", &account.endpoint) && has(entry, "profile", &account.profile)
}

fn is_at(entry: &Value, issuer: &str, profile: &str) -> bool {
    has(entry, "issuer", issuer) && has(entry, "profile", profile)
}

fn has(entry: &Value, field: &str, text: &str) -> bool {
    entry.get(field).and_then(Value::as_str) == Some(text)
}

/// In place of the entry there was, so that nothing moves in the file that has not changed.
fn put(entries: &mut Vec<Value>, entry: Value, is_same: impl Fn(&Value) -> bool) {
    match entries.iter_mut().find(|entry| is_same(entry)) {
        Some(before) => *before = entry,
        None => entries.push(entry),
    }
}

fn unclear(what: &str, whose: &str) -> Flaw {
    Flaw::Broken(format!("its {what} entry for {whose} is not understood"))
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

/// How a [`SignIn`] is written. It is not `Serialize` itself, or else any log could write it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SignIn")]
struct SignInFields {
    issuer: String,
    #[serde(with = "ClientFields")]
    client: RegisteredClient,
    #[serde(with = "exposed")]
    access: Secret,
    #[serde(default, with = "exposed_if_any", skip_serializing_if = "Option::is_none")]
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
}

/// How a [`RegisteredClient`] is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RegisteredClient")]
struct ClientFields {
    id: String,
    #[serde(default, with = "exposed_if_any", skip_serializing_if = "Option::is_none")]
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

mod exposed_if_any {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use wharf_protocol::Secret;

    #[expect(clippy::ref_option, reason = "this is how it is called")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<Secret>, to: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Secret::from))
    }
}
