//! Clients, authorization codes and tokens.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::config::{ProviderConfig, Registration, SCOPE};

/// Number of the next secret, so that all secrets are unique, even those of two providers.
static NEXT_SECRET: AtomicU64 = AtomicU64::new(0);

/// The fields of a form.
pub(super) type Form = BTreeMap<String, String>;

#[derive(Default)]
pub(super) struct Grants {
    clients: HashMap<String, KnownClient>,
    codes: HashMap<String, Code>,
    access: HashMap<String, Access>,
    refresh_tokens: HashMap<String, Refresh>,
    /// Whether each sign-in is revoked. A family number is an index.
    revoked: Vec<bool>,
    clients_registered: u64,
    pub(super) renewals: usize,
    pub(super) reuses: usize,
    pub(super) grace_uses: usize,
    pub(super) secrets: Vec<String>,
    /// The ids of all proofs, each of which is valid once.
    pub(super) proofs: HashSet<String>,
    /// How many nonces of the MCP server were used.
    pub(super) used_nonces: u64,
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
    /// The key that the code is bound to.
    thumbprint: Option<String>,
}

struct Access {
    family: usize,
    scope: String,
    thumbprint: Option<String>,
    until: Instant,
}

struct Refresh {
    family: usize,
    client: String,
    scope: String,
    resource: String,
    /// The key that the tokens are bound to.
    thumbprint: Option<String>,
    used: Option<Instant>,
}

/// The status and error of a token request.
pub(super) struct TokenError(pub(super) u16, pub(super) &'static str);

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
        self.revoked.fill(true);
    }

    /// Registers a client.
    pub(super) fn register(&mut self, metadata: &Value, config: &ProviderConfig) -> Value {
        self.clients_registered += 1;
        let id = format!("client-{:05}", self.clients_registered);
        let (secret, method) = match config.registration {
            Registration::Public => (None, "none"),
            Registration::Secret(method) => (Some(self.secret("client-secret")), method),
        };
        self.add_client(&id, secret.as_deref(), method);
        let mut registered = json!({
            "client_id": id,
            "redirect_uris": metadata["redirect_uris"],
            "token_endpoint_auth_method": method,
        });
        if let Some(secret) = secret {
            registered["client_secret"] = secret.into();
            registered["client_secret_expires_at"] = 0.into();
        }
        registered
    }

    /// Issues an authorization code, or fails with the reason for an error page.
    pub(super) fn code(&mut self, parameters: &Form, config: &ProviderConfig) -> Result<String, &'static str> {
        let get = |name: &str| parameters.get(name).cloned().unwrap_or_default();
        let client = get("client_id");
        self.secrets.push(get("state"));
        if client.starts_with("https://") {
            self.add_client(&client, None, "none");
        }
        if !self.clients.contains_key(&client) {
            return Err("unknown client");
        }
        if get("code_challenge_method") != "S256" || get("code_challenge").len() != 43 {
            return Err("missing PKCE challenge");
        }
        let scope = if config.grants_requested_scope { get("scope") } else { SCOPE.to_owned() };
        let code = self.secret("code");
        let redirect_uri = get("redirect_uri");
        let challenge = get("code_challenge");
        let resource = get("resource");
        let thumbprint = parameters.get("dpop_jkt").cloned();
        self.codes.insert(code.clone(), Code { client, redirect_uri, challenge, resource, scope, thumbprint });
        Ok(code)
    }

    /// Issues tokens for an authorization code or a refresh token.
    pub(super) fn tokens(
        &mut self,
        form: &Form,
        authorization: Option<&str>,
        thumbprint: Option<String>,
        config: &ProviderConfig,
    ) -> Result<Value, TokenError> {
        let get = |name: &str| form.get(name).cloned().unwrap_or_default();
        let client = self.client(form, authorization)?;
        match get("grant_type").as_str() {
            "authorization_code" => {
                self.secrets.push(get("code_verifier"));
                let code = self.codes.remove(&get("code")).ok_or(TokenError(400, "invalid_grant"))?;
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
                let matches = code.client == client && code.redirect_uri == get("redirect_uri");
                if !matches || code.challenge != challenge {
                    return Err(TokenError(400, "invalid_grant"));
                }
                if code.thumbprint.is_some() && code.thumbprint != thumbprint {
                    return Err(TokenError(400, "invalid_dpop_proof"));
                }
                if code.resource != get("resource") {
                    return Err(TokenError(400, "invalid_target"));
                }
                self.revoked.push(false);
                let family = self.revoked.len() - 1;
                let Code { scope, resource, .. } = code;
                let thumbprint = thumbprint.filter(|_| config.dpop.as_ref().is_some_and(|dpop| dpop.binds_tokens));
                Ok(self.issue(Refresh { family, client, scope, resource, thumbprint, used: None }, config))
            }
            "refresh_token" => {
                let token = get("refresh_token");
                let known = self.refresh_tokens.get(&token);
                if known.is_some_and(|known| known.thumbprint.is_some() && known.thumbprint != thumbprint) {
                    return Err(TokenError(400, "invalid_dpop_proof"));
                }
                self.refresh(&token, &client, &get("resource"), config)
            }
            _ => Err(TokenError(400, "unsupported_grant_type")),
        }
    }

    fn refresh(
        &mut self,
        token: &str,
        client: &str,
        resource: &str,
        config: &ProviderConfig,
    ) -> Result<Value, TokenError> {
        let now = Instant::now();
        let known = self.refresh_tokens.get_mut(token).ok_or(TokenError(400, "invalid_grant"))?;
        if known.client != client || self.revoked[known.family] {
            return Err(TokenError(400, "invalid_grant"));
        }
        if known.resource != resource {
            return Err(TokenError(400, "invalid_target"));
        }
        if config.rotates && known.used.is_some_and(|used| now - used >= config.grace) {
            self.reuses += 1;
            self.revoked[known.family] = true;
            return Err(TokenError(400, "invalid_grant"));
        }
        self.grace_uses += usize::from(config.rotates && known.used.is_some());
        known.used = known.used.or(Some(now));
        let family = known.family;
        let scope = known.scope.clone();
        let thumbprint = known.thumbprint.clone();
        self.renewals += 1;
        let client = client.to_owned();
        let resource = resource.to_owned();
        Ok(self.issue(Refresh { family, client, scope, resource, thumbprint, used: None }, config))
    }

    fn issue(&mut self, refresh: Refresh, config: &ProviderConfig) -> Value {
        let token = self.secret("access");
        let next = self.secret("refresh");
        let family = refresh.family;
        let scope = refresh.scope.clone();
        let thumbprint = refresh.thumbprint.clone();
        let token_type = if thumbprint.is_some() { "DPoP" } else { "Bearer" };
        let access = Access { family, scope: scope.clone(), thumbprint, until: Instant::now() + config.lifetime };
        self.access.insert(token.clone(), access);
        let mut tokens = json!({"access_token": token, "token_type": token_type, "scope": scope});
        tokens["refresh_token"] = next.clone().into();
        self.refresh_tokens.insert(next, refresh);
        if let Some(seconds) = config.announced_lifetime {
            tokens["expires_in"] = seconds.into();
        }
        tokens
    }

    /// Returns the scope of a valid access token that is bound to this key.
    pub(super) fn scope(&self, token: &str, thumbprint: Option<&str>) -> Option<&str> {
        let access = self.access.get(token).filter(|access| access.thumbprint.as_deref() == thumbprint)?;
        (!self.revoked[access.family] && Instant::now() < access.until).then_some(access.scope.as_str())
    }

    pub(super) fn revoke(&mut self, form: &Form) {
        let token = form.get("token").map_or("", String::as_str);
        let family = self.refresh_tokens.get(token).map(|known| known.family);
        if let Some(family) = family.or_else(|| self.access.get(token).map(|known| known.family)) {
            self.revoked[family] = true;
        }
    }

    /// Authenticates the client with its registered method and returns its id.
    fn client(&self, form: &Form, authorization: Option<&str>) -> Result<String, TokenError> {
        let unknown = || TokenError(401, "invalid_client");
        let basic = authorization.and_then(|header| {
            let pair = String::from_utf8(STANDARD.decode(header.strip_prefix("Basic ")?).ok()?).ok()?;
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
        let secret = format!("SECRET-{kind}-{:05}", NEXT_SECRET.fetch_add(1, Ordering::Relaxed));
        self.secrets.push(secret.clone());
        secret
    }
}
