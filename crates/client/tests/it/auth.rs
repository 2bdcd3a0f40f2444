//! Signing in, as a session's user sees it: with a provider on this machine and a person who does what pages say.

mod discovery;
mod people;
mod processes;
mod refused;
mod renewal;
mod secrecy;
mod sharing;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use wharf_auth::{AuthorizationFlow, AuthorizationUi, MemoryStore, OAuth, OAuthOptions, Store};
use wharf_client::{CallError, Http, NoHost, RemoteOptions, Session};
use wharf_io::{Body, HttpClient, HttpSettings};
use wharf_testkit::provider::{Provider, ProviderConfig};
use wharf_testkit::soon;

use crate::{legacy, none, result_text as told};

/// Where people come back to.
const BACK: &str = "http://127.0.0.1:1/callback";

/// Somebody who goes where they are sent, and lets themselves be sent back.
#[derive(Clone, Default)]
struct Person {
    visits: Arc<AtomicUsize>,
    /// Every page they were shown.
    pages: Arc<Mutex<Vec<String>>>,
    /// What they come back to instead.
    comes_back_to: Arc<Mutex<Option<String>>>,
    /// How long they think, by a clock that stands still otherwise.
    thinks: Option<Duration>,
}

struct OneVisit {
    person: Person,
}

impl AuthorizationUi for Person {
    fn begin<'a>(&'a self, _before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        let visit: Box<dyn AuthorizationFlow> = Box::new(OneVisit { person: self.clone() });
        Box::pin(async move { Ok(visit) })
    }
}

impl AuthorizationFlow for OneVisit {
    fn redirect_uri(&self) -> &str {
        BACK
    }

    fn go(self: Box<Self>, url: String, _state: String) -> BoxFuture<'static, Result<String, String>> {
        self.person.visits.fetch_add(1, Ordering::Relaxed);
        self.person.pages.lock().unwrap().push(url.clone());
        Box::pin(async move {
            if let Some(time) = self.person.thinks {
                tokio::time::pause();
                tokio::time::sleep(time).await;
                tokio::time::resume();
            }
            if let Some(back) = self.person.comes_back_to.lock().unwrap().clone() {
                return Ok(back);
            }
            let response = get(&url).await?;
            let location = response.headers().get("location").ok_or("the page is about an error")?;
            Ok(location.to_str().map_err(|_| "no text")?.to_owned())
        })
    }
}

/// What a browser gets to see, without following where it is sent.
async fn get(url: &str) -> Result<http::Response<Body>, String> {
    let client = HttpClient::new(HttpSettings::default()).map_err(|error| error.to_string())?;
    let mut request = http::Request::new(Bytes::new());
    *request.uri_mut() = url.parse().map_err(|_| "no address".to_owned())?;
    client.send(request).await.map_err(|error| error.to_string())
}

impl Person {
    fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }

    /// The value of a parameter of the page they were shown last.
    fn asked(&self, name: &str) -> Option<String> {
        let pages = self.pages.lock().unwrap();
        let (_, query) = pages.last()?.split_once('?')?;
        let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        value.map(|value| value.replace("%20", " ").replace("%3A", ":").replace("%2F", "/"))
    }
}

/// A provider, a person, and what both keep.
struct Scene {
    provider: Provider,
    person: Person,
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
        Self { provider, person: Person::default(), store: Arc::new(MemoryStore::default()) }
    }

    fn options(&self) -> OAuthOptions {
        OAuthOptions { visitor: Some(Arc::new(self.person.clone())), ..self.without_person() }
    }

    fn without_person(&self) -> OAuthOptions {
        OAuthOptions::new(Arc::clone(&self.store))
    }

    /// A new process, as it were: nothing is shared but the store.
    fn session(&self) -> Session {
        self.session_with(self.options())
    }

    fn session_with(&self, options: OAuthOptions) -> Session {
        session(&self.provider.url(), options)
    }

    /// What a call in a new session comes to.
    async fn call(&self) -> String {
        told(look(&self.session()).await)
    }

    /// A call in a session of somebody who signed in before, and whose tokens have ended.
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
