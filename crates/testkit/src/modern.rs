//! How a good server of the modern era answers: without a handshake, to requests that each say who asks.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::{Eras, Script, Step};

/// The revision of that era.
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

/// Whether a message is answered in the way of this era.
pub(crate) fn is_meant(script: &Script, message: &Value) -> bool {
    match script.eras {
        Eras::Legacy => false,
        Eras::Modern => true,
        Eras::Both => {
            message["method"] == "server/discover" || message["params"]["_meta"][VERSION].as_str() == Some(REVISION)
        }
    }
}

/// What is wrong with a request, or the answer to what only this era has; `None` for what is answered as ever.
pub(crate) fn answer(script: &Script, message: &Value) -> Option<Value> {
    let (id, params) = (&message["id"], &message["params"]);
    let refuse = |code: i64, text: &str, data: Value| {
        Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text, "data": data}}))
    };
    let unsupported = |asked: &Value| {
        refuse(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            json!({"supported": [REVISION], "requested": asked}),
        )
    };
    let method = message["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        return unsupported(&params["protocolVersion"]);
    }
    let meta = &params["_meta"];
    if !meta[VERSION].is_string() || !meta[CAPABILITIES].is_object() {
        return refuse(INVALID_PARAMS, "the request does not say who asks", Value::Null);
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
            Some(json!({"jsonrpc": "2.0", "id": id, "result": kept(result)}))
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

/// An answer with all that results have in this era.
pub(crate) fn stamped(mut answer: Value, method: &Value) -> Value {
    let Some(result) = answer.get_mut("result").filter(|result| result.is_object()) else { return answer };
    if method.as_str().is_some_and(|method| method.ends_with("/list") || method == "resources/read") {
        *result = kept(result.take());
    }
    if result.get("resultType").is_none() {
        result["resultType"] = "complete".into();
    }
    if result["_meta"].get(SERVER).is_none() {
        result["_meta"][SERVER] = json!({"name": "scripted", "version": "1.0"});
    }
    answer
}

/// A result that may be kept, though not for any time.
fn kept(mut result: Value) -> Value {
    if result.get("ttlMs").is_none() {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    result
}

/// Whether this request is not answered but listened on, for as long as the client likes.
pub(crate) fn listens(script: &Script, message: &Value, steps: &[Step]) -> bool {
    let normally = steps.iter().any(|step| matches!(step, Step::Normally));
    normally && message["method"] == LISTEN && is_meant(script, message)
}

/// What is done about a request over HTTP that no rule is about: its headers have to say what it says itself.
pub(crate) fn over_http(script: &Script, headers: &HeaderMap, message: &Value) -> Vec<Step> {
    if !is_meant(script, message) || message["id"].is_null() || message["method"] == "initialize" {
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
    let wanted = [
        ("mcp-protocol-version", params["_meta"][VERSION].as_str()),
        ("mcp-method", Some(method)),
        ("mcp-name", named),
    ];
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // What is written in base64 is for other tests to read.
    let agrees = |(name, wanted): &(&str, Option<&str>)| {
        wanted.is_none_or(|wanted| {
            said(name).is_some_and(|said| said == wanted || (*name == "mcp-name" && said.starts_with("=?base64?")))
        })
    };
    match wanted.iter().find(|wanted| !agrees(wanted)) {
        Some((name, _)) => vec![Step::Error(HEADER_MISMATCH, format!("the header {name} does not fit the request"))],
        None if method == LISTEN => vec![Step::Normally, Step::Hang],
        None => vec![Step::Normally],
    }
}

/// The status that an answer has over HTTP.
pub(crate) fn status(script: &Script, request: &Value, answer: &Value) -> u16 {
    match answer["error"]["code"].as_i64() {
        _ if !is_meant(script, request) => 200,
        Some(NO_METHOD) => 404,
        Some(INVALID_PARAMS | UNSUPPORTED_VERSION..=HEADER_MISMATCH) => 400,
        _ => 200,
    }
}

/// Whether a GET or DELETE comes from a client of this era, which has no use for either.
pub(crate) fn is_spoken_in(script: &Script, headers: &HeaderMap) -> bool {
    match script.eras {
        Eras::Legacy => false,
        Eras::Modern => true,
        Eras::Both => headers.get("mcp-protocol-version").is_some_and(|version| version == REVISION),
    }
}
