//! The messages of requests that take several rounds: a result that asks for input, and the next request's answers.

use memchr::memmem;
use serde::Serialize;
use wharf_protocol::{Fields, Json};

use super::object::Object;

/// Results up to this size are parsed; larger ones are only searched for the result types that matter.
const PARSE_LIMIT: usize = 16 * 1024;

/// The fields that a request adds in its second and later rounds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Round {
    #[serde(rename = "inputResponses", skip_serializing_if = "Option::is_none")]
    pub(super) responses: Option<Object>,
    /// The server's opaque state, sent back unchanged.
    #[serde(rename = "requestState", skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Json>,
}

impl Round {
    /// Takes the round out of the parameters of a caller that runs the rounds itself.
    pub(super) fn take_from(params: &mut Object) -> Self {
        let responses = params.take("inputResponses").and_then(|given| Object::read(&given).ok());
        Self { responses, state: params.take("requestState") }
    }
}

/// The type of a result.
pub(super) enum ResultKind {
    Complete,
    InputRequired(InputRequest),
    /// The result will be available through a task.
    Task,
}

/// The input that a server needs to continue.
pub(super) struct InputRequest {
    pub(super) requests: Object,
    pub(super) state: Option<Json>,
}

impl ResultKind {
    pub(super) fn read(result: &Json) -> Result<Self, String> {
        let text = result.as_str().as_bytes();
        let mentions = |word: &str| memmem::find(text, word.as_bytes()).is_some();
        if text.len() > PARSE_LIMIT && !mentions("\"input_required\"") && !mentions("\"task\"") {
            return Ok(Self::Complete);
        }
        let Ok(fields) = Fields::of(result) else { return Ok(Self::Complete) };
        match fields.text("resultType")?.as_deref() {
            None | Some("complete") => Ok(Self::Complete),
            Some("input_required") => match InputRequest::read(&fields)? {
                // Sending the same request again would only repeat this answer.
                input if input.requests.0.is_empty() && input.state.is_none() => {
                    Err("requires input without requests or state".to_owned())
                }
                input => Ok(Self::InputRequired(input)),
            },
            Some("task") => Ok(Self::Task),
            Some(other) => Err(format!("has the unknown type `{other}`")),
        }
    }
}

impl InputRequest {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, String> {
        let requests = fields.object("inputRequests")?.map_or(Ok(Object::default()), |given| Object::read(&given))?;
        Ok(Self { requests, state: fields.json("requestState") })
    }
}
