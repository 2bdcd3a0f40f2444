//! Completions that servers request of the user's model: the request and the result of `sampling/createMessage`.
//!
//! Whether a request is sent is the user's decision, and not made here.

use serde::Deserialize;
use serde_json::{Value, json};
use wharf::agent::{Model, ModelError, ModelOptions, ModelRequest, StopReason};
use wharf::{Json, Message, Refusal, Role};

/// The most messages of one request.
const MAX_MESSAGES: usize = 200;

/// What a server asks a model.
#[derive(Clone, Debug)]
pub(crate) struct SamplingRequest {
    messages: Vec<Message>,
    options: ModelOptions,
}

/// The parameters of the protocol. Preferences for models and context of other servers are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    messages: Vec<ParamMessage>,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    max_tokens: Option<f64>,
}

#[derive(Deserialize)]
struct ParamMessage {
    role: String,
    content: Value,
}

impl SamplingRequest {
    /// Reads the parameters of a request.
    pub(crate) fn read(request: &Json) -> Result<Self, Refusal> {
        let invalid = |reason: String| Refusal(format!("invalid sampling request: {reason}"));
        let params: Params = request.decode().map_err(|error| invalid(error.to_string()))?;
        if params.messages.is_empty() || params.messages.len() > MAX_MESSAGES {
            return Err(invalid(format!("expected 1 to {MAX_MESSAGES} messages")));
        }
        let system = params.system_prompt.filter(|text| !text.trim().is_empty());
        let mut messages: Vec<Message> = system.map(|text| Message::text(Role::System, text)).into_iter().collect();
        for ParamMessage { role, content } in params.messages {
            let role = match role.as_str() {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                other => return Err(invalid(format!("unknown role `{other}`"))),
            };
            messages.push(Message::text(role, text_of(&content).map_err(invalid)?));
        }
        let defaults = ModelOptions::default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
        let max_tokens = params
            .max_tokens
            .map_or(defaults.max_tokens, |most| most.clamp(1.0, f64::from(defaults.max_tokens)) as u32);
        let temperature = params.temperature.filter(|temperature| (0.0..=2.0).contains(temperature));
        Ok(Self { messages, options: ModelOptions { max_tokens, temperature, ..defaults } })
    }

    /// Returns the messages, each with its role.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.messages.iter().map(|message| {
            let role = match message.role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant | Role::Tool => "assistant",
            };
            (role, message.plain_text())
        })
    }

    /// Returns the maximum length of the answer, in tokens.
    pub(crate) fn max_tokens(&self) -> u32 {
        self.options.max_tokens
    }

    /// Sends the request to a model.
    pub(crate) async fn complete(&self, model: &dyn Model) -> Result<Completion, ModelError> {
        let request = ModelRequest {
            purpose: wharf::agent::RequestPurpose::TURN,
            messages: &self.messages,
            instructions: &[],
            tools: &[],
            all_tools: &[],
            options: &self.options,
            on_delta: &|_| {},
        };
        let response = model.complete(&request).await?;
        Ok(Completion { text: response.message.plain_text(), model: response.model, stop: response.stop })
    }
}

/// What a model answered.
pub(crate) struct Completion {
    pub(crate) text: String,
    model: String,
    stop: StopReason,
}

impl Completion {
    /// Returns the result of the protocol.
    pub(crate) fn result(&self) -> Json {
        let stop = match &self.stop {
            StopReason::EndTurn => "endTurn",
            StopReason::MaxTokens => "maxTokens",
            other => other.as_str(),
        };
        json!({
            "role": "assistant",
            "content": { "type": "text", "text": self.text },
            "model": self.model,
            "stopReason": stop,
        })
        .into()
    }
}

/// Returns the text of one content or of a list. What is not text is described: a user could not review it here.
fn text_of(content: &Value) -> Result<String, String> {
    let blocks = match content {
        Value::Array(blocks) => blocks.iter().collect(),
        block => vec![block],
    };
    let text = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned).ok_or_else(|| "a text without text".to_owned()),
        Some(kind @ ("image" | "audio")) => {
            Ok(format!("[{kind} of type {}, left out]", block["mimeType"].as_str().unwrap_or("unknown")))
        }
        Some(other) => Err(format!("unsupported content `{other}`")),
        None => Err("content without a type".to_owned()),
    };
    let texts: Result<Vec<String>, String> = blocks.into_iter().map(text).collect();
    Ok(texts?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(request: Value) -> Result<SamplingRequest, Refusal> {
        SamplingRequest::read(&request.into())
    }

    #[test]
    fn a_request_is_read_and_never_exceeds_our_limits() {
        let request = read(json!({
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Hello"}},
                {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image", "data": "", "mimeType": "image/png"}]},
            ],
            "systemPrompt": "Be brief", "maxTokens": 1e9, "temperature": 99, "includeContext": "allServers",
        }))
        .unwrap();
        let texts: Vec<_> = request.texts().collect();
        let image = "a\n[image of type image/png, left out]".to_owned();
        assert_eq!(texts, [("system", "Be brief".into()), ("user", "Hello".into()), ("assistant", image)]);
        assert_eq!((request.max_tokens(), request.options.temperature), (ModelOptions::default().max_tokens, None));
        let few = json!({"messages": [{"role": "user", "content": {"type": "text", "text": ""}}], "maxTokens": 5});
        assert_eq!(read(few).unwrap().max_tokens(), 5);
    }

    #[test]
    fn an_invalid_request_is_refused_with_the_reason() {
        let message =
            |role: &str, kind: &str| json!({"messages": [{"role": role, "content": {"type": kind, "text": "x"}}]});
        for (request, reason) in [
            (json!({"messages": []}), "expected 1 to 200 messages"),
            (message("system", "text"), "unknown role `system`"),
            (message("user", "tool_result"), "unsupported content `tool_result`"),
        ] {
            assert_eq!(read(request).unwrap_err().0, format!("invalid sampling request: {reason}"));
        }
    }
}
