//! The prompts, and the completion of their arguments.

use serde_json::{Value, json};
use wharf::server::rmcp::ErrorData;
use wharf::server::rmcp::model::{
    CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputResponses, Prompt,
};

use super::{input, parse, plain};

const COMPLETIONS: [&str; 3] = ["paris", "park", "party"];

pub(super) fn list() -> Vec<Prompt> {
    let argument = |name: &str| json!({ "name": name, "description": "An argument", "required": true });
    let prompt = |name: &str, arguments: Vec<Value>| {
        let description = format!("The fixture `{name}` of the conformance suite");
        json!({ "name": name, "description": description, "arguments": arguments })
    };
    parse(json!([
        prompt("test_simple_prompt", vec![]),
        prompt("test_prompt_with_arguments", vec![argument("arg1"), argument("arg2")]),
        prompt("test_prompt_with_embedded_resource", vec![argument("resourceUri")]),
        prompt("test_prompt_with_image", vec![]),
        prompt("test_input_required_result_prompt", vec![]),
    ]))
}

pub(super) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let given = request.arguments.as_ref().and_then(|given| given.get(name));
        given.and_then(Value::as_str).ok_or_else(|| ErrorData::invalid_params(format!("`{name}` is missing"), None))
    };
    let messages = match &*request.name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let first = argument("arg1")?;
            let second = argument("arg2")?;
            vec![text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let embedded = "Embedded resource content for testing.";
            let resource = plain::resource(argument("resourceUri")?, "text/plain", embedded);
            vec![resource, text("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => vec![plain::image(), text("Please analyze the image above.")],
        "test_input_required_result_prompt" => {
            let no_answers = InputResponses::new();
            let answers = request.input_responses.as_ref().unwrap_or(&no_answers);
            let Some(context) = input::filled_in(answers, "user_context", "context").and_then(Value::as_str) else {
                let question = input::form("What context should the prompt use?", "context", "string");
                return Ok(input::ask(vec![("user_context", question)], None).into());
            };
            vec![text(&format!("In the context of {context}."))]
        }
        unknown => return Err(ErrorData::invalid_params(format!("unknown prompt `{unknown}`"), None)),
    };
    let messages = messages.into_iter().map(|content| json!({ "role": "user", "content": content }));
    Ok(GetPromptResult::new(parse(messages.collect())).into())
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(super) fn complete(typed: &str) -> Result<CompleteResult, ErrorData> {
    let fitting = COMPLETIONS.iter().filter(|word| word.starts_with(typed)).map(ToString::to_string).collect();
    let completion = CompletionInfo::new(fitting).map_err(|reason| ErrorData::internal_error(reason, None))?;
    Ok(CompleteResult::new(completion))
}
