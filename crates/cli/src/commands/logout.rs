//! `wharf logout`: revoke and delete stored credentials.

use serde::Serialize;
use wharf::auth::OAuthError;

use super::common::ServerArg;
use crate::config::{ServerSelection, Setup, sign_ins};
use crate::error::UsageError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;

/// The layout of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonLogout<'a> {
    version: u32,
    name: &'a str,
    /// Whether credentials were stored, and are now deleted.
    signed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) async fn run(globals: &Globals, server: ServerArg) -> Exit {
    Box::pin(sign_out(globals, &server.name)).await.unwrap_or_else(|error| term::usage_error(&error))
}

async fn sign_out(globals: &Globals, name: &str) -> Result<Exit, UsageError> {
    let setup = Setup::load_for(globals, ServerSelection::One(name)).await?;
    // The server may be disabled or not allowed: signing out works all the same.
    let remote = setup.remote(name)?;
    let oauth = sign_ins::oauth(&remote.url, setup.sign_in_options(&remote.url, &remote.oauth)?)?;
    let done = oauth.sign_out().await;
    setup.forget_auth_failure(&remote.url).await;
    let (signed_out, exit) = match &done {
        Ok(true) => {
            note(globals, &format!("signed out of {name}"));
            (true, Exit::Done)
        }
        Ok(false) => {
            note(globals, &format!("not signed in to {name}"));
            (false, Exit::Done)
        }
        Err(OAuthError::Store(error)) => {
            term::error(&format!("{name}: {error}"), &[], None);
            (false, Exit::Failed)
        }
        Err(error) => {
            let message = format!("{name}: deleted the stored credentials, but could not revoke the token: {error}");
            term::error(
                &message,
                &[],
                Some("the token stays valid until it expires; revoke it at its issuer if you can"),
            );
            (true, Exit::Failed)
        }
    };
    if !globals.json {
        return Ok(exit);
    }
    let error = done.err().map(|error| error.to_string());
    Ok(term::json(&JsonLogout { version: 1, name, signed_out, error }).await.max(exit))
}

fn note(globals: &Globals, message: &str) {
    if !globals.json && !globals.quiet {
        term::note(message);
    }
}
