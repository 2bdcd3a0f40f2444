//! Matches messages with rules, and creates the messages that steps and correct servers send.
//!
//! It is independent of transports: pipes, HTTP and WebSocket share the same rules.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::modern;
use crate::script::{Script, Step};

/// A script with the number of uses of its rules.
pub(crate) struct Rules {
    script: Script,
    used: Mutex<HashMap<usize, u32>>,
}

impl Rules {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, used: Mutex::default() }
    }

    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    /// Returns the steps of the first matching rule that is not used up.
    pub(crate) fn steps(&self, message: &Value) -> Option<Vec<Step>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let name = message["params"]["name"].as_str();
        let (index, rule) = self.script.rules.iter().enumerate().find(|(index, rule)| {
            message["method"] == rule.method.as_str()
                && rule.name.as_deref().is_none_or(|required| Some(required) == name)
                && rule.times.is_none_or(|times| used.get(index).copied().unwrap_or(0) < times)
        })?;
        *used.entry(index).or_default() += 1;
        Some(rule.steps.clone())
    }
}

/// Returns the message that a step sends for `request`, if that is all it does. `response` is the client's last response.
pub(crate) fn message_of(script: &Script, step: &Step, request: &Value, response: &Value) -> Option<Value> {
    let id = &request["id"];
    let with_meta = |response| {
        if modern::applies_to(script, request) { modern::with_meta(response, &request["method"]) } else { response }
    };
    Some(match step {
        Step::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Step::Text(text) => with_meta(text_result(id, text)),
        Step::Error(code, message) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
        Step::Normally => return correct_response(script, request),
        Step::Notify(method, params) => json!({"jsonrpc": "2.0", "method": method, "params": params}),
        Step::Progress(progress, total, message) => {
            let token = &request["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": progress, "total": total, "message": message});
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        }
        Step::EchoAnswer => {
            let response = response.get("result").or(response.get("error")).unwrap_or(&Value::Null);
            with_meta(text_result(id, &response.to_string()))
        }
        _ => return None,
    })
}

/// Returns the response of a correct server; `None` to a notification.
pub(crate) fn correct_response(script: &Script, message: &Value) -> Option<Value> {
    let id = &message["id"];
    if id.is_null() {
        return None;
    }
    if modern::applies_to(script, message) {
        let response = modern::response(script, message).unwrap_or_else(|| common_response(script, message));
        return Some(modern::with_meta(response, &message["method"]));
    }
    Some(common_response(script, message))
}

/// Returns the response to methods that both eras have, and to the handshake.
fn common_response(script: &Script, message: &Value) -> Value {
    let id = &message["id"];
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": script.revision.as_deref().map_or(params["protocolVersion"].clone(), Value::from),
            "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "logging": {}},
            "serverInfo": {"name": "scripted", "version": "1.0"},
        }),
        "ping" | "logging/setLevel" => json!({}),
        "tools/list" => page("tools", &script.tools, script.page_size, params),
        "prompts/list" => page("prompts", &script.prompts, script.page_size, params),
        "resources/list" => page("resources", &script.resources, script.page_size, params),
        "resources/templates/list" => page("resourceTemplates", &script.templates, script.page_size, params),
        "tools/call" => {
            let arguments = &params["arguments"];
            let text = match params["name"].as_str() {
                Some("echo") => arguments["text"].as_str().unwrap_or_default().to_owned(),
                Some("add") => {
                    (arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0)).to_string()
                }
                _ => {
                    let content = json!([{"type": "text", "text": "Unknown tool"}]);
                    return json!({"jsonrpc": "2.0", "id": id, "result": {"content": content, "isError": true}});
                }
            };
            return text_result(id, &text);
        }
        method => {
            let error = json!({"code": -32601, "message": format!("no method {method}")});
            return json!({"jsonrpc": "2.0", "id": id, "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn text_result(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

/// Returns one page of a list; the cursor is the index of the first item.
fn page(key: &str, items: &[Value], size: Option<usize>, params: &Value) -> Value {
    let start = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0_usize).min(items.len());
    let end = size.map_or(items.len(), |size| (start + size).min(items.len()));
    let mut page = json!({ key: items[start..end] });
    if end < items.len() {
        page["nextCursor"] = end.to_string().into();
    }
    page
}
