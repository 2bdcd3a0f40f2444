//! Servers that people sign in to.

use std::sync::Arc;

use wharf::auth::{AuthFailureCache, OAuthOptions};
use wharf::config::{OAuthSettings, RemoteConfig};
use wharf::fleet::{ServerSpec, SignInPrompt, SignInRequest, TransportConfig};

use super::{Setup, Which, unusable};
use crate::page::{Opened, Page};
use crate::servers::{self, Misuse, instead_of, misuse};
use crate::sign_ins;

impl Setup {
    /// How one signs in to the server at a URL.
    pub(crate) fn sign_in_options(&self, url: &str, known: &OAuthSettings) -> Result<OAuthOptions, Misuse> {
        sign_ins::options(&self.places, self.session.deadlines.connect, url, known)
    }

    /// Which servers refused us a short while ago; nobody remembers where there is no place to.
    pub(crate) fn refusals(&self) -> Option<AuthFailureCache> {
        Some(AuthFailureCache::with_file(self.places.refusals()?).of(&self.places.profile))
    }

    /// Has the server at a URL asked again, whatever was shown to it before.
    pub(crate) async fn forget_refusals(&self, url: &str) {
        if let Some(refusals) = self.refusals() {
            refusals.forget(url).await;
        }
    }

    /// Brings the person at this terminal to a sign-in.
    pub(super) fn signs_in(&self) -> SignInPrompt {
        let (places, connect, refusals) = (self.places.clone(), self.session.deadlines.connect, self.refusals());
        let refusals = refusals.map(Arc::new);
        Arc::new(move |SignInRequest { server, challenge }| {
            let (places, refusals) = (places.clone(), refusals.clone());
            Box::pin(async move {
                let said = |misuse: Misuse| misuse.what;
                let remote = at_a_url(server.name.as_str(), &server.reach).map_err(said)?;
                let options = sign_ins::options(&places, connect, &remote.url, &remote.oauth).map_err(said)?;
                let port = remote.oauth.callback_port;
                // Whatever is typed is for questions.
                let visitor = Page { server: server.name.to_string(), opened: Opened::Beside, port };
                let options = OAuthOptions { visitor: Some(Arc::new(visitor)), ..options };
                let oauth = sign_ins::of(&remote.url, options).map_err(said)?;
                oauth.sign_in(challenge.as_deref()).await.map_err(|error| error.to_string())?;
                if let Some(refusals) = refusals {
                    refusals.forget(&remote.url).await;
                }
                Ok(())
            })
        })
    }

    /// The server that somebody wants to sign in to, if it can be used and takes a sign-in.
    pub(crate) fn signed_in_to(&self, name: &str) -> Result<RemoteConfig, Misuse> {
        let wanted = ServerSpec { server: self.wanted(name)?, hold: None };
        // With what the command line says of it.
        let dressed = self.checked(vec![wanted], Which::One(name))?;
        let reach = dressed.first().map(|one| &one.server.reach);
        let remote = reach.map_or_else(|| self.remote(name), |reach| at_a_url(name, reach))?;
        if reach.is_some_and(servers::has_own_header) {
            let what =
                format!("the server `{name}` is sent a header of its own, in whose place no sign-in would be used");
            let hint = "mend its `Authorization` header or its `headersHelper`, or remove it and sign in then";
            return Err(misuse(what, Some(hint)));
        }
        Ok(remote)
    }

    /// The server of a name as it is at a URL, whether or not it can be used.
    pub(crate) fn remote(&self, name: &str) -> Result<RemoteConfig, Misuse> {
        if let Some(broken) = self.loaded.find_broken(name) {
            return Err(unusable(broken));
        }
        let Some(found) = self.loaded.find(name) else {
            return Err(misuse(format!("there is no server `{name}`"), Some(&instead_of(name, &self.names()))));
        };
        at_a_url(name, &found.server.reach)
    }
}

/// Where a server is that one can sign in to.
fn at_a_url(name: &str, reach: &TransportConfig) -> Result<RemoteConfig, Misuse> {
    servers::remote(reach).cloned().ok_or_else(|| {
        let what = format!("the server `{name}` is started by a command; one signs in to servers at a URL");
        misuse(what, Some("such a server gets what it needs from its variables: `env` in its entry"))
    })
}
