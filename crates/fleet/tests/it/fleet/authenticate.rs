//! Sign-ins while the fleet runs: by the tool that the model calls, or by another process.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use wharf_auth::{AuthorizationFlow, AuthorizationUi, MemoryStore, OAuth, OAuthOptions, Store, TokenProvider};
use wharf_client::ClientCapabilities;
use wharf_fleet::dispatch::{ApprovalAnswer, NoUserPrompt, Question, UserAnswer, UserPrompt};
use wharf_fleet::{Dispatcher, Fleet, FleetOptions, HostEnvironment, Policy, Server, ServerState, SignInRequest, Turn};
use wharf_io::{HttpClient, HttpSettings};
use wharf_protocol::{Json, ToolCall, ToolOutput, Tools as _};
use wharf_testkit::provider::{Provider, ProviderConfig};
use wharf_testkit::{soon, until};

use super::{LONG, at};

/// A user who follows the sign-in URL after a while of virtual time.
#[derive(Clone)]
struct Person {
    thinks: Duration,
}

impl AuthorizationUi for Person {
    fn begin<'a>(&'a self, _before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        let visit: Box<dyn AuthorizationFlow> = Box::new(self.clone());
        Box::pin(async move { Ok(visit) })
    }
}

impl AuthorizationFlow for Person {
    fn redirect_uri(&self) -> &'static str {
        "http://127.0.0.1:1/callback"
    }

    fn go(self: Box<Self>, url: String, _state: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            if !self.thinks.is_zero() {
                tokio::time::pause();
                tokio::time::sleep(self.thinks).await;
                tokio::time::resume();
            }
            let client = HttpClient::new(HttpSettings::default()).map_err(|error| error.to_string())?;
            let mut request = http::Request::new(Vec::new().into());
            *request.uri_mut() = url.parse().map_err(|_| "no address".to_owned())?;
            let response = client.send(request).await.map_err(|error| error.to_string())?;
            Ok(response.headers()["location"].to_str().map_err(|_| "no text")?.to_owned())
        })
    }
}

/// A user who approves everything.
struct Yes;

impl UserPrompt for Yes {
    fn ask(&self, _question: Question) -> BoxFuture<'_, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Approval(ApprovalAnswer::Yes)))
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }
}

/// A server that needs a sign-in, and the credential store.
struct Scene {
    provider: Provider,
    store: Arc<dyn Store>,
    thinks: Duration,
}

impl Scene {
    async fn new() -> Self {
        let provider = Provider::start(ProviderConfig::default()).await;
        Self { provider, store: Arc::new(MemoryStore::default()), thinks: Duration::ZERO }
    }

    fn person(&self) -> OAuthOptions {
        let person = Person { thinks: self.thinks };
        OAuthOptions { ui: Some(Arc::new(person)), ..OAuthOptions::new(Arc::clone(&self.store)) }
    }

    fn server(&self, text: &str) -> Server {
        at(text, &self.provider.url())
    }

    /// A fleet whose connections never prompt the user.
    async fn open(&self, options: FleetOptions) -> Fleet {
        let store = Arc::clone(&self.store);
        let sign_ins = move |url: &str, _: &_| {
            Some(Arc::new(OAuth::new(url, OAuthOptions::new(Arc::clone(&store))).unwrap()) as Arc<dyn TokenProvider>)
        };
        let host_environment = HostEnvironment { sign_ins: Some(Arc::new(sign_ins)), ..HostEnvironment::default() };
        let fleet = Fleet::open([self.server("docs").into()], FleetOptions { host_environment, ..options });
        soon(fleet.settled(LONG)).await;
        assert_eq!(fleet.statuses()[0].state, ServerState::NeedsAuth, "{:?}", fleet.statuses());
        fleet
    }

    /// A fleet whose user signs in when the model requests it.
    async fn with_person(&self) -> Fleet {
        let person = self.person();
        let signs_in = move |SignInRequest { server, required }: SignInRequest| {
            assert_eq!(server.name.as_str(), "docs");
            let wharf_fleet::TransportConfig::Http(remote) = &server.transport else { panic!("{server:?}") };
            let oauth = OAuth::new(&remote.url, person.clone()).unwrap();
            Box::pin(async move {
                let required = required.unwrap();
                assert!(required.challenge.as_deref().unwrap().starts_with("Bearer"));
                oauth.sign_in(Some(&required)).await.map_err(|error| error.to_string())
            }) as BoxFuture<'static, Result<(), String>>
        };
        self.open(FleetOptions { sign_in_prompt: Some(Arc::new(signs_in)), ..FleetOptions::default() }).await
    }
}

fn offered(fleet: &Fleet) -> Vec<String> {
    fleet.catalog().entries().iter().map(|entry| entry.name.to_string()).collect()
}

/// The output of the tool in one turn.
async fn authenticate(fleet: &Fleet, dispatcher: Dispatcher, server: &str) -> ToolOutput {
    let turn = Turn::new(fleet.catalog(), Arc::new(dispatcher));
    let arguments: Json = json!({"server": server}).into();
    let call = ToolCall { id: "1".into(), name: "authenticate".into(), arguments };
    soon(turn.call(&call)).await.unwrap()
}

fn asking(asker: impl UserPrompt + 'static) -> Dispatcher {
    Dispatcher::new(Policy::permissive())
        .with_user_prompt(Arc::new(asker))
        .with_limits(Some(Duration::from_secs(1)), None)
}

#[tokio::test]
async fn after_a_sign_in_the_tools_are_available_in_the_next_turn() {
    let mut scene = Scene::new().await;
    // Longer than the total timeout of a call.
    scene.thinks = Duration::from_secs(5);
    let fleet = scene.with_person().await;
    assert_eq!(offered(&fleet), ["authenticate"]);
    let entry = Arc::clone(&fleet.catalog().entries()[0]);
    let schema: Value = entry.input_schema.to_value().unwrap();
    assert_eq!(schema["properties"]["server"]["enum"], json!(["docs"]));
    assert!(entry.server.is_none() && entry.description.contains("(`docs`)"), "{}", entry.description);

    let said = authenticate(&fleet, asking(Yes), "docs").await;
    assert_eq!(said.text(), "Signed in to `docs`. Its tools (1) can be called from the next turn on.");
    assert!(!said.is_error);
    assert_eq!(offered(&fleet), ["mcp__docs__look"]);
    let turn = Turn::new(fleet.catalog(), Arc::new(Dispatcher::new(Policy::permissive())));
    let call = ToolCall { id: "2".into(), name: "mcp__docs__look".into(), arguments: json!({}).into() };
    assert_eq!(soon(turn.call(&call)).await.unwrap().text(), "done with read");
    fleet.close().await;
}

#[tokio::test]
async fn a_sign_in_needs_the_users_approval() {
    let scene = Scene::new().await;
    let fleet = scene.with_person().await;
    let said = authenticate(&fleet, asking(NoUserPrompt), "docs").await;
    assert!(said.is_error && said.text().contains("no user can be asked"), "{}", said.text());
    assert!(scene.provider.requests_to("/authorize").is_empty());
    // Without a sign-in prompt the tool does not exist.
    let fleet = scene.open(FleetOptions::default()).await;
    assert_eq!(offered(&fleet), Vec::<String>::new());
    fleet.close().await;
}

#[tokio::test]
async fn a_failed_sign_in_is_reported_to_the_model() {
    let scene = Scene::new().await;
    let signs_in = |_| Box::pin(async { Err("the window was closed".to_owned()) }) as BoxFuture<'static, _>;
    let fleet = scene.open(FleetOptions { sign_in_prompt: Some(Arc::new(signs_in)), ..FleetOptions::default() }).await;
    let said = authenticate(&fleet, asking(Yes), "docs").await;
    assert_eq!(said.text(), "The sign-in to `docs` failed: the window was closed");
    assert!(said.is_error);
    assert_eq!(offered(&fleet), ["authenticate"]);
    fleet.close().await;
}

/// As by another process.
#[tokio::test]
async fn a_sign_in_by_another_process_is_noticed() {
    let scene = Scene::new().await;
    let fleet = scene.open(FleetOptions::default()).await;
    let asked = scene.provider.requests_to("/mcp").len();
    soon(OAuth::new(&scene.provider.url(), scene.person()).unwrap().sign_in(None)).await.unwrap();
    until(async || fleet.statuses()[0].state == ServerState::Connected).await;
    assert_eq!(offered(&fleet), ["mcp__docs__look"]);
    // The server was contacted again.
    assert!(scene.provider.requests_to("/mcp").len() > asked);
    fleet.close().await;
}
