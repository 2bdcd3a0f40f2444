//! What a provider's refusal means. Dozens of providers speak two wire formats, and no two of them agree on errors:
//! status, type, code and words are looked at together.

use http::response::Parts;
use serde_json::Value;

use super::super::endpoint::Endpoint;
use super::after;
use crate::{ModelError, ModelErrorKind};

/// How many characters of a text that is no JSON are told.
const MOST_TOLD: usize = 500;

/// Words of providers whose model was asked for more than it can take.
const TOO_LONG: &[&str] = &[
    // Anthropic, and those in front of it.
    "prompt is too long",
    "input length and `max_tokens` exceed context limit",
    "exceed context limit",
    "input is too long for requested model",
    "request_too_large",
    "request exceeds the maximum size",
    // OpenAI, Azure, DeepSeek, OpenRouter, Together, Fireworks, vLLM.
    "context_length_exceeded",
    "context length exceeded",
    "maximum context length",
    "max context length",
    "model's context length",
    "exceeds the context window",
    "exceeds the model's context window",
    "exceeds model context window",
    "exceeds the configured limit of",
    "input tokens exceed the configured limit",
    "please reduce the length of the messages",
    "please reduce the length of your prompt",
    "reduce your prompt",
    "string_above_max_length",
    // Gemini.
    "exceeds the maximum number of tokens",
    "input token count",
    // Mistral, xAI, Cohere, Moonshot, MiniMax, Qwen, Zhipu.
    "too large for model with",
    "maximum prompt length",
    "total number of tokens in the prompt cannot exceed",
    "exceeded model token limit",
    "context window exceeds limit",
    "range of input length should be",
    "exceeds max length",
    "prompt exceeds max",
    "token limit exceeded",
    "exceeds token limit",
    "exceeds the limit of tokens",
    "max_total_tokens",
    "`max_new_tokens` must be <=",
    // llama.cpp, Ollama, LM Studio.
    "exceed_context_size_error",
    "exceeds the available context size",
    "greater than the context length",
    "exceeds the context length",
    "exceeds maximum context",
    "context size has been exceeded",
    "context window is full",
    "context window full",
    "context overflow",
    "prompt too long",
    "model_context_window_exceeded",
];

/// Words of those who will not answer.
const REFUSED: &[&str] = &[
    "content_policy",
    "content policy",
    "content_filter",
    "content management policy",
    "responsibleaipolicyviolation",
    "usage policies",
    "usage policy",
    "safety system",
    "content_violation",
    "data_inspection_failed",
    "sensitive_words_detected",
    "moderation",
    "input was flagged",
    "prohibited_content",
];

/// Words about keys and accounts.
const NOT_ALLOWED: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "api key not valid",
    "no auth credentials",
    "insufficient_quota",
    "billing_error",
    "credit balance is too low",
    "insufficient credits",
    "insufficient balance",
];

/// What a provider complains about.
struct Complaint {
    status: Option<u16>,
    /// Its types and codes.
    kind: String,
    message: String,
    after: Option<std::time::Duration>,
}

/// An answer that is a refusal from its head on.
pub(super) fn refusal(endpoint: &Endpoint, head: &Parts, content: &[u8]) -> ModelError {
    let status = head.status.as_u16();
    let text = String::from_utf8_lossy(content);
    let complaint = serde_json::from_str::<Value>(&text).ok().and_then(|value| Complaint::read(&value));
    let complaint = complaint.unwrap_or_else(|| Complaint {
        status: None,
        kind: String::new(),
        message: brief(&text, head.status.canonical_reason().unwrap_or("no reason is given")),
        after: after::from_words(&text),
    });
    let after = after::from_headers(&head.headers).or(complaint.after);
    complaint.error(endpoint, Some(status), after)
}

/// A refusal that comes where an answer should be: in a document, or as an event.
pub(in super::super) fn complaint(endpoint: &Endpoint, value: &Value) -> ModelError {
    let complaint = Complaint::read(value).unwrap_or_else(|| Complaint {
        status: None,
        kind: String::new(),
        message: brief(&value.to_string(), "no reason is given"),
        after: None,
    });
    let (status, after) = (complaint.status, complaint.after);
    complaint.error(endpoint, status, after)
}

impl Complaint {
    /// All the forms in use: `{"error": {…}}`, `{"error": "…"}`, the bare object, `{"detail": …}`, and each in an array.
    fn read(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|all| all.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = if let Value::String(text) = error {
            text.clone()
        } else {
            let told = ["message", "detail", "msg"].into_iter().find_map(|key| match error.get(key)? {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            });
            told.or_else(|| Some(word("type").to_owned()).filter(|kind| !kind.is_empty()))?
        };
        // What stands behind a gateway has often said more.
        let behind =
            error.pointer("/metadata/raw").map(|raw| raw.as_str().map_or_else(|| raw.to_string(), str::to_owned));
        let message = match behind {
            Some(raw) if !raw.is_empty() && raw != "null" => format!("{message}: {}", brief(&raw, "")),
            _ => message,
        };
        let code = error.get("code");
        let status = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let kind = [word("type"), word("code"), word("status")].join(" ");
        let after = ["/retry_after", "/metadata/retry_after", "/metadata/retry_after_seconds"];
        let after = after.into_iter().find_map(|place| error.pointer(place)?.as_f64()).and_then(after::seconds);
        let after = after.or_else(|| after::from_words(&message));
        let after = after.or_else(|| after::from_words(&error.get("details")?.to_string()));
        let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status));
        Some(Self { status, kind, message, after })
    }

    fn error(self, endpoint: &Endpoint, status: Option<u16>, after: Option<std::time::Duration>) -> ModelError {
        let kind = kind_of(status, &self.kind, &self.message);
        ModelError { status, retry_after: after, ..endpoint.error(kind, self.message) }
    }
}

/// The kind of a refusal. Words come before the status where they say more than it can.
fn kind_of(status: Option<u16>, kind: &str, message: &str) -> ModelErrorKind {
    let kind = kind.to_lowercase();
    let words = format!("{kind} {}", message.to_lowercase());
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let typed = |names: &[&str]| kind.split(' ').any(|kind| names.contains(&kind));
    // "Too many tokens" is about time where the status is, and about length elsewhere.
    let pressed = matches!(status, Some(401 | 403 | 429 | 503 | 529));
    if !pressed && (status == Some(413) || says(TOO_LONG)) {
        return ModelErrorKind::ContextTooLong;
    }
    if matches!(status, None | Some(400 | 403 | 422)) && says(REFUSED) {
        return ModelErrorKind::Refused;
    }
    if matches!(status, None | Some(400 | 402 | 403 | 404 | 429)) && says(NOT_ALLOWED) {
        return ModelErrorKind::Auth;
    }
    match status {
        Some(401..=403) => ModelErrorKind::Auth,
        Some(429) => ModelErrorKind::RateLimit,
        Some(503 | 529) => ModelErrorKind::Overloaded,
        Some(408) => ModelErrorKind::Timeout,
        Some(500..) if typed(&["overloaded_error", "server_is_overloaded", "engine_overloaded"]) => {
            ModelErrorKind::Overloaded
        }
        Some(500..) => ModelErrorKind::Server,
        Some(_) => ModelErrorKind::Invalid,
        None if typed(&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted"]) => ModelErrorKind::RateLimit,
        None if says(&["overloaded", "unavailable"]) => ModelErrorKind::Overloaded,
        None if typed(&["timeout_error", "timeout"]) => ModelErrorKind::Timeout,
        None if typed(&["invalid_request_error", "not_found_error"]) => ModelErrorKind::Invalid,
        None => ModelErrorKind::Server,
    }
}

/// The beginning of a text that may be a whole page.
fn brief(text: &str, otherwise: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return otherwise.to_owned();
    }
    wharf_protocol::cut(&text, MOST_TOLD).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::ModelErrorKind::{Auth, ContextTooLong, Invalid, Overloaded, RateLimit, Refused, Server, Timeout};
    use super::*;

    #[test]
    fn a_refusal_is_told_by_status_type_and_words_together() {
        for (status, kind, message, expected) in [
            (Some(401), "authentication_error", "invalid x-api-key", Auth),
            (Some(403), "permission_error", "not for you", Auth),
            (Some(402), "", "Insufficient credits", Auth),
            (Some(400), "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", Auth),
            (Some(429), "insufficient_quota", "You exceeded your current quota", Auth),
            (Some(429), "rate_limit_error", "slow down", RateLimit),
            (Some(429), "", "Too many tokens, please wait before trying again.", RateLimit),
            (Some(429), "tokens", "Request too large for gpt-4o: maximum context length", RateLimit),
            (Some(529), "overloaded_error", "Overloaded", Overloaded),
            (Some(503), "", "loading model", Overloaded),
            (Some(500), "overloaded_error", "Overloaded", Overloaded),
            (Some(500), "api_error", "Internal server error", Server),
            (Some(502), "", "bad gateway", Server),
            (Some(404), "not_found_error", "model: x", Invalid),
            (Some(400), "invalid_request_error", "temperature: must be at most 1", Invalid),
            (Some(422), "", "field required", Invalid),
            (Some(408), "", "", Timeout),
            (Some(413), "", "Request Entity Too Large", ContextTooLong),
            (Some(400), "content_policy_violation", "no", Refused),
            (Some(400), "content_filter", "The response was filtered", Refused),
            (Some(403), "", "Your input was flagged: requires moderation on openai", Refused),
            (None, "overloaded_error", "Overloaded", Overloaded),
            (None, "rate_limit_error", "", RateLimit),
            (None, "api_error", "", Server),
            (None, "", "anything", Server),
            (None, "invalid_request_error", "prompt is too long", ContextTooLong),
        ] {
            assert_eq!(kind_of(status, kind, message), expected, "{status:?} {kind} {message}");
        }
    }

    #[test]
    fn a_conversation_that_is_too_long_is_told_in_the_words_of_many_providers() {
        for message in [
            "prompt is too long: 212036 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000",
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "This endpoint's maximum context length is 1048576 tokens. However, you requested about 1293741 tokens",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Invalid request: Your request exceeded model token limit: 262144",
            "invalid params, context window exceeds limit (2013)",
            "Range of input length should be [1, 30720]",
            "the request exceeds the available context size (4096 tokens), try increasing it",
            "trying to keep the first 5000 tokens when context the overflows; greater than the context length",
            "Please reduce the length of the messages or completion.",
            "Input is too long for requested model.",
        ] {
            assert_eq!(kind_of(Some(400), "", message), ContextTooLong, "{message}");
        }
        assert_eq!(kind_of(Some(500), "exceed_context_size_error", "x"), ContextTooLong);
        assert_eq!(kind_of(Some(400), "context_length_exceeded", "x"), ContextTooLong);
    }

    #[test]
    fn complaints_come_in_many_forms() {
        let read = |text: &str| {
            let read = Complaint::read(&serde_json::from_str(text).unwrap()).unwrap();
            format!("{:?} [{}] {} {:?}", read.status, read.kind.trim(), read.message, read.after)
        };
        let forms = [
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            r#"{"error":{"message":"Please try again in 2s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"x\":1}","retry_after":3}}}"#,
            r#"{"error":"model \"x\" not found"}"#,
            r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
            r#"{"detail":[{"msg":"field required"}]}"#,
            r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}}]"#,
        ];
        insta::assert_snapshot!(forms.map(read).join("\n"), @r#"
        None [overloaded_error] Overloaded None
        None [tokens rate_limit_exceeded] Please try again in 2s. Some(2s)
        Some(502) [] Provider returned error: {"x":1} Some(3s)
        None [] model "x" not found None
        Some(400) [BadRequestError] too long None
        None [] [{"msg":"field required"}] None
        Some(429) [RESOURCE_EXHAUSTED] quota Some(34s)
        "#);
    }
}
