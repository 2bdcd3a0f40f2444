//! The server that tokens are for: as little of one as a session needs.

use serde_json::{Value, json};

use super::web::{Response, json as answer, whole};
use super::{ProviderConfig, SCOPE, Shared};
use crate::SeenRequest;

/// Answers one request, if its token is good for it.
pub(super) fn serve(shared: &Shared, config: &ProviderConfig, seen: &SeenRequest) -> Response {
    let message: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let bearer = seen.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let granted = bearer.and_then(|token| shared.grants().scope(token).map(str::to_owned));
    let Some(granted) = granted else {
        let challenge = config.challenge.as_deref().map(|challenge| shared.here(challenge));
        let headers: Vec<_> = challenge.iter().map(|challenge| ("www-authenticate", challenge.as_str())).collect();
        return whole(401, &headers, "who are you?".to_owned());
    };
    let has = |scope: &str| granted.split(' ').any(|granted| granted == scope);
    for scope in [Some(SCOPE), config.scopes_of_tools.get(tool).map(String::as_str)].into_iter().flatten() {
        if !has(scope) {
            let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
            return whole(403, &[("www-authenticate", &challenge)], String::new());
        }
    }
    if seen.method != "POST" {
        return whole(405, &[("allow", "POST")], String::new());
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
        _ if message["id"].is_null() => return whole(202, &[], String::new()),
        method => {
            let error = json!({"code": -32601, "message": format!("there is no {method}")});
            return answer(200, &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
    };
    answer(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}
