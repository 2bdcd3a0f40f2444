//! What a server asks of the host, as values: read from the wire, put to the host, written back.

use serde::Serialize;
use serde_json::json;
use wharf_protocol::{Fields, Json};

use super::message::RpcError;
use crate::{ClientCapabilities, Elicitation, ElicitationAnswer, Host};

pub(crate) enum Question {
    Elicit(Elicitation),
    Sample(Json),
    Roots,
    /// The question itself makes no sense.
    Unclear(String),
}

impl Question {
    /// `None` for what this host has not offered to answer.
    pub(crate) fn read(method: &str, params: Option<Json>, abilities: ClientCapabilities) -> Option<Self> {
        let params = params.unwrap_or_else(|| json!({}).into());
        match method {
            "elicitation/create" if abilities.elicitation => Some(elicitation(params).unwrap_or_else(Self::Unclear)),
            "sampling/createMessage" if abilities.sampling => Some(Self::Sample(params)),
            "roots/list" if abilities.roots => Some(Self::Roots),
            _ => None,
        }
    }

    pub(crate) async fn put_to(self, host: &dyn Host) -> Result<Json, RpcError> {
        match self {
            Self::Elicit(request) => {
                let (action, content) = match host.elicit(request).await {
                    ElicitationAnswer::Accept(content) => ("accept", content),
                    ElicitationAnswer::Decline => ("decline", None),
                    ElicitationAnswer::Cancel => ("cancel", None),
                };
                Json::of(&Elicited { action, content }).map_err(|error| failed(error.to_string()))
            }
            Self::Sample(request) => {
                host.sample(request).await.map_err(|refusal| RpcError { code: -1, message: refusal.0, data: None })
            }
            Self::Roots => Ok(json!({ "roots": host.roots().await }).into()),
            Self::Unclear(message) => Err(RpcError { code: -32602, message, data: None }),
        }
    }
}

#[derive(Serialize)]
struct Elicited {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Json>,
}

fn failed(message: String) -> RpcError {
    RpcError { code: -32603, message, data: None }
}

fn elicitation(params: Json) -> Result<Question, String> {
    let fields = Fields::of(&params)?;
    let (message, schema, url) =
        (fields.required_text("message")?, fields.object("requestedSchema")?, fields.text("url")?);
    drop(fields);
    Ok(Question::Elicit(Elicitation { message, schema, url, raw: params }))
}
