//! Whether tokens are bound to a key, and to which one.

use std::sync::{Arc, PoisonError};

use super::state::Shared;
use crate::challenge::Challenge;
use crate::discovery::Metadata;
use crate::dpop::{ALGORITHM, Binding, DpopKey, Nonces};
use crate::error::OAuthError;
use crate::store::SignIn;

/// The key that the tokens of a sign-in are bound to.
pub(super) struct KeyBinding {
    pub(super) key: Arc<DpopKey>,
    /// Whether a token without a binding is refused.
    pub(super) is_required: bool,
}

impl KeyBinding {
    pub(super) fn of<'a>(&'a self, nonces: &'a Nonces) -> Binding<'a> {
        Binding { key: &self.key, nonces, is_required: self.is_required }
    }
}

impl Shared {
    /// Returns the key to bind new tokens to, if the server asks for that: in its challenge, in its metadata, or by having
    /// accepted bound tokens before.
    pub(super) fn binding(&self, challenge: &Challenge, metadata: &Metadata) -> Result<Option<KeyBinding>, OAuthError> {
        let issuer = &metadata.issuer;
        let before = self.snapshot().sign_in.filter(|sign_in| sign_in.issuer == issuer.name);
        let before = before.filter(|sign_in| sign_in.dpop_key.is_some());
        let is_required =
            challenge.requires_dpop() || metadata.resource.as_ref().is_some_and(|resource| resource.requires_dpop);
        if !is_required && !challenge.accepts_dpop && before.is_none() {
            return Ok(None);
        }
        let is_supported = match &issuer.dpop_signing_alg_values_supported {
            Some(supported) => supported.iter().any(|algorithm| algorithm == ALGORITHM),
            // Without an announcement, only the token response shows it.
            None => is_required,
        };
        match before {
            _ if !is_supported && is_required => Err(OAuthError::NoDpop(issuer.name.clone())),
            _ if !is_supported => Ok(None),
            // A renewal without a user keeps the key.
            Some(sign_in) if !self.options.grant.needs_user() => self.stored_binding(&sign_in),
            _ => Ok(Some(KeyBinding { key: Arc::new(DpopKey::generate()?), is_required })),
        }
    }

    /// Returns the key that stored tokens are bound to; `None` for bearer tokens.
    pub(super) fn stored_binding(&self, sign_in: &SignIn) -> Result<Option<KeyBinding>, OAuthError> {
        let Some(stored) = &sign_in.dpop_key else { return Ok(None) };
        let mut cached = self.dpop_key.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match cached.as_ref().filter(|key| key.stored() == stored) {
            Some(key) => Arc::clone(key),
            None => Arc::clone(cached.insert(Arc::new(DpopKey::load(stored)?))),
        };
        Ok(Some(KeyBinding { key, is_required: true }))
    }
}
