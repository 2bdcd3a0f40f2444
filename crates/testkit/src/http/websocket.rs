//! The same conversation over a WebSocket, one message per text frame.

use std::sync::atomic::Ordering;

use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use super::connection::Connection;
use super::play::{Heard, Said, decide_the_response};
use super::response::{self, Response};
use crate::Step;

const SUBPROTOCOL: &str = "mcp";

impl Connection {
    /// Agrees to leave HTTP, unless a rule for GET says otherwise.
    pub(super) async fn websocket(&self, headers: &HeaderMap, upgrade: OnUpgrade) -> Response {
        let request = json!({"method": "GET"});
        let opening = self.server.shared.rules.steps(&request).unwrap_or_default();
        if decide_the_response(&opening) {
            return self.first_of(self.play(opening, request.clone()).1, &request).await;
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else { return response::empty(426) };
        self.promise(opening, upgrade);
        let accept = derive_accept_key(key.as_bytes());
        let mut agreed = vec![
            (CONNECTION.as_str(), "upgrade"),
            (UPGRADE.as_str(), "websocket"),
            (SEC_WEBSOCKET_ACCEPT.as_str(), &accept),
        ];
        if offers_subprotocol(headers) {
            agreed.push((SEC_WEBSOCKET_PROTOCOL.as_str(), SUBPROTOCOL));
        }
        response::whole(101, &agreed, "")
    }
}

fn offers_subprotocol(headers: &HeaderMap) -> bool {
    let offers =
        headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| HeaderValue::to_str(value).ok());
    offers.flat_map(|offers| offers.split(',')).any(|offer| offer.trim() == SUBPROTOCOL)
}

/// Serves the stream that HTTP left until its end.
pub(super) async fn serve(connection: &Connection, opening: Vec<Step>, stream: Upgraded) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await;
    let (heard, mut said) = connection.converse(opening);
    let server = &connection.server;
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    server.shared.log.add(&text);
                    server.shared.taken.add(&text);
                    let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
                    if message.get("method").is_none() {
                        server.hear_answer(message);
                        continue;
                    }
                    let steps = server.shared.rules.steps(&message);
                    let _ = heard.send(Heard { message, steps }).await;
                }
                // The library answers pings by itself.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            said = said.recv() => {
                let frame = match said {
                    Some(Said::Message(message)) => Message::text(message.to_string()),
                    Some(Said::Line(line)) => Message::text(line),
                    Some(Said::Raw(bytes)) => Message::Binary(bytes),
                    Some(Said::Response { .. } | Said::Stall) => continue,
                    Some(Said::Reset) => {
                        connection.ending.reset.store(true, Ordering::Relaxed);
                        return;
                    }
                    Some(Said::End | Said::HangUp) | None => {
                        let _ = socket.close(None).await;
                        return;
                    }
                };
                if socket.send(frame).await.is_err() {
                    return;
                }
            }
        }
    }
}
