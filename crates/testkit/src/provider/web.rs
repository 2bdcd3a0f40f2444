//! HTTP: which request means what.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json as value};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::grants::{Complaint, Form};
use super::{Document, ProviderConfig, Shared, TokenFault, guarded};
use crate::SeenRequest;

pub(super) type Response = http::Response<Full<Bytes>>;

/// The connection ends without an answer.
#[derive(Debug)]
struct HungUp;

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}

/// Accepts connections for as long as it is polled.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                number += 1;
                let (shared, connection) = (Arc::clone(&shared), number);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request, connection));
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>, connection: u64) -> Result<Response, HungUp> {
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
            Document::Json(object) => whole(200, &[JSON], shared.here(&object.to_string())),
            Document::Redirect(status, to) => whole(*status, &[("location", &shared.here(to))], String::new()),
            Document::Raw(status, content) => whole(*status, &[], shared.here(content)),
        });
    }
    match (seen.method.as_str(), head.uri.path()) {
        ("GET", "/authorize") => Ok(authorize(&shared, &config, head.uri.query().unwrap_or_default())),
        ("POST", "/token") => tokens(&shared, &config, &seen).await,
        ("POST", "/register") => {
            let wanted: Value = serde_json::from_str(&seen.body).unwrap_or_default();
            Ok(json(201, &shared.grants().register(&wanted, &config)))
        }
        ("POST", "/revoke") => {
            shared.grants().revoke(&form(&seen.body));
            Ok(whole(200, &[], String::new()))
        }
        (_, path) if path.starts_with("/mcp") => Ok(guarded::serve(&shared, &config, &seen)),
        _ => Ok(whole(404, &[], "there is nothing here".to_owned())),
    }
}

/// Lets everybody in who comes, and sends them back.
fn authorize(shared: &Shared, config: &ProviderConfig, query: &str) -> Response {
    let asked = form(query);
    let Some(back) = asked.get("redirect_uri") else { return whole(400, &[], "back to where?".to_owned()) };
    let state = config.state.as_ref().or(asked.get("state")).cloned().unwrap_or_default();
    let iss = config.iss.as_ref().map(|iss| format!("&iss={}", shared.here(iss))).unwrap_or_default();
    let outcome = match (&config.authorize_error, shared.grants().code(&asked, config)) {
        (Some(error), _) => format!("error={error}"),
        (None, Ok(code)) => format!("code={code}"),
        (None, Err(reason)) => return whole(400, &[], reason.to_owned()),
    };
    let location = format!("{back}?{outcome}&state={state}{iss}");
    whole(303, &[("location", &location)], String::new())
}

async fn tokens(shared: &Shared, config: &ProviderConfig, seen: &SeenRequest) -> Result<Response, HungUp> {
    match &config.tokens {
        TokenFault::Raw(status, content) => return Ok(whole(*status, &[JSON], shared.here(content))),
        TokenFault::Hang => std::future::pending().await,
        TokenFault::None | TokenFault::Slow(_) | TokenFault::HangUp => {}
    }
    let proof = seen.headers.get("authorization").and_then(|value| value.to_str().ok());
    let given = shared.grants().tokens(&form(&seen.body), proof, config);
    match config.tokens {
        TokenFault::Slow(time) => tokio::time::sleep(time).await,
        TokenFault::HangUp => return Err(HungUp),
        _ => {}
    }
    Ok(match given {
        Ok(given) => json(200, &given),
        Err(Complaint(status, error)) => {
            let mut complaint = value!({"error": error});
            if config.errors_quote_request {
                complaint["error_description"] = format!("{} {}", seen.body, proof.unwrap_or_default()).into();
            }
            json(status, &complaint)
        }
    })
}

const JSON: (&str, &str) = ("content-type", "application/json");

pub(super) fn json(status: u16, object: &Value) -> Response {
    whole(status, &[JSON], object.to_string())
}

pub(super) fn whole(status: u16, headers: &[(&str, &str)], content: String) -> Response {
    let mut response = http::Response::builder().status(status);
    for (name, text) in headers {
        response = response.header(*name, *text);
    }
    // What cannot be sent was written into a test.
    response.body(Full::new(content.into())).unwrap_or_default()
}

/// Names and values, as forms and queries have them.
fn form(text: &str) -> Form {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

fn decode(text: &str) -> String {
    let (mut rest, mut decoded) = (text.as_bytes(), Vec::new());
    while let [first, behind @ ..] = rest {
        let digit = |at: usize| behind.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let escaped = digit(0).zip(digit(1)).filter(|_| *first == b'%');
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
