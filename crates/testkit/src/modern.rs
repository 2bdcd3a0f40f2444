//! Correct responses in the modern era: without a handshake, and with client metadata in every request.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::script::{Eras, Script, Step};

/// The revision of this era.
pub(crate) const REVISION: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LISTEN: &str = "subscriptions/listen";

const INVALID_PARAMS: i64 = -32602;
const NO_METHOD: i64 = -32601;
const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Returns whether a message belongs to this era.
pub(crate) fn applies_to(script: &Script, message: &Value) -> bool {
    match script.eras {
        Eras::Legacy => false,
        Eras::Modern => true,
        Eras::Both => {
            message["method"] == "server/discover" || message["params"]["_meta"][VERSION].as_str() == Some(REVISION)
        }
    }
}

/// Returns the error for an invalid request, or the response to a method of this era alone; `None` for methods that both
/// eras have.
pub(crate) fn response(script: &Script, message: &Value) -> Option<Value> {
    let id = &message["id"];
    let params = &message["params"];
    let refuse = |code: i64, text: &str, data: Value| {
        Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text, "data": data}}))
    };
    let unsupported = |requested: &Value| {
        refuse(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            json!({"supported": [REVISION], "requested": requested}),
        )
    };
    let method = message["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        return unsupported(&params["protocolVersion"]);
    }
    let meta = &params["_meta"];
    if !meta[VERSION].is_string() || !meta[CAPABILITIES].is_object() {
        return refuse(INVALID_PARAMS, "missing client metadata", Value::Null);
    }
    if meta[VERSION] != REVISION {
        return unsupported(&meta[VERSION]);
    }
    match method {
        "server/discover" => {
            let capabilities = json!({
                "tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            });
            let result = json!({"supportedVersions": supported(script), "capabilities": capabilities});
            Some(json!({"jsonrpc": "2.0", "id": id, "result": with_ttl(result)}))
        }
        LISTEN => {
            let params = json!({"_meta": {SUBSCRIPTION: id}, "notifications": params["notifications"]});
            Some(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}))
        }
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            refuse(NO_METHOD, "Method not found", json!(method))
        }
        _ => None,
    }
}

fn supported(script: &Script) -> Vec<&'static str> {
    if script.eras == Eras::Both { vec!["2025-11-25", REVISION] } else { vec![REVISION] }
}

/// Adds the fields that every result has in this era.
pub(crate) fn with_meta(mut response: Value, method: &Value) -> Value {
    let Some(result) = response.get_mut("result").filter(|result| result.is_object()) else { return response };
    if method.as_str().is_some_and(|method| method.ends_with("/list") || method == "resources/read") {
        *result = with_ttl(result.take());
    }
    if result.get("resultType").is_none() {
        result["resultType"] = "complete".into();
    }
    if result["_meta"].get(SERVER).is_none() {
        result["_meta"][SERVER] = json!({"name": "scripted", "version": "1.0"});
    }
    response
}

/// Adds a TTL of zero to a cacheable result.
fn with_ttl(mut result: Value) -> Value {
    if result.get("ttlMs").is_none() {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    result
}

/// Returns whether this request opens a stream of notifications instead of getting a response.
pub(crate) fn is_subscription(script: &Script, message: &Value, steps: &[Step]) -> bool {
    let normally = steps.iter().any(|step| matches!(step, Step::Normally));
    normally && message["method"] == LISTEN && applies_to(script, message)
}

/// Returns the steps for an HTTP request without a rule: its headers must match its body.
pub(crate) fn http_steps(script: &Script, headers: &HeaderMap, message: &Value) -> Vec<Step> {
    if !applies_to(script, message) || message["id"].is_null() || message["method"] == "initialize" {
        return vec![Step::Normally];
    }
    let method = message["method"].as_str().unwrap_or_default();
    let params = &message["params"];
    let named = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
        _ => None,
    };
    let required = [
        ("mcp-protocol-version", params["_meta"][VERSION].as_str()),
        ("mcp-method", Some(method)),
        ("mcp-name", named),
    ];
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Other tests check values in base64.
    let matches = |(name, required): &(&str, Option<&str>)| {
        required.is_none_or(|required| {
            header(name)
                .is_some_and(|value| value == required || (*name == "mcp-name" && value.starts_with("=?base64?")))
        })
    };
    match required.iter().find(|required| !matches(required)) {
        Some((name, _)) => vec![Step::Error(HEADER_MISMATCH, format!("the header {name} does not match the request"))],
        None if method == LISTEN => vec![Step::Normally, Step::Hang],
        None => vec![Step::Normally],
    }
}

/// Returns the HTTP status of a response.
pub(crate) fn status(script: &Script, request: &Value, response: &Value) -> u16 {
    match response["error"]["code"].as_i64() {
        _ if !applies_to(script, request) => 200,
        Some(NO_METHOD) => 404,
        Some(INVALID_PARAMS | UNSUPPORTED_VERSION..=HEADER_MISMATCH) => 400,
        _ => 200,
    }
}

/// Returns whether a GET or DELETE is from a client of this era, which has neither.
pub(crate) fn uses_headers_of(script: &Script, headers: &HeaderMap) -> bool {
    match script.eras {
        Eras::Legacy => false,
        Eras::Modern => true,
        Eras::Both => headers.get("mcp-protocol-version").is_some_and(|version| version == REVISION),
    }
}
