//! The page on which a person signs in: shown in a browser, or as an address to copy, and the way back from it.
//!
//! The browser comes back to a port of this machine. Where it runs on another one, it cannot; so a person who opened
//! the page by hand may also paste where it led. Whichever comes first counts.

use std::io::{BufRead as _, Read as _};
use std::time::Duration;

use tokio::sync::mpsc;
use wharf::BoxFuture;
use wharf::auth::{AuthorizationFlow, AuthorizationUi, Callback, browser};

use crate::render;
use crate::surroundings::{self, variable};

/// How long a person may take.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// How often something wrong may be pasted.
const TRIES: usize = 3;
/// The most that is read of what somebody types. An address is a hundredth of it.
const MOST_TYPED: u64 = 256 * 1024;

/// Whether a browser is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    Here,
    ByHand,
    /// The same as here, where what is typed belongs to others: nothing can be pasted.
    Beside,
}

/// How a person is brought to the page of one server.
pub(crate) struct Page {
    pub(crate) server: String,
    pub(crate) opened: Opened,
    /// The port to come back to, where somebody says which.
    pub(crate) port: Option<u16>,
}

struct Shown {
    server: String,
    opened: Opened,
    callback: Callback,
}

impl AuthorizationUi for Page {
    fn begin<'a>(&'a self, before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        Box::pin(async move {
            let Self { server, opened, port } = self;
            let callback = match (Callback::listen(port.or_else(|| before.and_then(port_of))).await, port) {
                (Err(error), Some(port)) => return Err(format!("port {port} cannot be listened on: {error}")),
                // Somebody else has the port of the last time; to come back to another one costs a registration.
                (Err(_), None) => Callback::listen(None).await.map_err(|error| error.to_string())?,
                (Ok(callback), _) => callback,
            };
            Ok(Box::new(Shown { server: server.clone(), opened: *opened, callback }) as Box<dyn AuthorizationFlow>)
        })
    }
}

impl AuthorizationFlow for Shown {
    fn redirect_uri(&self) -> &str {
        self.callback.redirect_uri()
    }

    fn go(self: Box<Self>, url: String, state: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            let Self { server, opened, callback } = *self;
            let redirect_uri = callback.redirect_uri().to_owned();
            let came_back = async { callback.came_back(&state, LIMIT).await.map_err(|late| late.to_string()) };
            tokio::pin!(came_back);
            if opened == Opened::ByHand {
                render::line(&format!("to sign in to {server}, open this address in a browser:\n{url}"));
            } else {
                render::line(&format!(
                    "a browser is opened to sign in to {server}; if none appears, open this address:\n{url}"
                ));
                let wished = variable(&["BROWSER"]).and_then(|line| shlex::split(&line));
                let environment = surroundings::of_the_desktop();
                // The browser may be back before its opener has ended.
                let opened = tokio::select! {
                    back = &mut came_back => return back,
                    opened = browser::open(&url, wished.as_deref(), &environment) => opened,
                };
                match opened {
                    Ok(()) => return came_back.await,
                    Err(error) => render::warning(&format!("{error}; open the address by hand")),
                }
            }
            if opened == Opened::Beside {
                return came_back.await;
            }
            render::line("if the browser cannot come back by itself, paste the address here that it ends at:");
            tokio::select! {
                back = &mut came_back => back,
                pasted = pasted(&redirect_uri, &state) => pasted,
            }
        })
    }
}

fn port_of(redirect_uri: &str) -> Option<u16> {
    redirect_uri.parse::<http::Uri>().ok()?.port_u16()
}

/// The address that somebody pastes, if it is the one.
async fn pasted(redirect_uri: &str, state: &str) -> Result<String, String> {
    let (mut lines, mut tries) = (typed(), 0);
    while let Some(line) = lines.recv().await {
        let line = line.trim();
        // What is wrong with it is told without it: the code in it is a secret.
        match check(line, redirect_uri, state) {
            _ if line.is_empty() => {}
            Ok(()) => return Ok(line.to_owned()),
            Err(wrong) => {
                tries += 1;
                if tries == TRIES {
                    return Err(format!(
                        "{TRIES} times something else was pasted than the address (the last: {wrong})"
                    ));
                }
                render::warning(&format!("{wrong}; paste the whole address, it begins with {redirect_uri}?"));
            }
        }
    }
    // Nobody types any more, but the browser may still come.
    std::future::pending().await
}

fn check(line: &str, redirect_uri: &str, state: &str) -> Result<(), String> {
    let Some(query) = line.strip_prefix(redirect_uri).and_then(|rest| rest.strip_prefix('?')) else {
        return Err("this is not where the page sends you back to".to_owned());
    };
    let has =
        |wanted: &str| query.split(['&', '#']).any(|pair| pair.split_once('=').is_some_and(|(key, _)| key == wanted));
    if !query.split(['&', '#']).any(|pair| pair.strip_prefix("state=") == Some(state)) {
        return Err("this address is of another sign-in".to_owned());
    }
    if has("code") || has("error") { Ok(()) } else { Err("there is no code in this address".to_owned()) }
}

/// The lines that somebody types. They are read on a thread that ends with the process: a read of a terminal cannot be
/// taken back, and nobody is to wait for one.
fn typed() -> mpsc::Receiver<String> {
    let (typed, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().take(MOST_TYPED).lines().map_while(Result::ok) {
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
    fn only_the_address_of_this_sign_in_is_taken() {
        let back = "http://127.0.0.1:7/callback";
        let said = |line: &str| check(line, back, "s1").err().unwrap_or_default();
        assert_eq!(said("http://127.0.0.1:7/callback?code=c&state=s1"), "");
        assert_eq!(said("http://127.0.0.1:7/callback?state=s1&error=access_denied"), "");
        assert_eq!(said("http://127.0.0.1:7/callback?code=c&state=s12"), "this address is of another sign-in");
        assert_eq!(said("http://127.0.0.1:7/callback?state=s1"), "there is no code in this address");
        for other in ["c", "https://login.test/?state=s1&code=c", "http://127.0.0.1:7/callbacks?code=c&state=s1"] {
            assert_eq!(said(other), "this is not where the page sends you back to", "{other}");
        }
    }

    #[test]
    fn the_port_of_the_last_time_is_known_again() {
        assert_eq!(port_of("http://127.0.0.1:4711/callback"), Some(4711));
        assert_eq!(port_of("http://localhost/callback"), None);
    }
}
