//! Signing in, as the user of a session sees it: with a local OAuth provider and a simulated user.

mod discovery;
mod dpop;
mod processes;
mod prompts;
mod refused;
mod renewal;
mod secrecy;
mod sharing;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use wharf_auth::{AuthorizationFlow, AuthorizationUi, MemoryStore, OAuth, OAuthOptions, SecretRecipient, Store};
use wharf_client::{CallError, Http, NoHost, RemoteOptions, Session};
use wharf_io::{Body, HttpClient, HttpSettings};
use wharf_testkit::provider::{Provider, ProviderConfig};
use wharf_testkit::soon;

use crate::{legacy, none, result_text as told};

/// The redirect URI.
const REDIRECT_URI: &str = "http://127.0.0.1:1/callback";

/// A simulated user who follows the authorization page and its redirect.
#[derive(Clone, Default)]
struct TestUser {
    visits: Arc<AtomicUsize>,
    /// All authorization URLs that were opened.
    pages: Arc<Mutex<Vec<String>>>,
    /// The redirect to return instead of the provider's.
    fixed_redirect: Arc<Mutex<Option<String>>>,
    /// Whether the user refuses to send the client secret to an issuer.
    refuses_secret: bool,
    /// The issuers that the user was asked about.
    asked_issuers: Arc<Mutex<Vec<String>>>,
    /// How long the user takes, in paused time.
    delay: Option<Duration>,
}

struct TestFlow {
    user: TestUser,
}

impl AuthorizationUi for TestUser {
    fn begin<'a>(&'a self, _before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        let flow: Box<dyn AuthorizationFlow> = Box::new(TestFlow { user: self.clone() });
        Box::pin(async move { Ok(flow) })
    }

    fn confirm_secret<'a>(&'a self, recipient: SecretRecipient<'a>) -> BoxFuture<'a, Result<bool, String>> {
        self.asked_issuers.lock().unwrap().push(recipient.issuer.to_owned());
        Box::pin(std::future::ready(Ok(!self.refuses_secret)))
    }
}

impl AuthorizationFlow for TestFlow {
    fn redirect_uri(&self) -> &str {
        REDIRECT_URI
    }

    fn go(self: Box<Self>, url: String, _state: String) -> BoxFuture<'static, Result<String, String>> {
        self.user.visits.fetch_add(1, Ordering::Relaxed);
        self.user.pages.lock().unwrap().push(url.clone());
        Box::pin(async move {
            if let Some(time) = self.user.delay {
                tokio::time::pause();
                tokio::time::sleep(time).await;
                tokio::time::resume();
            }
            if let Some(back) = self.user.fixed_redirect.lock().unwrap().clone() {
                return Ok(back);
            }
            let response = get(&url).await?;
            let location = response.headers().get("location").ok_or("the page is about an error")?;
            Ok(location.to_str().map_err(|_| "no text")?.to_owned())
        })
    }
}

/// Sends a GET request without following redirects.
async fn get(url: &str) -> Result<http::Response<Body>, String> {
    let client = HttpClient::new(HttpSettings::default()).map_err(|error| error.to_string())?;
    let mut request = http::Request::new(Bytes::new());
    *request.uri_mut() = url.parse().map_err(|_| "no address".to_owned())?;
    client.send(request).await.map_err(|error| error.to_string())
}

impl TestUser {
    fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }

    /// Returns a parameter of the last authorization URL.
    fn parameter(&self, name: &str) -> Option<String> {
        let pages = self.pages.lock().unwrap();
        let (_, query) = pages.last()?.split_once('?')?;
        let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        value.map(|value| value.replace("%20", " ").replace("%3A", ":").replace("%2F", "/"))
    }
}

/// A provider, a user and a store.
struct Scene {
    provider: Provider,
    user: TestUser,
    store: Arc<dyn Store>,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut ProviderConfig)) -> Self {
        let mut config = ProviderConfig::default();
        change(&mut config);
        let provider = Provider::start(config).await;
        Self { provider, user: TestUser::default(), store: Arc::new(MemoryStore::default()) }
    }

    fn options(&self) -> OAuthOptions {
        OAuthOptions { ui: Some(Arc::new(self.user.clone())), ..self.without_user() }
    }

    fn without_user(&self) -> OAuthOptions {
        OAuthOptions::new(Arc::clone(&self.store))
    }

    /// Creates a session like a new process would: only the store is shared.
    fn session(&self) -> Session {
        self.session_with(self.options())
    }

    fn session_with(&self, options: OAuthOptions) -> Session {
        session(&self.provider.url(), options)
    }

    /// Returns the result of a call in a new session.
    async fn call(&self) -> String {
        told(look(&self.session()).await)
    }

    /// Returns a session of a user who signed in before.
    async fn signed_in(&self, options: OAuthOptions) -> Session {
        assert_eq!(self.call().await, "done with read");
        let session = self.session_with(options);
        assert_eq!(told(look(&session).await), "done with read");
        session
    }
}

fn session(url: &str, options: OAuthOptions) -> Session {
    let oauth = OAuth::new(url, options).unwrap();
    let remote = RemoteOptions { token_provider: Some(Arc::new(oauth)), ..RemoteOptions::default() };
    Session::new("guarded".parse().unwrap(), Http::new(url, remote).unwrap(), NoHost, legacy())
}

async fn look(session: &Session) -> Result<wharf_protocol::ToolOutput, CallError> {
    soon(session.call("look", &none())).await
}
