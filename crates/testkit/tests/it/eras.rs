//! Scripts of the modern era, and of both, in memory and over HTTP.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use wharf_testkit::{HttpScripted, Script, Scripted, Step, soon, until};

use crate::wire::Wire;

fn modern_request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Returns the responses of an in-memory server, one per request.
async fn responses(script: Script, requests: &[Value]) -> Vec<Value> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    let talk = async {
        let mut answers = Vec::new();
        for request in requests {
            writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
            let line = lines.next_line().await.unwrap().unwrap();
            answers.push(serde_json::from_str(&line).unwrap());
        }
        answers
    };
    tokio::select! {
        answers = soon(talk) => answers,
        () = Scripted::new(script).serve(theirs) => panic!("the server disconnected"),
    }
}

#[tokio::test]
async fn a_modern_server_needs_no_handshake_and_refuses_one() {
    let initialize = json!({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    let requests = [
        initialize.clone(),
        modern_request(2, "server/discover", json!({})),
        modern_request(3, "tools/list", json!({})),
        json!({"id": 4, "method": "tools/list"}),
        modern_request(5, "ping", json!({})),
        modern_request(6, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})),
        modern_request(7, "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})),
    ];
    let received = responses(Script::modern(), &requests).await;
    assert_eq!(received[0]["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert_eq!(received[1]["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(received[1]["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "scripted");
    let listed = &received[2]["result"];
    assert_eq!(
        (&listed["resultType"], &listed["ttlMs"], &listed["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    assert_eq!((&received[3]["error"]["code"], &received[4]["error"]["code"]), (&json!(-32602), &json!(-32601)));
    assert_eq!(received[5]["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(received[5]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 6);
    assert_eq!(received[6]["result"]["content"][0]["text"], "3");

    let both = responses(Script::dual_era(), &[initialize, requests[1].clone(), requests[3].clone()]).await;
    assert_eq!(both[0]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(both[1]["result"]["supportedVersions"], json!(["2025-11-25", "2026-07-28"]));
    assert!(both[2]["result"]["tools"].is_array() && both[2]["result"].get("resultType").is_none());
}

#[tokio::test]
async fn a_modern_server_over_http_has_no_sessions_and_checks_headers() {
    let server = HttpScripted::new(Script::modern().on_call("odd", [Step::Error(-32601, "gone".into())]));
    let listening = server.listen().await;
    let mut wire = Wire::to(listening.address()).await;
    let posted = async |wire: &mut Wire<_>, method: &str, request: Value| {
        wire.headers = vec![("mcp-protocol-version", "2026-07-28".into()), ("mcp-method", method.into())];
        wire.send("POST /mcp", &request.to_string()).await;
    };
    posted(&mut wire, "server/discover", modern_request(1, "server/discover", json!({}))).await;
    let (head, body) = soon(wire.response()).await.unwrap();
    assert_eq!((head.status, head.get("mcp-session-id")), (200, None), "{body}");
    posted(&mut wire, "tools/call", modern_request(2, "tools/list", json!({}))).await;
    let (head, body) = soon(wire.response()).await.unwrap();
    assert!(head.status == 400 && body.contains("-32020"), "{body}");
    posted(&mut wire, "tools/call", modern_request(3, "tools/call", json!({"name": "odd"}))).await;
    let (head, body) = soon(wire.response()).await.unwrap();
    assert!(head.status == 404 && body.contains("-32601"), "{body}");
    for method in ["GET /mcp", "DELETE /mcp"] {
        assert_eq!(soon(wire.request(method, "")).await.0.status, 405);
    }
    posted(&mut wire, "subscriptions/listen", modern_request(4, "subscriptions/listen", json!({"notifications": {}})))
        .await;
    let head = soon(wire.head()).await.unwrap();
    assert_eq!((head.status, head.get("content-type")), (200, Some("text/event-stream")));
    assert!(soon(wire.chunk()).await.unwrap().unwrap().contains("acknowledged"));
    until(async || server.open_streams() == 1).await;
    let (head, _) = soon(Wire::to(listening.address()).await.initialize()).await;
    assert_eq!((head.status, head.get("mcp-session-id")), (400, None));
}
