//! Streamable HTTP: responses to POST, GET and DELETE, and their sessions.

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::connection::Connection;
use super::play::need_stream;
use super::response::{self, Framing, Response};
use super::server::{GetBehavior, OpenStream, ResponseFormat};
use crate::modern;
use crate::script::{Eras, Step};
use crate::seen_request::SeenRequest;

const SESSION_HEADER: &str = "mcp-session-id";

impl Connection {
    pub(super) async fn post(&self, seen: &SeenRequest) -> Response {
        self.server.shared.log.add(&seen.body);
        let Ok(message) = serde_json::from_str::<Value>(&seen.body) else { return response::empty(400) };
        let script = self.server.shared.rules.script();
        if message["method"] != "initialize"
            && !modern::applies_to(script, &message)
            && let Some(rejected) = self.reject_unknown_session(&seen.headers, &message["id"], Session::Needed)
        {
            return rejected;
        }
        self.server.shared.handled.add(&seen.body);
        if message.get("method").is_none() {
            self.server.receive_response(message);
            return response::empty(202);
        }
        let steps = self.server.shared.rules.steps(&message);
        let steps = steps.unwrap_or_else(|| modern::http_steps(script, &seen.headers, &message));
        if modern::is_subscription(script, &message, &steps) {
            let (stream, outputs) = self.play(steps, message);
            self.server.open_stream(stream);
            return response::events(self.event_stream(outputs, Framing::Messages));
        }
        if message["id"].is_null() || !need_stream(&steps, self.server.response_format) {
            let (_, outputs) = self.play(steps, message.clone());
            return self.first_of(outputs, &message).await;
        }
        let (_, outputs) = self.play(steps, message.clone());
        self.in_session(response::events(self.event_stream(outputs, Framing::Messages)), &message)
    }

    pub(super) async fn get(&self, seen: &SeenRequest) -> Response {
        if let Some(rejected) = self.reject_in_modern_era("GET", seen).await {
            return rejected;
        }
        if let Some(rejected) = self.reject_unknown_session(&seen.headers, &Value::Null, Session::Optional) {
            return rejected;
        }
        let request = json!({"method": "GET"});
        let steps = match self.server.shared.rules.steps(&request) {
            Some(steps) => steps,
            None if self.server.get_behavior == GetBehavior::NotAllowed => {
                return response::not_allowed("POST, DELETE");
            }
            None => match self.reject_unknown_session(&seen.headers, &Value::Null, Session::Needed) {
                Some(rejected) => return rejected,
                None => vec![Step::Hang],
            },
        };
        // Hanging up immediately is still a stream here, only an empty one.
        if !need_stream(&steps, ResponseFormat::Sse) && !matches!(steps[..], [Step::HangUp, ..]) {
            let (_, outputs) = self.play(steps, request.clone());
            return self.first_of(outputs, &request).await;
        }
        let session = session_of(&seen.headers).map(str::to_owned);
        let (stream, outputs) = self.play(steps, request);
        self.server.open_stream(OpenStream { session, ..stream });
        response::events(self.event_stream(outputs, Framing::Lines))
    }

    pub(super) async fn delete(&self, seen: &SeenRequest) -> Response {
        if let Some(rejected) = self.reject_in_modern_era("DELETE", seen).await {
            return rejected;
        }
        if let Some(rejected) = self.reject_unknown_session(&seen.headers, &Value::Null, Session::Optional) {
            return rejected;
        }
        let request = json!({"method": "DELETE"});
        if let Some(steps) = self.server.shared.rules.steps(&request) {
            let (_, outputs) = self.play(steps, request.clone());
            return self.first_of(outputs, &request).await;
        }
        if !self.server.sessions {
            return response::not_allowed("POST");
        }
        match session_of(&seen.headers) {
            Some(session) if self.server.forget_session(session) => response::empty(200),
            _ => response::unknown_session(&self.server.unknown_session, &Value::Null),
        }
    }

    /// Responds to a request that the modern era does not have: by its rule, else with status 405.
    async fn reject_in_modern_era(&self, method: &str, seen: &SeenRequest) -> Option<Response> {
        let rules = &self.server.shared.rules;
        if !modern::uses_headers_of(rules.script(), &seen.headers) {
            return None;
        }
        let request = json!({ "method": method });
        match rules.steps(&request) {
            Some(steps) => Some(self.first_of(self.play(steps, request.clone()).1, &request).await),
            None => Some(response::not_allowed("POST")),
        }
    }

    /// Returns the error response if the session of the request is unknown or missing.
    fn reject_unknown_session(&self, headers: &HeaderMap, id: &Value, session: Session) -> Option<Response> {
        let known = match session_of(headers) {
            Some(id) => self.server.knows_session(id),
            None => session == Session::Optional,
        };
        (self.server.sessions && !known).then(|| response::unknown_session(&self.server.unknown_session, id))
    }

    fn supports_handshakes(&self) -> bool {
        self.server.shared.rules.script().eras != Eras::Modern
    }

    /// Opens a session with this response, if the request is `initialize`.
    pub(super) fn in_session(&self, mut response: Response, request: &Value) -> Response {
        if self.server.sessions && request["method"] == "initialize" && self.supports_handshakes() {
            let id = HeaderValue::try_from(self.server.new_session()).expect("session ids are ASCII");
            response.headers_mut().insert(SESSION_HEADER, id);
        }
        response
    }
}

/// Whether a request needs a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Session {
    Needed,
    Optional,
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()
}
