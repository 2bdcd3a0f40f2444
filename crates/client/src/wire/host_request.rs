//! A server's requests to the host: parsed, answered by the host, and serialized.

use serde::Serialize;
use serde_json::json;
use wharf_protocol::{Fields, Json};

use crate::jsonrpc::RpcError;
use crate::{ClientCapabilities, Elicitation, ElicitationAnswer, Host, Schema};

/// The largest request for user input: a form is made to be read.
const MAX_ELICITATION_BYTES: usize = 64 * 1024;

pub(crate) enum HostRequest {
    Elicit(Elicitation),
    Sample(Json),
    Roots,
    /// The parameters are invalid, for this reason.
    Invalid(String),
}

impl HostRequest {
    /// Parses a request. Returns `None` if the host does not support it.
    pub(crate) fn read(method: &str, params: Option<Json>, capabilities: ClientCapabilities) -> Option<Self> {
        let params = params.unwrap_or_else(|| json!({}).into());
        match method {
            "elicitation/create" if capabilities.elicitation => {
                Some(elicitation(params).map_or_else(Self::Invalid, Self::Elicit))
            }
            "sampling/createMessage" if capabilities.sampling => Some(Self::Sample(params)),
            "roots/list" if capabilities.roots => Some(Self::Roots),
            _ => None,
        }
    }

    pub(crate) async fn answer_with(self, host: &dyn Host) -> Result<Json, RpcError> {
        match self {
            Self::Elicit(request) => {
                let (action, content) = match host.elicit(request).await {
                    ElicitationAnswer::Accept(content) => ("accept", content),
                    ElicitationAnswer::Decline => ("decline", None),
                    ElicitationAnswer::Cancel => ("cancel", None),
                };
                Json::of(&ElicitationResult { action, content }).map_err(|error| RpcError {
                    code: -32603,
                    message: error.to_string(),
                    data: None,
                })
            }
            Self::Sample(request) => {
                host.sample(request).await.map_err(|refusal| RpcError { code: -1, message: refusal.0, data: None })
            }
            Self::Roots => Ok(json!({ "roots": host.roots().await }).into()),
            Self::Invalid(message) => Err(RpcError { code: -32602, message, data: None }),
        }
    }
}

#[derive(Serialize)]
struct ElicitationResult {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Json>,
}

fn elicitation(params: Json) -> Result<Elicitation, String> {
    if params.as_str().len() > MAX_ELICITATION_BYTES {
        return Err(format!("is larger than {MAX_ELICITATION_BYTES} bytes"));
    }
    let fields = Fields::of(&params)?;
    let message = fields.required_text("message")?;
    let schema = fields.object("requestedSchema")?;
    if let Some(schema) = &schema {
        let document = schema.to_value().map_err(|error| format!("`requestedSchema`: {error}"))?;
        Schema::weight(&document).map_err(|error| format!("`requestedSchema`: {error}"))?;
    }
    let url = fields.text("url")?;
    drop(fields);
    Ok(Elicitation { message, schema, url, raw: params })
}
