//! The complete result of a unit, as the script reads it.

use serde::Serialize;
use serde_json::{Map, Value};
use wharf_agent::TraceMessage;
use wharf_protocol::{Role, Usage};

use super::cut::TextBudget;
use crate::outcome::UnitResult;

/// A result with its trace. JSON of models, judges and tools is text here: JavaScript would round its numbers, and its
/// depth has no limit.
#[derive(Serialize)]
pub(super) struct UnitDetail {
    /// Everything but the trace and the answer, as in the JSON export.
    #[serde(flatten)]
    result: Map<String, Value>,
    response: Option<String>,
    trace: Vec<MessageDetail>,
}

#[derive(Serialize)]
struct MessageDetail {
    role: Role,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<CallDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct CallDetail {
    id: String,
    name: String,
    input: String,
}

#[derive(Serialize)]
struct ResultDetail {
    id: String,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

impl UnitDetail {
    pub(super) fn new(unit: &UnitResult) -> Result<Self, serde_json::Error> {
        let mut budget = TextBudget::new();
        let response = unit.response.as_deref().map(|response| budget.cut(response));
        // Without the trace, whose JSON may be nested too deep for a value.
        let head = UnitResult { trace: Vec::new(), response: None, ..unit.clone() };
        let mut result = match serde_json::to_value(&head)? {
            Value::Object(result) => result,
            _ => Map::new(),
        };
        result.remove("trace");
        write_template_as_text(result.get_mut("template"), &mut budget);
        cut_assertions(result.get_mut("assertions"), &mut budget);
        if let Some(scenario) = result.get_mut("scenario") {
            write_scenario_as_text(scenario, &mut budget);
        }
        if let Some(reasoning) = result.get_mut("judge_reasoning") {
            cut_text(reasoning, &mut budget);
        }
        if let Some(traits) = result.get_mut("rubric").and_then(|rubric| rubric.get_mut("traits")) {
            traits.as_array_mut().into_iter().flatten().for_each(|of| write_trait_as_text(of, &mut budget));
        }
        let trace = unit.trace.iter().map(|message| MessageDetail::new(message, &mut budget)).collect();
        Ok(Self { result, response, trace })
    }
}

fn write_template_as_text(template: Option<&mut Value>, budget: &mut TextBudget) {
    let fields = template.and_then(|template| template.get_mut("fields")).and_then(Value::as_array_mut);
    fields.into_iter().flatten().for_each(|field| write_values_as_text(field, budget));
}

/// Cuts the reasons of assertions, which quote the model.
fn cut_assertions(assertions: Option<&mut Value>, budget: &mut TextBudget) {
    for assertion in assertions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reason) = assertion.get_mut("reason") {
            cut_text(reason, budget);
        }
    }
}

/// Cuts the texts of a scenario, and replaces its variables by their JSON text. The answers of its turns are in the trace.
fn write_scenario_as_text(scenario: &mut Value, budget: &mut TextBudget) {
    for turn in scenario.get_mut("turns").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = turn.as_object_mut() {
            fields.shift_remove("response");
        }
        if let Some(prompt) = turn.get_mut("prompt") {
            cut_text(prompt, budget);
        }
        write_template_as_text(turn.get_mut("template"), budget);
        cut_assertions(turn.get_mut("assertions"), budget);
    }
    for value in scenario.get_mut("state").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        *value = Value::String(budget.cut(&value.to_string()));
    }
    for criterion in scenario.get_mut("outcome").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reason) = criterion.get_mut("reason") {
            cut_text(reason, budget);
        }
    }
}

/// Replaces the extracted and the expected value of a field by their JSON text.
fn write_values_as_text(field: &mut Value, budget: &mut TextBudget) {
    for key in ["extracted", "truth"] {
        if let Some(value) = field.get_mut(key) {
            *value = Value::String(budget.cut(&value.to_string()));
        }
    }
    if let Some(text) = field.get_mut("overruled") {
        cut_text(text, budget);
    }
}

/// Cuts the texts of a trait, and replaces an object by its JSON text.
fn write_trait_as_text(of: &mut Value, budget: &mut TextBudget) {
    for key in ["reasoning", "absent", "failed"] {
        if let Some(text) = of.get_mut(key) {
            cut_text(text, budget);
        }
    }
    if let Some(object) = of.get_mut("value").and_then(|value| value.get_mut("object")) {
        *object = Value::String(budget.cut(&object.to_string()));
    }
}

fn cut_text(value: &mut Value, budget: &mut TextBudget) {
    if let Value::String(text) = value {
        *text = budget.cut(text);
    }
}

impl MessageDetail {
    fn new(message: &TraceMessage, budget: &mut TextBudget) -> Self {
        let thinking = message.thinking.as_ref().map(|thinking| budget.cut(&thinking.thinking));
        let content = budget.cut(&message.content);
        let calls = message.tool_calls.iter().map(|call| CallDetail {
            id: budget.cut(&call.id),
            name: budget.cut(&call.name),
            input: budget.cut(call.input.as_str()),
        });
        let calls = calls.collect();
        let result = message.tool_result.as_ref().map(|result| ResultDetail {
            id: budget.cut(&result.tool_use_id),
            is_error: result.is_error,
            output: result.output.as_ref().map(|output| budget.cut(output.as_str())),
        });
        Self { role: message.role, content, calls, result, thinking, usage: message.usage_metadata }
    }
}
