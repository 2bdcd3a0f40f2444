//! Clients, codes and tokens, and who may have which.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{ProviderConfig, Registration, SCOPE};

/// Counts secrets, so that no two are the same, not even of two providers.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Names and values of a form.
pub(super) type Form = BTreeMap<String, String>;

#[derive(Default)]
pub(super) struct Grants {
    clients: HashMap<String, KnownClient>,
    codes: HashMap<String, Code>,
    access: HashMap<String, Access>,
    refresh: HashMap<String, Refresh>,
    /// Whether the sign-in of that number has ended.
    ended: Vec<bool>,
    clients_made: u64,
    pub(super) renewals: usize,
    pub(super) reuses: usize,
    pub(super) grace_uses: usize,
    pub(super) secrets: Vec<String>,
}

struct KnownClient {
    secret: Option<String>,
    method: String,
}

struct Code {
    client: String,
    redirect_uri: String,
    challenge: String,
    resource: String,
    scope: String,
}

struct Access {
    family: usize,
    scope: String,
    until: Instant,
}

struct Refresh {
    family: usize,
    client: String,
    scope: String,
    resource: String,
    used: Option<Instant>,
}

/// What is wrong with a request for tokens.
pub(super) struct Complaint(pub(super) u16, pub(super) &'static str);

impl Grants {
    pub(super) fn add_client(&mut self, id: &str, secret: Option<&str>, method: &str) {
        self.secrets.extend(secret.map(str::to_owned));
        let known = KnownClient { secret: secret.map(str::to_owned), method: method.to_owned() };
        self.clients.insert(id.to_owned(), known);
    }

    pub(super) fn forget_clients(&mut self) {
        self.clients.clear();
    }

    pub(super) fn expire(&mut self) {
        self.access.clear();
    }

    pub(super) fn revoke_all(&mut self) {
        self.ended.fill(true);
    }

    /// Registers a client, or takes one that describes itself at an address.
    pub(super) fn register(&mut self, wanted: &Value, config: &ProviderConfig) -> Value {
        self.clients_made += 1;
        let id = format!("client-{:05}", self.clients_made);
        let (secret, method) = match config.registration {
            Registration::Public => (None, "none"),
            Registration::Secret(method) => (Some(self.secret("client-secret")), method),
        };
        self.add_client(&id, secret.as_deref(), method);
        let mut registered = json!({
            "client_id": id,
            "redirect_uris": wanted["redirect_uris"],
            "token_endpoint_auth_method": method,
        });
        if let Some(secret) = secret {
            registered["client_secret"] = secret.into();
            registered["client_secret_expires_at"] = 0.into();
        }
        registered
    }

    /// A code for a person who is signed in; the reason if they have to see a page about an error instead.
    pub(super) fn code(&mut self, asked: &Form, config: &ProviderConfig) -> Result<String, &'static str> {
        let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
        let client = get("client_id");
        self.secrets.push(get("state"));
        if client.starts_with("https://") {
            self.add_client(&client, None, "none");
        }
        if !self.clients.contains_key(&client) {
            return Err("unknown client");
        }
        if get("code_challenge_method") != "S256" || get("code_challenge").len() != 43 {
            return Err("no proof");
        }
        let scope = if config.grants_requested_scope { get("scope") } else { SCOPE.to_owned() };
        let code = self.secret("code");
        let (redirect_uri, challenge, resource) = (get("redirect_uri"), get("code_challenge"), get("resource"));
        self.codes.insert(code.clone(), Code { client, redirect_uri, challenge, resource, scope });
        Ok(code)
    }

    /// Tokens for a code or for a refresh token.
    pub(super) fn tokens(
        &mut self,
        form: &Form,
        proof: Option<&str>,
        config: &ProviderConfig,
    ) -> Result<Value, Complaint> {
        let get = |name: &str| form.get(name).cloned().unwrap_or_default();
        let client = self.client(form, proof)?;
        match get("grant_type").as_str() {
            "authorization_code" => {
                self.secrets.push(get("code_verifier"));
                let code = self.codes.remove(&get("code")).ok_or(Complaint(400, "invalid_grant"))?;
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
                let same = code.client == client && code.redirect_uri == get("redirect_uri");
                if !same || code.challenge != challenge {
                    return Err(Complaint(400, "invalid_grant"));
                }
                if code.resource != get("resource") {
                    return Err(Complaint(400, "invalid_target"));
                }
                self.ended.push(false);
                let family = self.ended.len() - 1;
                Ok(self
                    .give(Refresh { family, client, scope: code.scope, resource: code.resource, used: None }, config))
            }
            "refresh_token" => self.renew(&get("refresh_token"), &client, &get("resource"), config),
            _ => Err(Complaint(400, "unsupported_grant_type")),
        }
    }

    fn renew(
        &mut self,
        token: &str,
        client: &str,
        resource: &str,
        config: &ProviderConfig,
    ) -> Result<Value, Complaint> {
        let now = Instant::now();
        let known = self.refresh.get_mut(token).ok_or(Complaint(400, "invalid_grant"))?;
        if known.client != client || self.ended[known.family] {
            return Err(Complaint(400, "invalid_grant"));
        }
        if known.resource != resource {
            return Err(Complaint(400, "invalid_target"));
        }
        if config.rotates && known.used.is_some_and(|used| now - used >= config.grace) {
            self.reuses += 1;
            self.ended[known.family] = true;
            return Err(Complaint(400, "invalid_grant"));
        }
        self.grace_uses += usize::from(config.rotates && known.used.is_some());
        known.used = known.used.or(Some(now));
        let (family, scope) = (known.family, known.scope.clone());
        self.renewals += 1;
        let (client, resource) = (client.to_owned(), resource.to_owned());
        Ok(self.give(Refresh { family, client, scope, resource, used: None }, config))
    }

    fn give(&mut self, refresh: Refresh, config: &ProviderConfig) -> Value {
        let (token, next) = (self.secret("access"), self.secret("refresh"));
        let (family, scope) = (refresh.family, refresh.scope.clone());
        let access = Access { family, scope: scope.clone(), until: Instant::now() + config.lifetime };
        self.access.insert(token.clone(), access);
        let mut given = json!({"access_token": token, "token_type": "Bearer", "scope": scope});
        given["refresh_token"] = next.clone().into();
        self.refresh.insert(next, refresh);
        if let Some(seconds) = config.announced_lifetime {
            given["expires_in"] = seconds.into();
        }
        given
    }

    /// What an access token is good for, if it is one.
    pub(super) fn scope(&self, token: &str) -> Option<&str> {
        let access = self.access.get(token)?;
        (!self.ended[access.family] && Instant::now() < access.until).then_some(access.scope.as_str())
    }

    pub(super) fn revoke(&mut self, form: &Form) {
        let token = form.get("token").map_or("", String::as_str);
        let family = self.refresh.get(token).map(|known| known.family);
        if let Some(family) = family.or_else(|| self.access.get(token).map(|known| known.family)) {
            self.ended[family] = true;
        }
    }

    /// The client that proves who it is, in the way it was told to.
    fn client(&self, form: &Form, proof: Option<&str>) -> Result<String, Complaint> {
        let unknown = || Complaint(401, "invalid_client");
        let basic = proof.and_then(|proof| {
            let pair = String::from_utf8(STANDARD.decode(proof.strip_prefix("Basic ")?).ok()?).ok()?;
            pair.split_once(':').map(|(id, secret)| (id.to_owned(), secret.to_owned()))
        });
        let (id, secret, method) = match (basic, form.get("client_id"), form.get("client_secret")) {
            (Some((id, secret)), None, None) => (id, Some(secret), "client_secret_basic"),
            (None, Some(id), Some(secret)) => (id.clone(), Some(secret.clone()), "client_secret_post"),
            (None, Some(id), None) => (id.clone(), None, "none"),
            _ => return Err(unknown()),
        };
        let known = self.clients.get(&id).ok_or_else(unknown)?;
        if known.secret == secret && known.method == method { Ok(id) } else { Err(unknown()) }
    }

    fn secret(&mut self, kind: &str) -> String {
        let secret = format!("SECRET-{kind}-{:05}", MADE.fetch_add(1, Ordering::Relaxed));
        self.secrets.push(secret.clone());
        secret
    }
}
