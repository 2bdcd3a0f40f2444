//! An MCP server that requires authorization and its authorization server, on one port.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::Digest as _;

/// The state of both servers.
#[derive(Default)]
pub(crate) struct State {
    /// Every request: its method and path, and its body.
    pub(crate) requests: Vec<(String, String)>,
    /// Error in the authorization response, if any.
    pub(crate) authorization_error: Option<&'static str>,
    /// Expected `resource` of tokens; the MCP server if absent.
    pub(crate) resource: Option<String>,
    /// Whether the MCP server accepts requests without a token.
    pub(crate) is_open: bool,
    /// Whether the revocation endpoint fails.
    pub(crate) revocation_fails: bool,
    /// `Authorization` header of the last token request.
    pub(crate) client_authentication: Option<String>,
    /// Valid access tokens and refresh tokens.
    access_tokens: BTreeSet<String>,
    refresh_tokens: BTreeSet<String>,
    /// Code challenge, redirect URI and scopes of each authorization code.
    codes: BTreeMap<String, [String; 3]>,
    issued: usize,
}

pub(crate) struct ProtectedServer {
    port: u16,
    state: Arc<Mutex<State>>,
}

/// Prefixes of secrets, which must never be printed.
pub(crate) const SECRETS: [&str; 4] = ["acc3ss-", "r3fresh-", "c0de-", "s3cr3t"];

struct Request {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl ProtectedServer {
    /// Listens until the test ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream.unwrap(), port, &state));
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", origin(self.port))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Expires all access tokens.
    pub(crate) fn expire(&self) {
        self.state().access_tokens.clear();
    }

    /// Returns the parameters of the last authorization request.
    pub(crate) fn authorization_params(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let page = state.requests.iter().rev().find_map(|(line, _)| line.strip_prefix("GET /authorize?"));
        form(page.unwrap())
    }

    /// Returns the number of requests with this start and this text in the body.
    pub(crate) fn count(&self, request: &str, body: &str) -> usize {
        let state = self.state();
        state.requests.iter().filter(|(line, sent)| line.starts_with(request) && sent.contains(body)).count()
    }
}

fn origin(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn serve(mut stream: TcpStream, port: u16, state: &Mutex<State>) {
    let Some(request) = read(&stream) else { return };
    let response = {
        let mut state = state.lock().unwrap();
        state.requests.push((format!("{} {}", request.method, request.path), request.body.clone()));
        respond(&request, port, &mut state)
    };
    let Response { status, headers, body } = response;
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next()?;
    let path = words.next()?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body: String::from_utf8(body).unwrap() })
}

fn json(status: u16, body: &Value) -> Response {
    Response { status, headers: vec![("content-type", "application/json".to_owned())], body: body.to_string() }
}

fn respond(request: &Request, port: u16, state: &mut State) -> Response {
    let origin = origin(port);
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match (request.method.as_str(), path) {
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            json(200, &json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}))
        }
        ("GET", "/.well-known/oauth-authorization-server") => json(
            200,
            &json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "revocation_endpoint": format!("{origin}/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            }),
        ),
        ("POST", "/register") => {
            let wanted: Value = serde_json::from_str(&request.body).unwrap();
            let redirects = wanted["redirect_uris"].clone();
            json(
                201,
                &json!({"client_id": "client-1", "redirect_uris": redirects, "token_endpoint_auth_method": "none"}),
            )
        }
        ("GET", "/authorize") => authorize(&origin, &form(query), state),
        ("POST", "/token") => {
            state.client_authentication = request.headers.get("authorization").cloned();
            token(&form(&request.body), state)
        }
        ("POST", "/revoke") if state.revocation_fails => json(503, &json!({"error": "temporarily_unavailable"})),
        ("POST", "/revoke") => {
            let token = form(&request.body)["token"].clone();
            assert!(state.refresh_tokens.remove(&token) || state.access_tokens.contains(&token));
            state.access_tokens.clear();
            Response { status: 200, headers: Vec::new(), body: String::new() }
        }
        (_, "/mcp") => mcp(&origin, request, state),
        _ => Response { status: 404, headers: Vec::new(), body: String::new() },
    }
}

/// Authorizes every request immediately.
fn authorize(origin: &str, params: &BTreeMap<String, String>, state: &mut State) -> Response {
    assert_eq!((params["response_type"].as_str(), params["code_challenge_method"].as_str()), ("code", "S256"));
    assert_eq!(params["resource"], state.resource.clone().unwrap_or_else(|| format!("{origin}/mcp")));
    state.issued += 1;
    let code = format!("c0de-{}", state.issued);
    let scope = params.get("scope").cloned().unwrap_or_default();
    state.codes.insert(code.clone(), [params["code_challenge"].clone(), params["redirect_uri"].clone(), scope]);
    let answer = state.authorization_error.map_or(format!("code={code}"), |error| format!("error={error}"));
    let iss = origin.replace(':', "%3A").replace('/', "%2F");
    let location = format!("{}?{answer}&state={}&iss={iss}", params["redirect_uri"], params["state"]);
    Response { status: 302, headers: vec![("location", location)], body: String::new() }
}

fn token(params: &BTreeMap<String, String>, state: &mut State) -> Response {
    let is_valid = match params["grant_type"].as_str() {
        "authorization_code" => state.codes.remove(&params["code"]).is_some_and(|[challenge, redirect_uri, _]| {
            let actual = BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(&params["code_verifier"]));
            actual == challenge && redirect_uri == params["redirect_uri"]
        }),
        // Refresh tokens are valid for one use.
        _ => state.refresh_tokens.remove(&params["refresh_token"]),
    };
    if !is_valid {
        return json(400, &json!({"error": "invalid_grant"}));
    }
    state.issued += 1;
    let access = format!("acc3ss-{}", state.issued);
    let refresh = format!("r3fresh-{}", state.issued);
    state.access_tokens.insert(access.clone());
    state.refresh_tokens.insert(refresh.clone());
    json(200, &json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh}))
}

fn mcp(origin: &str, request: &Request, state: &State) -> Response {
    let token = request.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if !state.is_open && !token.is_some_and(|token| state.access_tokens.contains(token)) {
        let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        return Response { status: 401, headers: vec![("www-authenticate", challenge)], body: String::new() };
    }
    if request.method != "POST" {
        return Response { status: 405, headers: Vec::new(), body: String::new() };
    }
    let message: Value = serde_json::from_str(&request.body).unwrap();
    let Some(id) = message.get("id") else {
        return Response { status: 202, headers: Vec::new(), body: String::new() };
    };
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1"}}),
        "tools/list" => json!({"tools": [tool("answer"), tool("other")]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "42"}]}),
        "ping" => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Parses a form or a query.
fn form(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (percent_decode(key), percent_decode(value))).collect()
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
            at += 1;
        }
    }
    String::from_utf8(decoded).unwrap()
}
