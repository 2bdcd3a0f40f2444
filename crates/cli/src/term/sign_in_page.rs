//! The page where a user signs in: opened in a browser or printed as a URL, and the redirect back from it.
//!
//! The browser returns to a port of this machine. A browser on another machine cannot, so a user who opened the page by
//! hand may also paste the URL it ended at. The first of the two counts.

use std::io::{BufRead as _, Read as _};
use std::time::Duration;

use tokio::sync::mpsc;
use wharf::BoxFuture;
use wharf::auth::{AuthorizationFlow, AuthorizationUi, Callback, SecretRecipient, browser};

use super::input::drop_typed_input;
use super::message::{line, warning};
use super::prompt::is_interactive;
use crate::env::{self, variable};

/// How long the user may take.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How often the user may paste something else than the URL.
const MAX_ATTEMPTS: usize = 3;
/// How much of stdin is read. A URL is a hundredth of it.
const MAX_TYPED_BYTES: u64 = 256 * 1024;

/// Whether a browser is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrowserMode {
    Open,
    /// The user opens the URL.
    Manual,
    /// Like `Open`, but stdin is used for other questions, so nothing can be pasted.
    OpenWithoutPaste,
}

/// Leads a user to the sign-in page of one server.
pub(crate) struct SignInPage {
    pub(crate) server: String,
    pub(crate) browser: BrowserMode,
    /// The port to redirect to, where it is given.
    pub(crate) port: Option<u16>,
}

struct Flow {
    server: String,
    browser: BrowserMode,
    callback: Callback,
}

impl AuthorizationUi for SignInPage {
    fn begin<'a>(&'a self, before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        Box::pin(async move {
            let Self { server, browser, port } = self;
            let callback = match (Callback::listen(port.or_else(|| before.and_then(port_of))).await, port) {
                (Err(error), Some(port)) => return Err(format!("cannot listen on port {port}: {error}")),
                // The last port is in use; another one costs a new client registration.
                (Err(_), None) => Callback::listen(None).await.map_err(|error| error.to_string())?,
                (Ok(callback), _) => callback,
            };
            Ok(Box::new(Flow { server: server.clone(), browser: *browser, callback }) as Box<dyn AuthorizationFlow>)
        })
    }

    fn confirm_secret<'a>(&'a self, recipient: SecretRecipient<'a>) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            // Stdin is used for other questions, or nothing reads the question.
            if self.browser == BrowserMode::OpenWithoutPaste || !is_interactive() {
                return Ok(false);
            }
            let SecretRecipient { issuer, client_id } = recipient;
            let server = &self.server;
            drop_typed_input();
            line(&format!("{server} names {issuer} as its authorization server."));
            line(&format!("send the secret of the client `{client_id}` to {issuer}? [y/N]"));
            let answer = typed_lines().recv().await.unwrap_or_default();
            Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
        })
    }
}

impl AuthorizationFlow for Flow {
    fn redirect_uri(&self) -> &str {
        self.callback.redirect_uri()
    }

    fn go(self: Box<Self>, url: String, state: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            let Self { server, browser, callback } = *self;
            let redirect_uri = callback.redirect_uri().to_owned();
            let redirected =
                async { callback.came_back(&state, SIGN_IN_TIMEOUT).await.map_err(|late| late.to_string()) };
            tokio::pin!(redirected);
            if browser == BrowserMode::Manual {
                line(&format!("to sign in to {server}, open this URL in a browser:\n{url}"));
            } else {
                line(&format!("opening a browser to sign in to {server}; if none appears, open this URL:\n{url}"));
                let command = variable(&["BROWSER"]).and_then(|line| shlex::split(&line));
                let environment = env::for_browser();
                // The redirect may arrive before the opener exits.
                let opened = tokio::select! {
                    redirected = &mut redirected => return redirected,
                    opened = browser::open(&url, command.as_deref(), &environment) => opened,
                };
                match opened {
                    Ok(()) => return redirected.await,
                    Err(error) => warning(&format!("{error}; open the URL by hand")),
                }
            }
            if browser == BrowserMode::OpenWithoutPaste {
                return redirected.await;
            }
            line("if the browser cannot return here, paste the URL it ends at:");
            tokio::select! {
                redirected = &mut redirected => redirected,
                pasted = pasted_url(&redirect_uri, &state) => pasted,
            }
        })
    }
}

fn port_of(redirect_uri: &str) -> Option<u16> {
    redirect_uri.parse::<http::Uri>().ok()?.port_u16()
}

/// Waits for the user to paste the redirect URL.
async fn pasted_url(redirect_uri: &str, state: &str) -> Result<String, String> {
    let mut lines = typed_lines();
    let mut attempts = 0;
    while let Some(line) = lines.recv().await {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        // The messages do not repeat the URL: the code in it is a secret.
        match check(line, redirect_uri, state) {
            Ok(()) => return Ok(line.to_owned()),
            Err(wrong) => {
                attempts += 1;
                if attempts == MAX_ATTEMPTS {
                    return Err(format!("no redirect URL in {MAX_ATTEMPTS} attempts; the last: {wrong}"));
                }
                warning(&format!("{wrong}; paste the whole URL, it begins with {redirect_uri}?"));
            }
        }
    }
    // Stdin ended, but the browser may still return.
    std::future::pending().await
}

fn check(line: &str, redirect_uri: &str, state: &str) -> Result<(), String> {
    let Some(query) = line.strip_prefix(redirect_uri).and_then(|rest| rest.strip_prefix('?')) else {
        return Err("this is not the redirect URL".to_owned());
    };
    let has =
        |wanted: &str| query.split(['&', '#']).any(|pair| pair.split_once('=').is_some_and(|(key, _)| key == wanted));
    if !query.split(['&', '#']).any(|pair| pair.strip_prefix("state=") == Some(state)) {
        return Err("this URL belongs to another sign-in".to_owned());
    }
    if has("code") || has("error") { Ok(()) } else { Err("this URL has no code".to_owned()) }
}

/// Returns the lines the user types. A detached thread reads them: a terminal read cannot be canceled, and the process
/// must not wait for it.
fn typed_lines() -> mpsc::Receiver<String> {
    let (typed, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().take(MAX_TYPED_BYTES).lines().map_while(Result::ok) {
            if typed.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_redirect_url_of_this_sign_in_is_accepted() {
        let redirect = "http://127.0.0.1:7/callback";
        let rejection = |line: &str| check(line, redirect, "s1").err().unwrap_or_default();
        assert_eq!(rejection("http://127.0.0.1:7/callback?code=c&state=s1"), "");
        assert_eq!(rejection("http://127.0.0.1:7/callback?state=s1&error=access_denied"), "");
        assert_eq!(rejection("http://127.0.0.1:7/callback?code=c&state=s12"), "this URL belongs to another sign-in");
        assert_eq!(rejection("http://127.0.0.1:7/callback?state=s1"), "this URL has no code");
        for other in ["c", "https://login.test/?state=s1&code=c", "http://127.0.0.1:7/callbacks?code=c&state=s1"] {
            assert_eq!(rejection(other), "this is not the redirect URL", "{other}");
        }
    }

    #[test]
    fn the_last_port_is_read_from_the_redirect_uri() {
        assert_eq!(port_of("http://127.0.0.1:4711/callback"), Some(4711));
        assert_eq!(port_of("http://localhost/callback"), None);
    }
}
