//! `wharf login`: sign in to a server once; every command uses the credentials from then on.

use std::sync::Arc;

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::auth::{OAuth, OAuthError, OAuthOptions, TokenProvider as _};
use wharf::config::RemoteConfig;
use wharf::fleet::{Fleet, ServerState, ServerStatus};
use wharf::{AuthRequired, CallErrorKind, ConnectErrorKind};

use crate::config::{FleetLifetime, ServerSelection, Setup, sign_ins};
use crate::error::UsageError;
use crate::exit::Exit;
use crate::failure::Subject;
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::one_shot::connected_server;
use crate::term::{BrowserMode, SignInPage, StartupDisplay};
use crate::{complete, completion_cache, term};

/// The fix for a client secret whose issuer is unknown.
const PIN_HINT: &str = "confirm the issuer at a terminal, or set `oauth.authServerMetadataUrl` in the server's entry";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The URL to open is printed on stderr, too. If no browser can be opened, open it by hand; if the browser \
        runs on another machine, paste the URL it ends at.\n\n\
        Examples:\n  wharf login docs\n  wharf login docs --no-browser\n  wharf login docs --scope read --scope write"
)]
pub(crate) struct Login {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    name: String,
    /// Print the URL instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    /// Local port for the redirect [default: the one of the server's entry, or any free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    callback_port: Option<u16>,
    /// OAuth scope to request [default: those of the server's entry, or of the server] (repeatable)
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
}

/// The layout of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonLogin<'a> {
    version: u32,
    name: &'a str,
    signed_in: bool,
    /// How many tools the server has, if it was reached.
    tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) async fn run(globals: &Globals, login: Login) -> Exit {
    Box::pin(sign_in(globals, &login)).await.unwrap_or_else(|error| term::usage_error(&error))
}

async fn sign_in(globals: &Globals, login: &Login) -> Result<Exit, UsageError> {
    let selection = ServerSelection::One(&login.name);
    let setup = Setup::load_for(globals, selection).await?;
    let remote = setup.sign_in_target(&login.name)?;
    let oauth = oauth(&setup, login, &remote)?;
    let fleet = setup.open(selection, FleetLifetime::Recheck)?;
    let mut is_new = false;
    let first = async {
        StartupDisplay::watch(&fleet, globals.quiet).await;
        match authorize(globals, login, &Session { setup: &setup, oauth: &oauth, fleet: &fleet }).await {
            Ok(()) => {
                is_new = true;
                Exit::Done
            }
            Err(exit) => exit,
        }
    };
    let exit = guarded(&fleet, Box::pin(first)).await;
    if !is_new || exit != Exit::Done {
        return Ok(exit);
    }
    // All servers at this URL use the new credentials.
    setup.forget_auth_failure(&remote.url).await;
    // The first fleet knows that no credentials are stored, so open another one.
    let fleet = setup.open_to_list(selection, FleetLifetime::Recheck)?;
    let exit = guarded(&fleet, async {
        StartupDisplay::watch(&fleet, globals.quiet).await;
        completion_cache::store_tools(&setup.paths, &fleet);
        report_connection(globals, &login.name, &fleet).await
    });
    Ok(exit.await)
}

/// What signing in needs.
struct Session<'a> {
    setup: &'a Setup,
    oauth: &'a OAuth,
    fleet: &'a Fleet,
}

/// Returns the OAuth client for the sign-in.
fn oauth(setup: &Setup, login: &Login, remote: &RemoteConfig) -> Result<OAuth, UsageError> {
    let Login { name, no_browser, callback_port, scope } = login;
    let options = setup.sign_in_options(&remote.url, &remote.oauth)?;
    let browser = if *no_browser { BrowserMode::Manual } else { BrowserMode::Open };
    let port = callback_port.or(remote.oauth.callback_port);
    let page = SignInPage { server: name.clone(), browser, port };
    let requested: Vec<String> = scope.iter().flat_map(|scope| scope.split_whitespace().map(str::to_owned)).collect();
    let scopes = if requested.is_empty() { options.scopes } else { Some(requested) };
    sign_ins::oauth(&remote.url, OAuthOptions { scopes, ui: Some(Arc::new(page)), ..options })
}

/// Signs in if the server requires it, or if the user requests scopes; otherwise returns the exit code.
async fn authorize(globals: &Globals, login: &Login, session: &Session<'_>) -> Result<(), Exit> {
    let Session { setup, oauth, fleet } = *session;
    let name = &login.name;
    let Some(status) = fleet.statuses().pop() else { return Err(Exit::Usage) };
    if status.state == ServerState::Connected && login.scope.is_empty() {
        return Err(report_already_connected(globals, name, oauth, &status).await);
    }
    if !matches!(status.state, ServerState::Connected | ServerState::NeedsAuth) {
        return Err(connected_server(fleet, globals, Subject::server(name))
            .await
            .map_or_else(|exit| exit, |_| Exit::Failed));
    }
    if !globals.quiet
        && !globals.json
        && let Some(note) = sign_ins::storage_note(&setup.paths)
    {
        term::note(&note);
    }
    match oauth.sign_in(refusal(&status)).await {
        Ok(()) => Ok(()),
        Err(error) => Err(report_failure(globals, name, &error).await),
    }
}

/// Returns the server's refusal, with its challenge.
fn refusal(status: &ServerStatus) -> Option<&AuthRequired> {
    match &status.error()?.kind {
        CallErrorKind::Connect(ConnectErrorKind::Auth(required)) => Some(required),
        _ => None,
    }
}

/// Reports that the server accepts the connection as it is.
async fn report_already_connected(globals: &Globals, name: &str, oauth: &OAuth, status: &ServerStatus) -> Exit {
    let signed_in = matches!(oauth.token().await, Ok((Some(_), _)));
    let tools = status.tools;
    if !globals.json && !globals.quiet {
        let counted = term::counted(tools, "tool");
        if signed_in {
            term::note(&format!("already signed in to {name}: {counted}"));
            term::hint(&format!("to use another account, sign out first: wharf logout {name}"));
        } else {
            term::note(&format!("{name} requires no sign-in: {counted}"));
            term::hint(&format!("if a tool requires one, request its scope: wharf login {name} --scope SCOPE"));
        }
    }
    print_json(globals, JsonLogin { version: 1, name, signed_in, tools: Some(tools), error: None }).await
}

async fn report_failure(globals: &Globals, name: &str, error: &OAuthError) -> Exit {
    let hint = matches!(error, OAuthError::UnconfirmedIssuer { .. }).then_some(PIN_HINT);
    term::error(&format!("{name}: {error}"), &[], hint);
    let exit = if matches!(error, OAuthError::Unreachable { .. }) { Exit::Unreachable } else { Exit::Failed };
    let error = Some(error.to_string());
    print_json(globals, JsonLogin { version: 1, name, signed_in: false, tools: None, error }).await.max(exit)
}

/// Reports whether the server accepts the new credentials.
async fn report_connection(globals: &Globals, name: &str, fleet: &Fleet) -> Exit {
    let rejected = fleet.statuses().pop().filter(|status| status.state == ServerState::NeedsAuth);
    if let Some(status) = rejected {
        let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
        let hint = format!("if it requires a scope, request it: wharf login {name} --scope SCOPE");
        term::error(&format!("{name}: signed in, but the server rejects the credentials: {reason}"), &[], Some(&hint));
        let result = JsonLogin { version: 1, name, signed_in: true, tools: None, error: Some(reason) };
        return print_json(globals, result).await.max(Exit::NeedsLogin);
    }
    let tools = match connected_server(fleet, globals, Subject::server(name)).await {
        Ok(status) => status.tools,
        Err(exit) => return exit,
    };
    if !globals.json && !globals.quiet {
        term::note(&format!("signed in to {name}: {}", term::counted(tools, "tool")));
    }
    print_json(globals, JsonLogin { version: 1, name, signed_in: true, tools: Some(tools), error: None }).await
}

async fn print_json(globals: &Globals, result: JsonLogin<'_>) -> Exit {
    if globals.json { term::json(&result).await } else { Exit::Done }
}
