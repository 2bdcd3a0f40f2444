//! Classifies the errors of providers. Dozens of providers share two wire formats, and no two of them agree on errors:
//! the status, type, code and message are considered together.

use std::time::Duration;

use http::response::Parts;
use serde_json::Value;

use super::super::endpoint::Endpoint;
use super::{brief, retry_after, web_page};
use crate::{ModelError, ModelErrorKind};

/// The message of an error without one.
const NO_REASON: &str = "no reason given";

/// Phrases for a conversation that exceeds the context window.
const TOO_LONG: &[&str] = &[
    // Anthropic, and gateways in front of it.
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

/// Phrases for content that a provider refuses.
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

/// Phrases about API keys.
const UNAUTHORIZED: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "api key not valid",
    "no auth credentials",
];

/// Phrases about accounts without credit or quota.
const NO_QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "exceeded your current quota",
    "billing_error",
    "billing_not_active",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "insufficient credit",
    "insufficient balance",
    "insufficient funds",
    "key limit exceeded",
];

/// Messages of servers that do not know the path of a request. Those about unknown models say more.
const UNKNOWN_PATH: &[&str] = &["not found", "file not found", "404 page not found", "method not allowed"];

/// An error as reported by a provider.
struct ProviderError {
    status: Option<u16>,
    /// Its types and codes, separated by spaces.
    kind: String,
    message: String,
    retry_after: Option<Duration>,
}

/// Converts an HTTP response with an error status.
pub(super) fn http_error(endpoint: &Endpoint, head: &Parts, content: &[u8]) -> ModelError {
    let status = head.status.as_u16();
    let text = String::from_utf8_lossy(content);
    let parsed = serde_json::from_str::<Value>(&text).ok().and_then(|value| ProviderError::parse(&value));
    let is_json = parsed.is_some();
    let page = if is_json { None } else { web_page::describe(&text) };
    let is_page = page.is_some();
    let error = parsed.unwrap_or_else(|| ProviderError {
        status: None,
        kind: String::new(),
        message: page.unwrap_or_else(|| brief(&text, head.status.canonical_reason().unwrap_or(NO_REASON))),
        retry_after: retry_after::from_text(&text),
    });
    let retry_after = retry_after::from_headers(&head.headers).or(error.retry_after);
    let is_unknown_path = UNKNOWN_PATH.contains(&error.message.to_lowercase().trim_end_matches('.'));
    let mut error = error.into_model_error(endpoint, Some(status), retry_after);
    // A page with another status comes from a proxy, or asks for a sign-in.
    let is_wrong_url = match status {
        404 | 405 => !is_json || is_unknown_path,
        400 | 406 | 410 | 415 | 501 => is_page,
        _ => false,
    };
    if is_wrong_url {
        error.kind = ModelErrorKind::WrongUrl;
    }
    error
}

/// Converts an error inside of a successful response: in a document, or as an event.
pub(in super::super) fn provider_error(endpoint: &Endpoint, value: &Value) -> ModelError {
    let error = ProviderError::parse(value).unwrap_or_else(|| ProviderError {
        status: None,
        kind: String::new(),
        message: brief(&value.to_string(), NO_REASON),
        retry_after: None,
    });
    let status = error.status;
    let retry_after = error.retry_after;
    error.into_model_error(endpoint, status, retry_after)
}

impl ProviderError {
    /// Parses all known forms: `{"error": {…}}`, `{"error": "…"}`, the bare object, `{"detail": …}`, and each in an
    /// array.
    fn parse(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|all| all.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text_of = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = if let Value::String(text) = error {
            text.clone()
        } else {
            let found = ["message", "detail", "msg"].into_iter().find_map(|key| match error.get(key)? {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            });
            found.or_else(|| Some(text_of("type").to_owned()).filter(|kind| !kind.is_empty()))?
        };
        // The provider behind a gateway often says more.
        let upstream =
            error.pointer("/metadata/raw").map(|raw| raw.as_str().map_or_else(|| raw.to_string(), str::to_owned));
        let message = match upstream {
            Some(raw) if !raw.is_empty() && raw != "null" => format!("{message}: {}", brief(&raw, "")),
            _ => message,
        };
        let code = error.get("code");
        let status = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let kind = [text_of("type"), text_of("code"), text_of("status")].join(" ");
        let fields = ["/retry_after", "/metadata/retry_after", "/metadata/retry_after_seconds"];
        let seconds = fields.into_iter().find_map(|field| error.pointer(field)?.as_f64());
        let retry_after = seconds.and_then(retry_after::seconds);
        let retry_after = retry_after.or_else(|| retry_after::from_text(&message));
        let retry_after = retry_after.or_else(|| retry_after::from_text(&error.get("details")?.to_string()));
        let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status));
        Some(Self { status, kind, message, retry_after })
    }

    fn into_model_error(self, endpoint: &Endpoint, status: Option<u16>, retry_after: Option<Duration>) -> ModelError {
        let kind = kind_of(status, &self.kind, &self.message);
        ModelError { status, retry_after, ..endpoint.error(kind, self.message) }
    }
}

/// Returns the kind of an error. The text takes precedence over the status if it says more.
fn kind_of(status: Option<u16>, kind: &str, message: &str) -> ModelErrorKind {
    let kind = kind.to_lowercase();
    let text = format!("{kind} {}", message.to_lowercase());
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let typed = |names: &[&str]| kind.split(' ').any(|kind| names.contains(&kind));
    // "Too many tokens" means a rate limit with these statuses, and a long conversation with others.
    let is_rate_or_auth = matches!(status, Some(401 | 403 | 429 | 503 | 529));
    if !is_rate_or_auth && (status == Some(413) || says(TOO_LONG)) {
        return ModelErrorKind::ContextTooLong;
    }
    if matches!(status, None | Some(400 | 403 | 422)) && says(REFUSED) {
        return ModelErrorKind::Refused;
    }
    // Gemini calls its limits per minute a quota, too.
    let is_quota = says(NO_QUOTA) && !typed(&["resource_exhausted"]);
    if status == Some(402) || (matches!(status, None | Some(400..=499)) && is_quota) {
        return ModelErrorKind::Quota;
    }
    if matches!(status, None | Some(400 | 403 | 404 | 429)) && says(UNAUTHORIZED) {
        return ModelErrorKind::Auth;
    }
    match status {
        Some(401 | 403) => ModelErrorKind::Auth,
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

#[cfg(test)]
mod tests {
    use super::ModelErrorKind::{
        Auth, ContextTooLong, Invalid, Overloaded, Quota, RateLimit, Refused, Server, Timeout,
    };
    use super::*;

    #[test]
    fn errors_are_classified_by_status_type_and_message() {
        for (status, kind, message, expected) in [
            (Some(401), "authentication_error", "invalid x-api-key", Auth),
            (Some(403), "permission_error", "not for you", Auth),
            (Some(402), "", "Insufficient credits", Quota),
            (Some(402), "", "Payment Required", Quota),
            (Some(402), "billing_error", "your billing is not set up", Quota),
            (Some(400), "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", Quota),
            (Some(403), "", "Key limit exceeded (monthly limit).", Quota),
            (None, "insufficient_quota", "You exceeded your current quota", Quota),
            (Some(500), "", "insufficient_quota in a trace of the provider", Server),
            (Some(400), "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", Auth),
            (Some(429), "insufficient_quota", "You exceeded your current quota", Quota),
            (Some(429), "", "You exceeded your current quota, please check your plan and billing details.", Quota),
            (Some(429), "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 34s.", RateLimit),
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
    fn long_conversations_are_recognized_in_the_messages_of_many_providers() {
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
    fn errors_are_parsed_in_many_forms() {
        let read = |text: &str| {
            let read = ProviderError::parse(&serde_json::from_str(text).unwrap()).unwrap();
            format!("{:?} [{}] {} {:?}", read.status, read.kind.trim(), read.message, read.retry_after)
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
