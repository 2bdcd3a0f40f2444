//! The features of the 2026-07-28 revision, against two servers built on third-party SDKs, over stdio and Streamable
//! HTTP.
//! Both offer the same (`peers/mcp2_modern.py`), so that every behavior is tested once and expected of both.

mod cache;
mod calls;
mod headers;
mod listen;
mod rounds;
mod scripted;
mod tasks;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{
    BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Http, Notification, ProtocolMode, Refusal,
    RemoteOptions, Root, Session, SessionOptions,
};
use wharf_protocol::Json;
use wharf_testkit::{children_of, kill, rmcp_server, soon, until};

use crate::peers::stdio;
use crate::peers_http::{self, Way};

const PYTHON: [&str; 2] = ["ROOT/.peers/py2/bin/python", "ROOT/peers/mcp2_modern.py"];

/// Generates a test of a behavior for every server and every transport.
macro_rules! expected_of_every_peer {
    ($($behaviour:ident)*) => {$(
        mod $behaviour {
            use crate::modern::{Peer, Sdk};

            #[tokio::test]
            async fn on_python_over_stdio() {
                super::$behaviour(Peer::over_stdio(Sdk::Python)).await;
            }

            #[tokio::test]
            async fn on_python_over_http() {
                super::$behaviour(Peer::over_http(Sdk::Python).await).await;
            }

            #[tokio::test]
            async fn on_rmcp_over_stdio() {
                super::$behaviour(Peer::over_stdio(Sdk::Rmcp)).await;
            }

            #[tokio::test]
            async fn on_rmcp_over_http() {
                super::$behaviour(Peer::over_http(Sdk::Rmcp).await).await;
            }
        }
    )*};
}

/// The same for behavior that exists only over HTTP.
macro_rules! expected_over_http {
    ($($behaviour:ident)*) => {$(
        mod $behaviour {
            use crate::modern::{Peer, Sdk};

            #[tokio::test]
            async fn on_python() {
                super::$behaviour(Peer::over_http(Sdk::Python).await).await;
            }

            #[tokio::test]
            async fn on_rmcp() {
                super::$behaviour(Peer::over_http(Sdk::Rmcp).await).await;
            }
        }
    )*};
}
use {expected_of_every_peer, expected_over_http};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sdk {
    Python,
    Rmcp,
}

/// One of the two servers, and its transport.
struct Peer {
    sdk: Sdk,
    /// The process behind HTTP; over stdio the session owns the process.
    http: Option<peers_http::Peer>,
}

impl Sdk {
    fn command_line(self) -> Vec<String> {
        match self {
            Self::Python => PYTHON.map(str::to_owned).to_vec(),
            Self::Rmcp => vec![rmcp_server().to_str().unwrap().to_owned()],
        }
    }
}

impl Peer {
    fn over_stdio(sdk: Sdk) -> Self {
        Self { sdk, http: None }
    }

    async fn over_http(sdk: Sdk) -> Self {
        let mut command_line = sdk.command_line();
        command_line.extend(["http".to_owned(), "PORT".to_owned()]);
        let command_line: Vec<&str> = command_line.iter().map(String::as_str).collect();
        Self { sdk, http: Some(peers_http::Peer::start(Way::Streamable, &command_line).await) }
    }

    fn is_http(&self) -> bool {
        self.http.is_some()
    }

    fn session(&self, person: &Arc<Person>) -> Session {
        self.session_with(person, &[], SessionOptions::default())
    }

    /// A session that sends these headers, over HTTP.
    fn session_with(&self, person: &Arc<Person>, headers: &[(&str, &str)], options: SessionOptions) -> Session {
        // Negotiation is not tested here; a slow start must not cause a fallback.
        let options = SessionOptions { protocol: ProtocolMode::Modern, ..options };
        let name = "peer".parse().unwrap();
        let host = Arc::<Person>::clone(person);
        let Some(http) = &self.http else {
            let command_line = self.sdk.command_line();
            let command_line: Vec<&str> = command_line.iter().map(String::as_str).collect();
            return Session::with_shared(name, Arc::new(stdio(&command_line)), host, options);
        };
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let remote = RemoteOptions { headers, ..RemoteOptions::default() };
        Session::with_shared(name, Arc::new(Http::new(&http.url(), remote).unwrap()), host, options)
    }

    /// Kills the server. Over HTTP it is restarted; over stdio the session does that.
    async fn restart(&mut self) {
        match &mut self.http {
            Some(http) => http.restart().await,
            None => children_of(std::process::id()).into_iter().for_each(kill),
        }
    }

    /// Waits until the server has written this line to stderr that many times.
    async fn says(&self, session: &Session, line: &str, times: usize) {
        until(async || {
            let lines = match &self.http {
                Some(http) => http.stderr().lines().map(str::to_owned).collect(),
                // Every error contains the server's stderr; this one is provoked to read it.
                None => session.get_prompt("nobody", &json!({}).into()).await.unwrap_err().evidence.stderr,
            };
            lines.iter().filter(|written| *written == line).count() == times
        })
        .await;
    }

    /// The address it listens on.
    fn address(&self) -> SocketAddr {
        let url: http::Uri = self.http.as_ref().unwrap().url().parse().unwrap();
        url.authority().unwrap().as_str().parse().unwrap()
    }
}

/// Closes a session, which is fast and leaks nothing, and checks the server's health.
async fn closes(peer: &Peer, session: &Session) {
    let began = tokio::time::Instant::now();
    soon(session.close()).await;
    assert!(began.elapsed() < Duration::from_secs(3), "closing took {:?}", began.elapsed());
    let own = usize::from(peer.is_http());
    assert_eq!(children_of(std::process::id()).len(), own);
    assert_eq!((session.health().violations, session.health().noise), (0, 0));
}

/// A host that records notifications and answers requests.
#[derive(Default)]
struct Person {
    capabilities: ClientCapabilities,
    behavior: Behavior,
    /// How long it takes to answer.
    thinks: Duration,
    notifications: Mutex<Vec<Notification>>,
    elicitations: Mutex<Vec<Value>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behavior {
    #[default]
    Helpful,
    Declining,
    Leaving,
}

impl Person {
    /// A host that supports everything.
    fn able(behavior: Behavior) -> Self {
        let capabilities = ClientCapabilities { elicitation: true, sampling: true, roots: true };
        Self { capabilities, behavior, ..Self::default() }
    }

    fn helpful() -> Arc<Self> {
        Arc::new(Self::able(Behavior::Helpful))
    }

    /// A host that only listens.
    fn listening() -> Arc<Self> {
        Arc::default()
    }

    /// How many notifications match.
    fn times(&self, like: impl Fn(&Notification) -> bool) -> usize {
        self.notifications.lock().unwrap().iter().filter(|notice| like(notice)).count()
    }

    fn tools_changed(&self) -> usize {
        self.times(|notice| matches!(notice, Notification::ToolsChanged))
    }

    fn updates(&self, of: &str) -> usize {
        self.times(|notice| matches!(notice, Notification::ResourceUpdated { uri } if uri == of))
    }

    /// The messages of the elicitations, in order.
    fn elicitations(&self) -> Vec<Value> {
        self.elicitations.lock().unwrap().clone()
    }
}

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.elicitations.lock().unwrap().push(json!([request.message, request.url]));
        let content = request.schema.as_ref().map(|schema| {
            let fields = schema.to_value().unwrap()["properties"].clone();
            let word = if request.message.contains("first") { "one" } else { "two" };
            if fields.get("word").is_some() { json!({"word": word}) } else { json!({"name": "Ada", "age": 36}) }
        });
        Box::pin(async move {
            tokio::time::sleep(self.thinks).await;
            match self.behavior {
                Behavior::Helpful => ElicitationAnswer::Accept(content.map(Json::from)),
                Behavior::Declining => ElicitationAnswer::Decline,
                Behavior::Leaving => ElicitationAnswer::Cancel,
            }
        })
    }

    fn sample(&self, request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        let answer = if self.behavior == Behavior::Helpful {
            assert_eq!(request.to_value().unwrap()["systemPrompt"], "Be brief.");
            let paris = json!({"type": "text", "text": "Paris"});
            Ok(json!({"role": "assistant", "content": paris, "model": "m1", "stopReason": "endTurn"}).into())
        } else {
            Err(Refusal("not today".to_owned()))
        };
        Box::pin(std::future::ready(answer))
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root { uri: "file:///a".to_owned(), name: Some("a".to_owned()) }]))
    }

    fn notify(&self, notice: Notification) {
        self.notifications.lock().unwrap().push(notice);
    }
}
