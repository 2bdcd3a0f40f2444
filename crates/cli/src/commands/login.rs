//! `wharf login`: a person signs in to a server, once; from then on every command uses it.

use std::sync::Arc;

use serde::Serialize;
use wharf::auth::{OAuth, OAuthError, OAuthOptions, TokenProvider as _};
use wharf::config::RemoteConfig;
use wharf::fleet::{Fleet, ServerState, ServerStatus};
use wharf::{CallErrorKind, ConnectErrorKind};

use crate::args::{Globals, Login};
use crate::exit::Exit;
use crate::failure::Subject;
use crate::interrupt::guarded;
use crate::live::Live;
use crate::page::{Opened, Page};
use crate::places::Places;
use crate::servers::Misuse;
use crate::setup::{How, Setup, Which};
use crate::visit::{misused, only};
use crate::{remembered, render, sign_ins};

/// What `--json` shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    version: u32,
    name: &'a str,
    signed_in: bool,
    /// How many there are, where the server was reached.
    tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) async fn run(globals: &Globals, login: Login) -> Exit {
    Box::pin(signed_in(globals, &login)).await.unwrap_or_else(|misuse| misused(&misuse))
}

async fn signed_in(globals: &Globals, login: &Login) -> Result<Exit, Misuse> {
    let which = Which::One(&login.name);
    let setup = Setup::load_for(globals, which).await?;
    let remote = setup.signed_in_to(&login.name)?;
    let oauth = oauth(&setup, login, &remote)?;
    let (fleet, mut is_new) = (setup.open(which, How::Anew)?, false);
    let beginning = async {
        Live::watch(&fleet, globals.quiet).await;
        match begin(globals, login, (&oauth, &setup.places), &fleet).await {
            Ok(()) => {
                is_new = true;
                Exit::Done
            }
            Err(exit) => exit,
        }
    };
    let exit = guarded(&fleet, Box::pin(beginning)).await;
    if !is_new || exit != Exit::Done {
        return Ok(exit);
    }
    // Every server there sees the new sign-in, and so does whoever shows it something else besides.
    setup.forget_refusals(&remote.url).await;
    // Another one: the first has been told that there is no sign-in.
    let fleet = setup.open(which, How::Anew)?;
    let exit = guarded(&fleet, async {
        Live::watch(&fleet, globals.quiet).await;
        remembered::keep(&setup.places, &fleet);
        welcome(globals, &login.name, &fleet).await
    });
    Ok(exit.await)
}

/// How this person signs in to this server.
fn oauth(setup: &Setup, login: &Login, remote: &RemoteConfig) -> Result<OAuth, Misuse> {
    let Login { name, no_browser, callback_port, scope } = login;
    let options = setup.sign_in_options(&remote.url, &remote.oauth)?;
    let opened = if *no_browser { Opened::ByHand } else { Opened::Here };
    let port = callback_port.or(remote.oauth.callback_port);
    let visitor = Page { server: name.clone(), opened, port };
    let wanted: Vec<String> = scope.iter().flat_map(|scope| scope.split_whitespace().map(str::to_owned)).collect();
    let scopes = if wanted.is_empty() { options.scopes } else { Some(wanted) };
    sign_ins::of(&remote.url, OAuthOptions { scopes, visitor: Some(Arc::new(visitor)), ..options })
}

/// Signs in if the server wants it, or if somebody asks for more than there is; otherwise tells how it ends.
async fn begin(
    globals: &Globals,
    login: &Login,
    (oauth, places): (&OAuth, &Places),
    fleet: &Fleet,
) -> Result<(), Exit> {
    let name = &login.name;
    let Some(status) = fleet.statuses().pop() else { return Err(Exit::Usage) };
    if status.state == ServerState::Connected && login.scope.is_empty() {
        return Err(nothing_to_do(globals, name, oauth, &status).await);
    }
    if !matches!(status.state, ServerState::Connected | ServerState::NeedsAuth) {
        return Err(only(fleet, globals, Subject::of(name)).await.map_or_else(|exit| exit, |_| Exit::Failed));
    }
    if let Some(note) = sign_ins::note(places).filter(|_| !globals.quiet && !globals.json) {
        render::note(&note);
    }
    match oauth.sign_in(challenge(&status)).await {
        Ok(()) => Ok(()),
        Err(error) => Err(failed(globals, name, &error).await),
    }
}

/// What the server said that it wants.
fn challenge(status: &ServerStatus) -> Option<&str> {
    match &status.error()?.kind {
        CallErrorKind::Connect(ConnectErrorKind::Auth(required)) => required.challenge.as_deref(),
        _ => None,
    }
}

/// A server that lets us in as we are.
async fn nothing_to_do(globals: &Globals, name: &str, oauth: &OAuth, status: &ServerStatus) -> Exit {
    let signed_in = matches!(oauth.token().await, Ok((Some(_), _)));
    let tools = status.tools;
    if !globals.json && !globals.quiet {
        let counted = counted(tools);
        if signed_in {
            render::note(&format!("signed in to {name} already: {counted}"));
            render::hint(&format!("to sign in as somebody else, sign out first: wharf logout {name}"));
        } else {
            render::note(&format!("{name} wants no sign-in: {counted}"));
            render::hint(&format!("if a tool wants one all the same, say what for: wharf login {name} --scope SCOPE"));
        }
    }
    shown(globals, Shown { version: 1, name, signed_in, tools: Some(tools), error: None }).await
}

async fn failed(globals: &Globals, name: &str, error: &OAuthError) -> Exit {
    render::error(&format!("{name}: {error}"), &[], None);
    let exit = if matches!(error, OAuthError::Unreachable { .. }) { Exit::Unreachable } else { Exit::Failed };
    let error = Some(error.to_string());
    shown(globals, Shown { version: 1, name, signed_in: false, tools: None, error }).await.max(exit)
}

/// How the server takes the new sign-in.
async fn welcome(globals: &Globals, name: &str, fleet: &Fleet) -> Exit {
    let still_out = fleet.statuses().pop().filter(|status| status.state == ServerState::NeedsAuth);
    if let Some(status) = still_out {
        let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
        let hint = format!("if it wants a sign-in for more, say so: wharf login {name} --scope SCOPE");
        render::error(&format!("{name}: signed in, and it is not accepted: {reason}"), &[], Some(&hint));
        let shown_error = Shown { version: 1, name, signed_in: true, tools: None, error: Some(reason) };
        return shown(globals, shown_error).await.max(Exit::NeedsLogin);
    }
    let tools = match only(fleet, globals, Subject::of(name)).await {
        Ok(status) => status.tools,
        Err(exit) => return exit,
    };
    if !globals.json && !globals.quiet {
        render::note(&format!("signed in to {name}: {}", counted(tools)));
    }
    shown(globals, Shown { version: 1, name, signed_in: true, tools: Some(tools), error: None }).await
}

async fn shown(globals: &Globals, shown: Shown<'_>) -> Exit {
    if globals.json { render::json(&shown).await } else { Exit::Done }
}

fn counted(tools: usize) -> String {
    if tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") }
}
