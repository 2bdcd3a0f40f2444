//! The old HTTP+SSE: the server sends everything on one GET stream and receives everything by POST.

use serde_json::{Value, json};

use super::connection::Connection;
use super::output::Incoming;
use super::play::define_response;
use super::response::{self, Framing, Response};
use crate::seen_request::SeenRequest;

impl Connection {
    /// Opens a stream and sends the client the path to post to.
    pub(super) async fn legacy_stream(&self) -> Response {
        let request = json!({"method": "GET"});
        let opening = self.server.shared.rules.steps(&request).unwrap_or_default();
        if define_response(&opening) {
            return self.first_of(self.play(opening, request.clone()).1, &request).await;
        }
        let (inbox, outputs) = self.open_messages(opening);
        let number = self.server.open_inbox(inbox);
        let endpoint = format!("event: endpoint\ndata: /messages?session={number}\n\n");
        response::events(self.event_stream(outputs, Framing::Messages).starting_with(endpoint))
    }

    /// Responds to methods other than GET: by their rules, else with status 405.
    pub(super) async fn legacy_other_method(&self, method: &str) -> Response {
        let request = json!({ "method": method });
        match self.server.shared.rules.steps(&request) {
            Some(steps) => self.first_of(self.play(steps, request.clone()).1, &request).await,
            None => response::not_allowed("GET"),
        }
    }

    /// Receives a message; the response is sent on the stream.
    pub(super) async fn legacy_post(&self, seen: &SeenRequest) -> Response {
        self.server.shared.log.add(&seen.body);
        let Ok(message) = serde_json::from_str::<Value>(&seen.body) else { return response::empty(400) };
        let number = seen.path.split_once("session=").and_then(|(_, number)| number.parse().ok());
        let Some(inbox) = number.and_then(|number| self.server.inbox(number)) else {
            return response::unknown_session(&self.server.unknown_session, &message["id"]);
        };
        self.server.shared.handled.add(&seen.body);
        if message.get("method").is_none() {
            self.server.receive_response(message);
            return response::empty(202);
        }
        match self.server.shared.rules.steps(&message) {
            Some(steps) if define_response(&steps) => {
                self.first_of(self.play(steps, message.clone()).1, &message).await
            }
            steps => {
                let _ = inbox.send(Incoming { message, steps }).await;
                response::empty(202)
            }
        }
    }
}
