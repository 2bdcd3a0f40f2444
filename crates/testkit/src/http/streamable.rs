//! Streamable HTTP: what POST, GET and DELETE get, and the sessions they belong to.

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::connection::Connection;
use super::play::need_a_stream;
use super::response::{self, Framing, Response};
use super::{GetBehavior, OpenStream, ResponseFormat, SeenRequest};
use crate::{Eras, Step, modern};

const SESSION: &str = "mcp-session-id";

impl Connection {
    pub(super) async fn post(&self, seen: &SeenRequest) -> Response {
        self.server.shared.log.add(&seen.body);
        let Ok(message) = serde_json::from_str::<Value>(&seen.body) else { return response::empty(400) };
        let script = self.server.shared.rules.script();
        if message["method"] != "initialize"
            && !modern::is_meant(script, &message)
            && let Some(stale) = self.stale(&seen.headers, &message["id"], Session::Needed)
        {
            return stale;
        }
        self.server.shared.taken.add(&seen.body);
        if message.get("method").is_none() {
            self.server.hear_answer(message);
            return response::empty(202);
        }
        let steps = self.server.shared.rules.steps(&message);
        let steps = steps.unwrap_or_else(|| modern::over_http(script, &seen.headers, &message));
        if modern::listens(script, &message, &steps) {
            let (stream, said) = self.play(steps, message);
            self.server.open_stream(stream);
            return response::events(self.event_stream(said, Framing::Messages));
        }
        if message["id"].is_null() || !need_a_stream(&steps, self.server.answers) {
            let (_, said) = self.play(steps, message.clone());
            return self.first_of(said, &message).await;
        }
        let (_, said) = self.play(steps, message.clone());
        self.in_session(response::events(self.event_stream(said, Framing::Messages)), &message)
    }

    pub(super) async fn get(&self, seen: &SeenRequest) -> Response {
        if let Some(refused) = self.in_another_era("GET", seen).await {
            return refused;
        }
        if let Some(stale) = self.stale(&seen.headers, &Value::Null, Session::Optional) {
            return stale;
        }
        let request = json!({"method": "GET"});
        let steps = match self.server.shared.rules.steps(&request) {
            Some(steps) => steps,
            None if self.server.push == GetBehavior::NotAllowed => return response::not_allowed("POST, DELETE"),
            None => match self.stale(&seen.headers, &Value::Null, Session::Needed) {
                Some(stale) => return stale,
                None => vec![Step::Hang],
            },
        };
        // Hanging up at once is still a stream here, if a short one.
        if !need_a_stream(&steps, ResponseFormat::Sse) && !matches!(steps[..], [Step::HangUp, ..]) {
            let (_, said) = self.play(steps, request.clone());
            return self.first_of(said, &request).await;
        }
        let session = session_of(&seen.headers).map(str::to_owned);
        let (stream, said) = self.play(steps, request);
        self.server.open_stream(OpenStream { session, ..stream });
        response::events(self.event_stream(said, Framing::Lines))
    }

    pub(super) async fn delete(&self, seen: &SeenRequest) -> Response {
        if let Some(refused) = self.in_another_era("DELETE", seen).await {
            return refused;
        }
        if let Some(stale) = self.stale(&seen.headers, &Value::Null, Session::Optional) {
            return stale;
        }
        let request = json!({"method": "DELETE"});
        if let Some(steps) = self.server.shared.rules.steps(&request) {
            let (_, said) = self.play(steps, request.clone());
            return self.first_of(said, &request).await;
        }
        if !self.server.sessions {
            return response::not_allowed("POST");
        }
        match session_of(&seen.headers) {
            Some(session) if self.server.forget_session(session) => response::empty(200),
            _ => response::stale(&self.server.stale, &Value::Null),
        }
    }

    /// What a client gets that has no use for such a request, unless a rule says otherwise.
    async fn in_another_era(&self, method: &str, seen: &SeenRequest) -> Option<Response> {
        let rules = &self.server.shared.rules;
        if !modern::is_spoken_in(rules.script(), &seen.headers) {
            return None;
        }
        let request = json!({ "method": method });
        match rules.steps(&request) {
            Some(steps) => Some(self.first_of(self.play(steps, request.clone()).1, &request).await),
            None => Some(response::not_allowed("POST")),
        }
    }

    /// The stale answer, if this request deserves it.
    fn stale(&self, headers: &HeaderMap, id: &Value, session: Session) -> Option<Response> {
        let fine = match session_of(headers) {
            Some(id) => self.server.knows_session(id),
            None => session == Session::Optional,
        };
        (self.server.sessions && !fine).then(|| response::stale(&self.server.stale, id))
    }

    fn has_handshakes(&self) -> bool {
        self.server.shared.rules.script().eras != Eras::Modern
    }

    /// Opens a session with this response, if that is what the request was for.
    pub(super) fn in_session(&self, mut response: Response, request: &Value) -> Response {
        if self.server.sessions && request["method"] == "initialize" && self.has_handshakes() {
            let id = HeaderValue::try_from(self.server.new_session()).expect("ours are plain");
            response.headers_mut().insert(SESSION, id);
        }
        response
    }
}

/// Whether a request may come without a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Session {
    Needed,
    Optional,
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}
