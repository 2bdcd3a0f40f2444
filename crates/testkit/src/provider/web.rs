//! Dispatches HTTP requests to the endpoints.

use std::sync::{Arc, PoisonError};

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::config::{Document, ProviderConfig, TokenFault};
use super::dpop;
use super::grants::{Form, TokenError};
use super::protected;
use super::response::{JSON, Response, json_document, with_headers};
use super::state::Shared;
use crate::seen_request::SeenRequest;

/// The connection ends without a response.
#[derive(Debug)]
struct HungUp;

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}

/// Accepts connections until it is dropped.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                number += 1;
                let shared = Arc::clone(&shared);
                let connection = number;
                let service = service_fn(move |request| handle(Arc::clone(&shared), request, connection));
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>, connection: u64) -> Result<Response, HungUp> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Err(HungUp) };
    let seen = SeenRequest {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        connection,
    };
    shared.requests.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
    let config = shared.config();
    if let Some(document) = config.documents.get(head.uri.path()) {
        return Ok(match document {
            Document::Json(object) => with_headers(200, &[JSON], shared.with_origin(&object.to_string())),
            Document::Redirect(status, to) => {
                with_headers(*status, &[("location", &shared.with_origin(to))], String::new())
            }
            Document::Raw(status, content) => with_headers(*status, &[], shared.with_origin(content)),
        });
    }
    match (seen.method.as_str(), head.uri.path()) {
        ("GET", "/authorize") => Ok(authorize(&shared, &config, head.uri.query().unwrap_or_default())),
        ("POST", "/token") => tokens(&shared, &config, &seen).await,
        ("POST", "/register") => {
            let metadata: Value = serde_json::from_str(&seen.body).unwrap_or_default();
            Ok(json_document(201, &shared.grants().register(&metadata, &config)))
        }
        ("POST", "/revoke") => {
            shared.grants().revoke(&form(&seen.body));
            Ok(with_headers(200, &[], String::new()))
        }
        (_, path) if path.starts_with("/mcp") => {
            let mut response = protected::serve(&shared, &config, &seen);
            dpop::add_nonce(&shared, config.dpop.as_ref(), &mut response);
            Ok(response)
        }
        _ => Ok(with_headers(404, &[], "not found".to_owned())),
    }
}

/// Authorizes every user and redirects back to the client.
fn authorize(shared: &Shared, config: &ProviderConfig, query: &str) -> Response {
    let parameters = form(query);
    let Some(redirect_uri) = parameters.get("redirect_uri") else {
        return with_headers(400, &[], "missing redirect_uri".to_owned());
    };
    let state = config.state.as_ref().or(parameters.get("state")).cloned().unwrap_or_default();
    let iss = config.iss.as_ref().map(|iss| format!("&iss={}", shared.with_origin(iss))).unwrap_or_default();
    let outcome = match (&config.authorize_error, shared.grants().code(&parameters, config)) {
        (Some(error), _) => format!("error={error}"),
        (None, Ok(code)) => format!("code={code}"),
        (None, Err(reason)) => return with_headers(400, &[], reason.to_owned()),
    };
    let location = format!("{redirect_uri}?{outcome}&state={state}{iss}");
    with_headers(303, &[("location", &location)], String::new())
}

async fn tokens(shared: &Shared, config: &ProviderConfig, seen: &SeenRequest) -> Result<Response, HungUp> {
    match &config.tokens {
        TokenFault::Raw(status, content) => return Ok(with_headers(*status, &[JSON], shared.with_origin(content))),
        TokenFault::Hang => std::future::pending().await,
        TokenFault::None | TokenFault::Slow(_) | TokenFault::HangUp => {}
    }
    let authorization = seen.headers.get("authorization").and_then(|value| value.to_str().ok());
    let thumbprint = match &config.dpop {
        Some(dpop) if seen.headers.contains_key("dpop") => match dpop::check_token_request(shared, dpop, seen) {
            Ok(thumbprint) => Some(thumbprint),
            Err(refusal) => return Ok(*refusal),
        },
        _ => None,
    };
    let issued = shared.grants().tokens(&form(&seen.body), authorization, thumbprint, config);
    match config.tokens {
        TokenFault::Slow(time) => tokio::time::sleep(time).await,
        TokenFault::HangUp => return Err(HungUp),
        _ => {}
    }
    Ok(match issued {
        Ok(tokens) => json_document(200, &tokens),
        Err(TokenError(status, error)) => {
            let mut body = json!({"error": error});
            if config.errors_quote_request {
                body["error_description"] = format!("{} {}", seen.body, authorization.unwrap_or_default()).into();
            }
            json_document(status, &body)
        }
    })
}

/// Parses a form or a query.
fn form(text: &str) -> Form {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

fn decode(text: &str) -> String {
    let mut rest = text.as_bytes();
    let mut decoded = Vec::new();
    while let [first, behind @ ..] = rest {
        let digit = |at: usize| behind.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let escaped = if *first == b'%' { digit(0).zip(digit(1)) } else { None };
        let (byte, left) = match escaped.and_then(|(high, low)| u8::try_from(high << 4 | low).ok()) {
            Some(byte) => (byte, &behind[2..]),
            None if *first == b'+' => (b' ', behind),
            None => (*first, behind),
        };
        decoded.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
