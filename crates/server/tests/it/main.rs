//! Servers on the network, tested with handwritten requests.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod connections;
mod eras;
mod http2;
mod raw;
mod sse;
mod streamable;
mod websocket;

use std::time::Duration;

use serde_json::{Value, json};
use wharf_server::{ListenOptions, RemoteServer, Reply, Router, Toolbox};

/// Creates a server with a tool that echoes, one that reports progress first, and one that never returns.
fn toolbox() -> Toolbox {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    Toolbox::new("parrot", "1.0.0")
        .tool(json!({ "name": "say", "inputSchema": schema }), |call| async move {
            call.text("text").map(|text| Reply::Text(text.to_owned()))
        })
        .tool(json!({ "name": "report", "inputSchema": schema }), |call| async move {
            call.progress(1.0, 2.0, "half").await;
            Ok(Reply::Text("done".to_owned()))
        })
        .tool(json!({ "name": "hang", "inputSchema": schema }), |call| async move {
            call.cancelled().await;
            Err("cancelled".to_owned())
        })
}

fn router(options: ListenOptions) -> Router {
    Router::new(toolbox, options)
}

async fn remote(options: ListenOptions) -> RemoteServer {
    RemoteServer::bind(([127, 0, 0, 1], 0).into(), router(options)).await.unwrap()
}

/// Waits for `future`, and fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("timed out")
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "by hand", "version": "1.0.0" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

fn call(id: u32, tool: &str, text: &str) -> Value {
    let params = json!({ "name": tool, "arguments": { "text": text }, "_meta": { "progressToken": id } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn server_name(answer: &Value) -> &str {
    answer["result"]["serverInfo"]["name"].as_str().unwrap_or_default()
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}
