//! The client that the protocol's conformance suite judges: one session, used for all that the server offers.
//!
//! The suite starts it for each of its scenarios, with the address of a server as its only argument. It knows nothing of
//! the scenarios: it finds out what the server speaks and has, and uses all of it.

#![expect(clippy::print_stderr, reason = "whoever starts it wants to know what went wrong")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wharf::auth::{
    AssertionSource, AuthorizationFlow, AuthorizationUi, Enterprise, Grant, MemoryStore, OAuth, OAuthOptions,
    RegisteredClient, SigningKey, TokenProvider,
};
use wharf::{
    BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Http, Json, Refusal, RemoteOptions, Root,
    Secret, Session, SessionOptions, Tool,
};

/// How long the stream on which the server speaks by itself may take. The suite takes whichever stream is opened after one
/// that it has broken for the one that goes on with it.
const FIRST: Duration = Duration::from_millis(300);
/// How long the server may go on telling things after everything has been used.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Where the suite believes clients to describe themselves.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// What the suite says about a scenario in a variable.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Context {
    tool_calls: Vec<ToolCall>,
    /// The client that the authorization server knows already.
    #[serde(rename = "client_id")]
    client_id: Option<String>,
    #[serde(rename = "client_secret")]
    client_secret: Option<String>,
    #[serde(rename = "private_key_pem")]
    private_key_pem: Option<String>,
    #[serde(rename = "idp_client_id")]
    idp_client_id: Option<String>,
    #[serde(rename = "idp_token_endpoint")]
    idp_token_endpoint: Option<String>,
    #[serde(rename = "idp_id_token")]
    idp_id_token: Option<String>,
    #[serde(rename = "valid_jwt")]
    valid_jwt: Option<String>,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// A host that says yes to everything.
struct Agreeable;

impl Host for Agreeable {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: true, roots: true }
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        let content = request.schema.is_some().then(|| filled(&request));
        Box::pin(std::future::ready(ElicitationAnswer::Accept(content)))
    }

    fn sample(&self, _request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        let answer = json!({
            "role": "assistant",
            "content": {"type": "text", "text": "An answer."},
            "model": "none",
            "stopReason": "endTurn",
        });
        Box::pin(std::future::ready(Ok(answer.into())))
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root { uri: "file:///tmp".to_owned(), name: Some("tmp".to_owned()) }]))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("which server? give its address")?;
    #[expect(clippy::disallowed_methods, reason = "the suite speaks to its clients so")]
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Context = serde_json::from_str(&context).unwrap_or_default();
    let transport = Http::new(
        &url,
        RemoteOptions { token_provider: Some(authority(&url, &context)?), ..RemoteOptions::default() },
    )?;
    let session = Session::new("judged".parse()?, transport, Agreeable, SessionOptions::default());
    let used = use_all(&session, &context).await;
    tokio::time::sleep(AFTERWARDS).await;
    session.close().await;
    used
}

/// Signs in as the suite wants it: the client it knows, if it names one, and a page that needs no person.
fn authority(url: &str, context: &Context) -> Result<Arc<dyn TokenProvider>, Box<dyn Error>> {
    let client = context.client_id.as_deref().map(|id| match &context.client_secret {
        Some(secret) => RegisteredClient::with_secret(id, Secret::new(secret.as_str())),
        None if context.private_key_pem.is_some() => RegisteredClient::with_key(id),
        None => RegisteredClient { id: id.to_owned(), ..RegisteredClient::default() },
    });
    let key = match &context.private_key_pem {
        Some(pem) => Some(Arc::new(SigningKey::from_pem(&Secret::new(pem.as_str()), None)?)),
        None => None,
    };
    let options = OAuthOptions {
        client,
        key,
        grant: grant(context),
        metadata_url: Some(METADATA.to_owned()),
        visitor: Some(Arc::new(Nobody)),
        ..OAuthOptions::new(Arc::<MemoryStore>::default())
    };
    Ok(Arc::new(OAuth::new(url, options)?))
}

/// What the suite gives tokens for in a scenario, by what it tells about it.
fn grant(context: &Context) -> Grant {
    #[expect(clippy::disallowed_methods, reason = "the suite speaks to its clients so")]
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match (&context.idp_token_endpoint, &context.idp_id_token, &context.valid_jwt) {
        (Some(token_endpoint), Some(id_token), _) => Grant::Enterprise(Enterprise {
            token_endpoint: token_endpoint.clone(),
            client: RegisteredClient::public(context.idp_client_id.as_deref().unwrap_or_default()),
            id_token: Secret::new(id_token.as_str()),
        }),
        (_, _, Some(word)) => {
            let word = Secret::new(word.as_str());
            Grant::Workload(AssertionSource::new(move |_| Box::pin(std::future::ready(Ok(word.clone())))))
        }
        _ if scenario.contains("client-credentials") => Grant::Client,
        _ => Grant::Person,
    }
}

/// Goes to pages on which nobody has to do anything.
struct Nobody;

impl AuthorizationUi for Nobody {
    fn begin<'a>(&'a self, _before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        Box::pin(std::future::ready(Ok(Box::new(Self) as Box<dyn AuthorizationFlow>)))
    }
}

impl AuthorizationFlow for Nobody {
    fn redirect_uri(&self) -> &'static str {
        "http://127.0.0.1:3000/callback"
    }

    fn go(self: Box<Self>, url: String, _state: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { visited(&url).await.map_err(|error| error.to_string()) })
    }
}

/// Where a page sends whoever comes to it.
async fn visited(url: &str) -> Result<String, Box<dyn Error>> {
    let rest = url.strip_prefix("http://").ok_or("the suite speaks plain HTTP")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut head = String::new();
    stream.read_to_string(&mut head).await?;
    let location = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    location.ok_or_else(|| "the page sends nobody anywhere".into())
}

async fn use_all(session: &Session, context: &Context) -> Result<(), Box<dyn Error>> {
    let has = session.connect().await?.capabilities.to_value()?;
    tokio::time::sleep(FIRST).await;
    let tools = session.list_tools().await?.items;
    let wanted = context.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
    let calls: Vec<_> = match &context.tool_calls[..] {
        [] => tools.iter().map(|tool| (tool.name.to_string(), arguments(tool, &tools))).collect(),
        _ => wanted.collect(),
    };
    for (tool, arguments) in calls {
        // A tool that cannot be called does not spoil the others.
        if let Err(error) = session.call(&tool, &Value::Object(arguments).into()).await {
            eprintln!("{error}");
        }
    }
    if has.get("prompts").is_some() {
        for prompt in session.list_prompts().await?.items {
            session.get_prompt(&prompt.name, &json!({}).into()).await?;
        }
    }
    if has.get("resources").is_some() {
        for resource in session.list_resources().await?.items {
            session.read_resource(&resource.uri).await?;
        }
    }
    Ok(())
}

/// Arguments that fit a tool's schema, as far as its types go. A tool that wants a schema gets that of its neighbour.
fn arguments(tool: &Arc<Tool>, tools: &[Arc<Tool>]) -> Map<String, Value> {
    let mut arguments = made_up(&tool.input_schema.to_value().unwrap_or_default());
    let neighbour = tools.iter().find(|other| !Arc::ptr_eq(other, tool));
    if let (Some(schema), Some(neighbour)) = (arguments.get_mut("schema"), neighbour) {
        *schema = neighbour.input_schema.to_value().unwrap_or_default();
    }
    arguments
}

/// A form as a person might fill it in: what it proposes, and something where it proposes nothing.
fn filled(request: &Elicitation) -> Json {
    let schema = request.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let mut content = made_up(&schema);
    let proposed = request.defaults().to_value().unwrap_or_default();
    content.extend(proposed.as_object().cloned().unwrap_or_default());
    Value::Object(content).into()
}

/// Something for every field that has to be there.
fn made_up(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| {
        let field = &schema["properties"][name];
        match (&field["enum"][0], field["type"].as_str()) {
            (Value::Null, Some("integer" | "number")) => json!(5),
            (Value::Null, Some("boolean")) => json!(true),
            (Value::Null, Some("array")) => json!([]),
            (Value::Null, Some("object")) => Value::Object(made_up(field)),
            (Value::Null, _) => json!("text"),
            (first, _) => first.clone(),
        }
    };
    required.map(|name| (name.to_owned(), value(name))).collect()
}
