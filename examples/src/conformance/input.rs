//! The tools that require input in their result, and complete when a retry provides it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use wharf::server::rmcp::ErrorData;
use wharf::server::rmcp::model::{
    CallToolRequestParams, CallToolResponse, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use wharf::server::rmcp::transport::common::server_side_http::session_id;

use super::{Context, parse, plain};

/// The states that were sent to clients. Any other state in a retry has been tampered with.
#[derive(Clone, Default)]
pub(super) struct States {
    given: Arc<Mutex<HashSet<String>>>,
}

impl States {
    fn give(&self) -> String {
        let state = session_id().to_string();
        self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(state.clone());
        state
    }

    fn check(&self, state: Option<&str>) -> Result<(), ErrorData> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Some(state) if !given.contains(state) => Err(ErrorData::invalid_params("unknown requestState", None)),
            _ => Ok(()),
        }
    }
}

/// The input requests of a tool, or its result when it has enough input.
enum Turn {
    Ask(Vec<(&'static str, InputRequest)>),
    Say(String),
}

pub(super) fn respond(
    states: &States,
    request: &CallToolRequestParams,
    context: &Context,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let no_answers = InputResponses::new();
    let answers = request.input_responses.as_ref().unwrap_or(&no_answers);
    let (turn, with_state) = match &*request.name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => (greet(answers), false),
        "test_input_required_result_sampling" => (capital(answers), false),
        "test_input_required_result_list_roots" => (roots(answers), false),
        "test_input_required_result_capabilities" => (supported_inputs(answers, context), false),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (confirm(answers), true)
        }
        "test_input_required_result_multiple_inputs" => (multiple_inputs(answers), true),
        "test_input_required_result_multi_round" => (multiple_rounds(answers), true),
        _ => return None,
    };
    let checked = states.check(request.request_state.as_deref());
    Some(checked.map(|()| match turn {
        Turn::Say(text) => plain::text(text).into(),
        Turn::Ask(questions) => ask(questions, with_state.then(|| states.give())).into(),
    }))
}

pub(super) fn ask(questions: Vec<(&'static str, InputRequest)>, state: Option<String>) -> InputRequiredResult {
    let questions = questions.into_iter().map(|(key, question)| (key.to_owned(), question));
    InputRequiredResult::new(Some(questions.collect::<InputRequests>()), state)
}

/// Returns a request for a form with one field.
pub(super) fn form(message: &str, field: &str, kind: &str) -> InputRequest {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    parse(json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } }))
}

/// Returns a field of an accepted form.
pub(super) fn filled_in<'a>(answers: &'a InputResponses, key: &str, field: &str) -> Option<&'a Value> {
    answers.get(key).filter(|answer| answer["action"] == "accept")?["content"].get(field)
}

fn prompt(text: &str, tokens: u32) -> InputRequest {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    let params = json!({ "messages": [message], "maxTokens": tokens });
    parse(json!({ "method": "sampling/createMessage", "params": params }))
}

fn sampled_text<'a>(answers: &'a InputResponses, key: &str) -> Option<&'a str> {
    answers.get(key)?["content"]["text"].as_str()
}

fn ask_for_roots() -> InputRequest {
    parse(json!({ "method": "roots/list", "params": {} }))
}

fn listed<'a>(answers: &'a InputResponses, key: &str) -> Option<&'a Vec<Value>> {
    answers.get(key)?["roots"].as_array()
}

fn greet(answers: &InputResponses) -> Turn {
    match filled_in(answers, "user_name", "name").and_then(Value::as_str) {
        Some(name) => Turn::Say(format!("Hello, {name}!")),
        None => Turn::Ask(vec![("user_name", form("What is your name?", "name", "string"))]),
    }
}

fn capital(answers: &InputResponses) -> Turn {
    match sampled_text(answers, "capital_question") {
        Some(text) => Turn::Say(text.to_owned()),
        None => Turn::Ask(vec![("capital_question", prompt("What is the capital of France?", 100))]),
    }
}

fn roots(answers: &InputResponses) -> Turn {
    match listed(answers, "client_roots") {
        Some(roots) => Turn::Say(format!("The roots: {}", json!(roots))),
        None => Turn::Ask(vec![("client_roots", ask_for_roots())]),
    }
}

fn confirm(answers: &InputResponses) -> Turn {
    match filled_in(answers, "confirm", "ok") {
        Some(_) => Turn::Say("state-ok".to_owned()),
        None => Turn::Ask(vec![("confirm", form("Please confirm", "ok", "boolean"))]),
    }
}

fn multiple_inputs(answers: &InputResponses) -> Turn {
    let name = filled_in(answers, "user_name", "name").and_then(Value::as_str);
    match (name, sampled_text(answers, "greeting"), listed(answers, "client_roots")) {
        (Some(name), Some(greeting), Some(roots)) => {
            Turn::Say(format!("{greeting}, {name}, who has {} roots", roots.len()))
        }
        _ => Turn::Ask(vec![
            ("user_name", form("What is your name?", "name", "string")),
            ("greeting", prompt("Generate a greeting", 50)),
            ("client_roots", ask_for_roots()),
        ]),
    }
}

fn multiple_rounds(answers: &InputResponses) -> Turn {
    if let Some(color) = filled_in(answers, "step2", "color") {
        return Turn::Say(format!("The color is {color}."));
    }
    Turn::Ask(vec![match filled_in(answers, "step1", "name") {
        Some(_) => ("step2", form("Step 2: What is your favorite color?", "color", "string")),
        None => ("step1", form("Step 1: What is your name?", "name", "string")),
    }])
}

fn supported_inputs(answers: &InputResponses, context: &Context) -> Turn {
    if !answers.is_empty() {
        return Turn::Say("All available input was provided.".to_owned());
    }
    let capabilities = context.client_capabilities().unwrap_or_default();
    let mut questions = Vec::new();
    if capabilities.elicitation.is_some() {
        questions.push(("user_name", form("What is your name?", "name", "string")));
    }
    if capabilities.sampling.is_some() {
        questions.push(("greeting", prompt("Generate a greeting", 50)));
    }
    if capabilities.roots.is_some() {
        questions.push(("client_roots", ask_for_roots()));
    }
    Turn::Ask(questions)
}
