//! The client for the protocol's conformance suite: one session that uses everything the server offers.
//!
//! The suite starts it for each scenario, with the URL of a server as its only argument. It does not know the scenarios:
//! it detects the era and the capabilities of the server, and uses all of them.

#![expect(clippy::print_stderr, reason = "the suite shows the errors of its client")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wharf::auth::{
    AssertionSource, AuthorizationFlow, AuthorizationUi, Enterprise, Grant, MemoryStore, OAuth, OAuthOptions,
    RegisteredClient, SecretRecipient, SigningKey, TokenProvider,
};
use wharf::{
    BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Http, Json, Refusal, RemoteOptions, Root,
    Secret, Session, SessionOptions, Tool,
};

/// Time limit for the notification stream. After the suite has broken a stream, it takes the next opened stream for its
/// resumption.
const FIRST: Duration = Duration::from_millis(300);
/// How long to wait for further notifications at the end.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// The URL where the suite expects the client metadata document.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// The context of a scenario, from an environment variable.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Context {
    tool_calls: Vec<ToolCall>,
    /// The client that is already registered with the authorization server.
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

/// A host that accepts everything.
struct Agreeable;

impl Host for Agreeable {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: true, roots: true }
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        let content = request.schema.is_some().then(|| fill_form(&request));
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
    let url = std::env::args().nth(1).ok_or("missing argument: the URL of the server")?;
    #[expect(clippy::disallowed_methods, reason = "the suite passes its input in environment variables")]
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Context = serde_json::from_str(&context).unwrap_or_default();
    let transport = Http::new(
        &url,
        RemoteOptions { token_provider: Some(token_provider(&url, &context)?), ..RemoteOptions::default() },
    )?;
    let session = Session::new("judged".parse()?, transport, Agreeable, SessionOptions::default());
    let used = use_all(&session, &context).await;
    tokio::time::sleep(AFTERWARDS).await;
    session.close().await;
    used
}

/// Creates the token provider for a scenario: with the registered client, if any, and without a user.
fn token_provider(url: &str, context: &Context) -> Result<Arc<dyn TokenProvider>, Box<dyn Error>> {
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
        ui: Some(Arc::new(Unattended)),
        ..OAuthOptions::new(Arc::<MemoryStore>::default())
    };
    Ok(Arc::new(OAuth::new(url, options)?))
}

/// Returns the grant type of a scenario, by its context.
fn grant(context: &Context) -> Grant {
    #[expect(clippy::disallowed_methods, reason = "the suite passes its input in environment variables")]
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match (&context.idp_token_endpoint, &context.idp_id_token, &context.valid_jwt) {
        (Some(token_endpoint), Some(id_token), _) => Grant::Enterprise(Enterprise {
            token_endpoint: token_endpoint.clone(),
            client: RegisteredClient::public(context.idp_client_id.as_deref().unwrap_or_default()),
            id_token: Secret::new(id_token.as_str()),
        }),
        (_, _, Some(assertion)) => {
            let assertion = Secret::new(assertion.as_str());
            Grant::Workload(AssertionSource::new(move |_| Box::pin(std::future::ready(Ok(assertion.clone())))))
        }
        _ if scenario.contains("client-credentials") => Grant::Client,
        _ => Grant::Person,
    }
}

/// Opens authorization pages that need no interaction.
struct Unattended;

impl AuthorizationUi for Unattended {
    fn begin<'a>(&'a self, _before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        Box::pin(std::future::ready(Ok(Box::new(Self) as Box<dyn AuthorizationFlow>)))
    }

    /// The secrets of the suite belong to whichever issuer its server names.
    fn confirm_secret<'a>(&'a self, _recipient: SecretRecipient<'a>) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(std::future::ready(Ok(true)))
    }
}

impl AuthorizationFlow for Unattended {
    fn redirect_uri(&self) -> &'static str {
        "http://127.0.0.1:3000/callback"
    }

    fn go(self: Box<Self>, url: String, _state: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { redirect_of(&url).await.map_err(|error| error.to_string()) })
    }
}

/// Requests a page and returns its redirect.
async fn redirect_of(url: &str) -> Result<String, Box<dyn Error>> {
    let rest = url.strip_prefix("http://").ok_or("expected an http URL")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut head = String::new();
    stream.read_to_string(&mut head).await?;
    let location = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    location.ok_or_else(|| "the page does not redirect".into())
}

async fn use_all(session: &Session, context: &Context) -> Result<(), Box<dyn Error>> {
    let has = session.connect().await?.capabilities.to_value()?;
    tokio::time::sleep(FIRST).await;
    let tools = session.list_tools().await?.items;
    let requested = context.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
    let calls: Vec<_> = match &context.tool_calls[..] {
        [] => tools.iter().map(|tool| (tool.name.to_string(), arguments(tool, &tools))).collect(),
        _ => requested.collect(),
    };
    for (tool, arguments) in calls {
        // A failed call does not stop the others.
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

/// Returns arguments with the types of a tool's schema. A tool that expects a schema gets that of another tool.
fn arguments(tool: &Arc<Tool>, tools: &[Arc<Tool>]) -> Map<String, Value> {
    let mut arguments = generate(&tool.input_schema.to_value().unwrap_or_default());
    let neighbour = tools.iter().find(|other| !Arc::ptr_eq(other, tool));
    if let (Some(schema), Some(neighbour)) = (arguments.get_mut("schema"), neighbour) {
        *schema = neighbour.input_schema.to_value().unwrap_or_default();
    }
    arguments
}

/// Fills in a form: with its defaults, and with generated values otherwise.
fn fill_form(request: &Elicitation) -> Json {
    let schema = request.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let mut content = generate(&schema);
    let proposed = request.defaults().to_value().unwrap_or_default();
    content.extend(proposed.as_object().cloned().unwrap_or_default());
    Value::Object(content).into()
}

/// Generates a value for every required field.
fn generate(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| {
        let field = &schema["properties"][name];
        match (&field["enum"][0], field["type"].as_str()) {
            (Value::Null, Some("integer" | "number")) => json!(5),
            (Value::Null, Some("boolean")) => json!(true),
            (Value::Null, Some("array")) => json!([]),
            (Value::Null, Some("object")) => Value::Object(generate(field)),
            (Value::Null, _) => json!("text"),
            (first, _) => first.clone(),
        }
    };
    required.map(|name| (name.to_owned(), value(name))).collect()
}
