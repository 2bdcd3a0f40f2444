//! Results that require input from the client, and the client's input responses.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use crate::catalog::{error, text};

/// State that a client would change if it parsed or re-encoded it.
pub(crate) const AWKWARD: &str = "{\"q\": 'a\\\\b', \"tab\": \"\t\", \"nul\": \"\\u0000\"} \\ / \r\n \u{e9} e\u{301} \
                                  \u{1f6a2} \u{2028} </script> =?base64?eA==?= ";

/// The kinds of input that a client can provide.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    Form,
    Url,
    Model,
    Roots,
}

/// The input responses of a retried request, and its state.
pub(crate) struct Round {
    pub(crate) answers: InputResponses,
    pub(crate) state: Option<String>,
}

impl Round {
    pub(crate) fn new(answers: Option<InputResponses>, state: Option<String>) -> Self {
        Self { answers: answers.unwrap_or_default(), state }
    }

    /// Returns the response to the only input request, if the client sent the state back unchanged.
    pub(crate) fn answer_with_state(&self, key: &str) -> Option<String> {
        let answer = self.answers.get(key)?;
        (self.state.as_deref() == Some(AWKWARD)).then(|| describe(answer))
    }
}

/// Requires all inputs in one round and returns them as text, in order.
pub(crate) fn once(
    context: &RequestContext<RoleServer>,
    round: &Round,
    questions: &[(&str, Need)],
) -> Result<CallToolResponse, ErrorData> {
    for (_, need) in questions {
        requires(context, *need)?;
    }
    let answers: Option<Vec<String>> = questions.iter().map(|(key, _)| round.answers.get(*key).map(describe)).collect();
    Ok(match answers {
        Some(answers) => text(answers.join("; ")).into(),
        None => question(questions.iter().map(|(key, need)| (*key, request(*need))), None).into(),
    })
}

/// Requires input in two rounds, and the state back unchanged.
pub(crate) fn twice(context: &RequestContext<RoleServer>, round: &Round) -> Result<CallToolResponse, ErrorData> {
    requires(context, Need::Form)?;
    let long = format!("{AWKWARD}{}", "0123456789abcdef".repeat(512));
    let first = round.answers.get("first");
    let second = round.answers.get("second");
    Ok(match (round.state.as_deref(), first, second) {
        (None, _, _) => question([("first", word("The first word?"))], Some(long)).into(),
        (Some(state), Some(first), None) if state == long => {
            question([("second", word("The second word?"))], Some(format!("{AWKWARD}{}", describe(first)))).into()
        }
        (Some(state), None, Some(second)) if state.starts_with(AWKWARD) => {
            text(format!("{}, {}", &state[AWKWARD.len()..], describe(second))).into()
        }
        _ => error("the requestState or the answers came back changed").into(),
    })
}

/// Requires a retry without input, which is how a server sheds load.
pub(crate) fn again(round: &Round) -> CallToolResponse {
    match round.state.as_deref() {
        Some("come back") => text("came back").into(),
        _ => InputRequiredResult::from_request_state("come back").into(),
    }
}

/// Requires the same input in every round.
pub(crate) fn forever(context: &RequestContext<RoleServer>, round: &Round) -> Result<CallToolResponse, ErrorData> {
    requires(context, Need::Form)?;
    let rounds: u32 = round.state.as_deref().and_then(|state| state.parse().ok()).unwrap_or_default();
    Ok(question([("name", request(Need::Form))], Some((rounds + 1).to_string())).into())
}

/// Requires a name, and sends state to the client.
pub(crate) fn name(context: &RequestContext<RoleServer>) -> Result<InputRequiredResult, ErrorData> {
    requires(context, Need::Form)?;
    Ok(question([("name", request(Need::Form))], Some(AWKWARD.to_owned())))
}

fn question<'a>(
    requests: impl IntoIterator<Item = (&'a str, InputRequest)>,
    state: Option<String>,
) -> InputRequiredResult {
    let requests: InputRequests = requests.into_iter().map(|(key, request)| (key.to_owned(), request)).collect();
    InputRequiredResult::new(Some(requests), state)
}

/// Returns the request for an input.
pub(crate) fn request(need: Need) -> InputRequest {
    parsed(match need {
        Need::Form => json!({"method": "elicitation/create", "params": {
            "mode": "form",
            "message": "Who are you?",
            "requestedSchema": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
            },
        }}),
        // The revision has removed the id, but rmcp cannot send a URL without one.
        Need::Url => json!({"method": "elicitation/create", "params": {
            "mode": "url",
            "message": "Please log in.",
            "url": "https://example.com/login?a=1&b=2",
            "elicitationId": "login-1",
        }}),
        Need::Model => json!({"method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
            "systemPrompt": "Be brief.",
            "maxTokens": 100,
        }}),
        Need::Roots => json!({"method": "roots/list"}),
    })
}

fn word(message: &str) -> InputRequest {
    parsed(json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    }}))
}

fn parsed(request: Value) -> InputRequest {
    serde_json::from_value(request).expect("a request that rmcp supports")
}

/// Fails if the client did not declare the capability for this input.
fn requires(context: &RequestContext<RoleServer>, need: Need) -> Result<(), ErrorData> {
    let has = serde_json::to_value(context.client_capabilities().unwrap_or_default()).unwrap_or_default();
    let elicitation = has.get("elicitation");
    let (fulfilled, needed) = match need {
        // Without modes the capability means forms, as before modes existed.
        Need::Form => (
            elicitation.is_some_and(|modes| modes.get("form").is_some() || modes.get("url").is_none()),
            json!({"elicitation": {"form": {}}}),
        ),
        Need::Url => (elicitation.is_some_and(|modes| modes.get("url").is_some()), json!({"elicitation": {"url": {}}})),
        Need::Model => (has.get("sampling").is_some(), json!({"sampling": {}})),
        Need::Roots => (has.get("roots").is_some(), json!({"roots": {}})),
    };
    if fulfilled {
        return Ok(());
    }
    let needed: ClientCapabilities = serde_json::from_value(needed).expect("capabilities that rmcp supports");
    Err(ErrorData::missing_required_client_capability(needed))
}

/// Describes an input response.
pub(crate) fn describe(answer: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(action) = answer["action"].as_str() {
        return match (action, &answer["content"]) {
            ("accept", Value::Object(content)) => content.values().map(plain).collect::<Vec<_>>().join(" "),
            ("accept", _) => "accepted".to_owned(),
            ("decline", _) => "declined".to_owned(),
            _ => "cancelled".to_owned(),
        };
    }
    if let Some(roots) = answer["roots"].as_array() {
        let root = |root: &Value| format!("{}={}", root["name"].as_str().unwrap_or("-"), plain(&root["uri"]));
        return roots.iter().map(root).collect::<Vec<_>>().join(" ");
    }
    match (answer["model"].as_str(), answer["content"]["text"].as_str()) {
        (Some(model), Some(said)) => format!("{model} says {said}"),
        _ => format!("a strange answer: {answer}"),
    }
}
