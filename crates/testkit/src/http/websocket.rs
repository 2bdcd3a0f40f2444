//! WebSocket: one message per text frame.

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
use super::output::{Incoming, Output};
use super::play::define_response;
use super::response::{self, Response};
use crate::script::Step;

const SUBPROTOCOL: &str = "mcp";

impl Connection {
    /// Accepts the upgrade, unless a rule for GET defines the response.
    pub(super) async fn websocket(&self, headers: &HeaderMap, upgrade: OnUpgrade) -> Response {
        let request = json!({"method": "GET"});
        let opening = self.server.shared.rules.steps(&request).unwrap_or_default();
        if define_response(&opening) {
            return self.first_of(self.play(opening, request.clone()).1, &request).await;
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else { return response::empty(426) };
        self.set_upgrade(opening, upgrade);
        let accept = derive_accept_key(key.as_bytes());
        let mut headers_out = vec![
            (CONNECTION.as_str(), "upgrade"),
            (UPGRADE.as_str(), "websocket"),
            (SEC_WEBSOCKET_ACCEPT.as_str(), &accept),
        ];
        if offers_subprotocol(headers) {
            headers_out.push((SEC_WEBSOCKET_PROTOCOL.as_str(), SUBPROTOCOL));
        }
        response::whole(101, &headers_out, "")
    }
}

fn offers_subprotocol(headers: &HeaderMap) -> bool {
    let offers =
        headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| HeaderValue::to_str(value).ok());
    offers.flat_map(|offers| offers.split(',')).any(|offer| offer.trim() == SUBPROTOCOL)
}

/// Serves the upgraded stream until it ends.
pub(super) async fn serve(connection: &Connection, opening: Vec<Step>, stream: Upgraded) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await;
    let (inbox, mut outputs) = connection.open_messages(opening);
    let server = &connection.server;
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    server.shared.log.add(&text);
                    server.shared.handled.add(&text);
                    let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
                    if message.get("method").is_none() {
                        server.receive_response(message);
                        continue;
                    }
                    let steps = server.shared.rules.steps(&message);
                    let _ = inbox.send(Incoming { message, steps }).await;
                }
                // Tungstenite answers pings.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            output = outputs.recv() => {
                let frame = match output {
                    Some(Output::Message(message)) => Message::text(message.to_string()),
                    Some(Output::Line(line)) => Message::text(line),
                    Some(Output::Raw(bytes)) => Message::Binary(bytes),
                    Some(Output::Response { .. } | Output::Stall) => continue,
                    Some(Output::Reset) => {
                        connection.ending.reset.store(true, Ordering::Relaxed);
                        return;
                    }
                    Some(Output::End | Output::HangUp) | None => {
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
