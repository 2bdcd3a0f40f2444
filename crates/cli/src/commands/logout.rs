//! `wharf logout`: a sign-in is taken back, and forgotten here.

use serde::Serialize;
use wharf::auth::OAuthError;

use crate::args::{Globals, Named};
use crate::exit::Exit;
use crate::servers::Misuse;
use crate::setup::{Setup, Which};
use crate::visit::misused;
use crate::{render, sign_ins};

/// What `--json` shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    version: u32,
    name: &'a str,
    /// Whether there was a sign-in, which is gone now.
    signed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) async fn run(globals: &Globals, named: Named) -> Exit {
    Box::pin(signed_out(globals, &named.name)).await.unwrap_or_else(|misuse| misused(&misuse))
}

async fn signed_out(globals: &Globals, name: &str) -> Result<Exit, Misuse> {
    let setup = Setup::load_for(globals, Which::One(name)).await?;
    // One that may not be used, or is switched off, can be signed out of nevertheless.
    let remote = setup.remote(name)?;
    let oauth = sign_ins::of(&remote.url, setup.sign_in_options(&remote.url, &remote.oauth)?)?;
    let done = oauth.sign_out().await;
    setup.forget_refusals(&remote.url).await;
    let (signed_out, exit) = match &done {
        Ok(true) => {
            tell(globals, &format!("signed out of {name}"));
            (true, Exit::Done)
        }
        Ok(false) => {
            tell(globals, &format!("nobody is signed in to {name}"));
            (false, Exit::Done)
        }
        Err(OAuthError::Store(error)) => {
            render::error(&format!("{name}: {error}"), &[], None);
            (false, Exit::Failed)
        }
        Err(error) => {
            let what = format!("{name}: the token was removed here, but it could not be revoked: {error}");
            render::error(&what, &[], Some("it is good until it ends; whoever gave it may let you revoke it"));
            (true, Exit::Failed)
        }
    };
    if !globals.json {
        return Ok(exit);
    }
    let error = done.err().map(|error| error.to_string());
    Ok(render::json(&Shown { version: 1, name, signed_out, error }).await.max(exit))
}

fn tell(globals: &Globals, what: &str) {
    if !globals.json && !globals.quiet {
        render::note(what);
    }
}
