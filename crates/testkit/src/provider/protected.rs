//! The protected MCP server: the minimum that a session needs.

use serde_json::{Value, json};

use super::config::{ProviderConfig, SCOPE};
use super::dpop;
use super::response::{Response, json_document, with_headers};
use super::state::Shared;
use crate::seen_request::SeenRequest;

/// Handles one request, if its token has the required scopes.
pub(super) fn serve(shared: &Shared, config: &ProviderConfig, seen: &SeenRequest) -> Response {
    let message: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let scheme = if config.dpop.is_some() { "DPoP " } else { "Bearer " };
    let token = seen.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix(scheme));
    let thumbprint = match (token, &config.dpop) {
        (Some(token), Some(dpop)) => match dpop::check_request(shared, dpop, seen, token) {
            Ok(thumbprint) => Some(thumbprint),
            Err(refusal) => return *refusal,
        },
        _ => None,
    };
    let granted = token.and_then(|token| shared.grants().scope(token, thumbprint.as_deref()).map(str::to_owned));
    let Some(granted) = granted else {
        let challenge = config.challenge.as_deref().map(|challenge| shared.with_origin(challenge));
        let headers: Vec<_> = challenge.iter().map(|challenge| ("www-authenticate", challenge.as_str())).collect();
        return with_headers(401, &headers, "unauthorized".to_owned());
    };
    let has = |scope: &str| granted.split(' ').any(|granted| granted == scope);
    for scope in [Some(SCOPE), config.scopes_of_tools.get(tool).map(String::as_str)].into_iter().flatten() {
        if !has(scope) {
            let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
            return with_headers(403, &[("www-authenticate", &challenge)], String::new());
        }
    }
    if seen.method != "POST" {
        return with_headers(405, &[("allow", "POST")], String::new());
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1"},
        }),
        "tools/list" => {
            let mut tools: Vec<&str> = config.scopes_of_tools.keys().map(String::as_str).collect();
            tools.push("look");
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            json!({"tools": tools.into_iter().map(tool).collect::<Vec<_>>()})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": format!("done with {granted}")}]}),
        _ if message["id"].is_null() => return with_headers(202, &[], String::new()),
        method => {
            let error = json!({"code": -32601, "message": format!("unknown method {method}")});
            return json_document(200, &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
    };
    json_document(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}
