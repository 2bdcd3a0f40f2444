//! The old HTTP with SSE: one GET stream for everything the server says, and a POST for everything it hears.

use serde_json::{Value, json};

use super::SeenRequest;
use super::connection::Connection;
use super::play::{Heard, decide_the_response};
use super::response::{self, Framing, Response};

impl Connection {
    /// Opens a conversation and tells the client where to post.
    pub(super) async fn legacy_stream(&self) -> Response {
        let request = json!({"method": "GET"});
        let opening = self.server.shared.rules.steps(&request).unwrap_or_default();
        if decide_the_response(&opening) {
            return self.first_of(self.play(opening, request.clone()).1, &request).await;
        }
        let (heard, said) = self.converse(opening);
        let number = self.server.open_conversation(heard);
        let endpoint = format!("event: endpoint\ndata: /messages?session={number}\n\n");
        response::events(self.event_stream(said, Framing::Messages).opening_with(endpoint))
    }

    /// What is no GET gets no stream, and what the rules for it say.
    pub(super) async fn not_for_messages(&self, method: &str) -> Response {
        let request = json!({ "method": method });
        match self.server.shared.rules.steps(&request) {
            Some(steps) => self.first_of(self.play(steps, request.clone()).1, &request).await,
            None => response::not_allowed("GET"),
        }
    }

    /// Takes a message; its answer goes out on the stream.
    pub(super) async fn legacy_post(&self, seen: &SeenRequest) -> Response {
        self.server.shared.log.add(&seen.body);
        let Ok(message) = serde_json::from_str::<Value>(&seen.body) else { return response::empty(400) };
        let number = seen.path.split_once("session=").and_then(|(_, number)| number.parse().ok());
        let Some(heard) = number.and_then(|number| self.server.conversation(number)) else {
            return response::stale(&self.server.stale, &message["id"]);
        };
        self.server.shared.taken.add(&seen.body);
        if message.get("method").is_none() {
            self.server.hear_answer(message);
            return response::empty(202);
        }
        match self.server.shared.rules.steps(&message) {
            Some(steps) if decide_the_response(&steps) => {
                self.first_of(self.play(steps, message.clone()).1, &message).await
            }
            steps => {
                let _ = heard.send(Heard { message, steps }).await;
                response::empty(202)
            }
        }
    }
}
