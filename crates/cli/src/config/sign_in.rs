//! Signing in to servers: options, the prompt on the terminal, and the cache of failed authorizations.

use std::sync::Arc;

use wharf::auth::{AuthFailureCache, OAuthError, OAuthOptions};
use wharf::config::{ConfiguredServer, OAuthSettings, RemoteConfig};
use wharf::fleet::{SignInPrompt, SignInRequest};

use super::servers::{remote, remote_of};
use super::setup::Setup;
use super::sign_ins;
use crate::error::UsageError;
use crate::term::{BrowserMode, SignInPage};

impl Setup {
    /// Returns the options for a sign-in at a URL.
    pub(crate) fn sign_in_options(&self, url: &str, known: &OAuthSettings) -> Result<OAuthOptions, UsageError> {
        sign_ins::options(&self.paths, self.session.deadlines.connect, url, known)
    }

    /// Returns the cache of servers that recently denied access; `None` without a cache directory.
    pub(crate) fn auth_failures(&self) -> Option<AuthFailureCache> {
        Some(AuthFailureCache::with_file(self.paths.auth_failures()?).of(&self.paths.profile))
    }

    /// Makes the next connection to a URL ignore that it recently denied access.
    pub(crate) async fn forget_auth_failure(&self, url: &str) {
        if let Some(failures) = self.auth_failures() {
            failures.forget(url).await;
        }
    }

    /// Signs out of a server that is no longer configured. Returns `false` if no credentials were stored, or if another
    /// server shares them.
    pub(crate) async fn sign_out_of_removed(&self, removed: &RemoteConfig) -> Result<bool, OAuthError> {
        self.forget_auth_failure(&removed.url).await;
        let shares = |found: &ConfiguredServer| {
            remote(&found.server.transport).is_some_and(|remote| sign_ins::is_shared(&remote.url, &removed.url))
        };
        if self.paths.auth.is_none() || self.loaded.servers.iter().any(shares) {
            return Ok(false);
        }
        let options = self.sign_in_options(&removed.url, &removed.oauth);
        match options.and_then(|options| sign_ins::oauth(&removed.url, options)) {
            Ok(oauth) => oauth.sign_out().await,
            // Without valid options no sign-in was possible.
            Err(_) => Ok(false),
        }
    }

    /// Returns the prompt that signs the user in while a fleet runs.
    pub(super) fn sign_in_prompt(&self) -> SignInPrompt {
        let paths = self.paths.clone();
        let connect = self.session.deadlines.connect;
        let failures = self.auth_failures().map(Arc::new);
        Arc::new(move |SignInRequest { server, required }| {
            let paths = paths.clone();
            let failures = failures.clone();
            Box::pin(async move {
                let message = |error: UsageError| error.message;
                let remote = remote_of(server.name.as_str(), &server.transport).map_err(message)?;
                let options = sign_ins::options(&paths, connect, &remote.url, &remote.oauth).map_err(message)?;
                let page = SignInPage {
                    server: server.name.to_string(),
                    // Stdin is for questions.
                    browser: BrowserMode::OpenWithoutPaste,
                    port: remote.oauth.callback_port,
                };
                let options = OAuthOptions { ui: Some(Arc::new(page)), ..options };
                let oauth = sign_ins::oauth(&remote.url, options).map_err(message)?;
                oauth.sign_in(required.as_ref()).await.map_err(|error| error.to_string())?;
                if let Some(failures) = failures {
                    failures.forget(&remote.url).await;
                }
                Ok(())
            })
        })
    }
}
