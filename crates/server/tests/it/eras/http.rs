//! The modern era over Streamable HTTP: headers, statuses and no sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use wharf_server::{ListenOptions, RemoteServer, Reply, Router, Toolbox};

use super::handler::Modern;
use super::{CAPABILITIES, SUBSCRIPTION, VERSION, discover, modern, tool_names};
use crate::raw::{Head, Http};
use crate::{initialize, remote, soon, streamable, text_of, toolbox};

/// Returns the headers that a modern client must send with a request.
fn headers(request: &Value) -> Vec<String> {
    let version = request["params"]["_meta"][VERSION].as_str().unwrap_or("2026-07-28");
    let mut headers = vec![format!("MCP-Protocol-Version: {version}")];
    headers.push(format!("Mcp-Method: {}", request["method"].as_str().unwrap()));
    let named = request["params"]["name"].as_str().or(request["params"]["taskId"].as_str());
    headers.extend(named.map(|name| format!("Mcp-Name: {name}")));
    headers
}

async fn post(http: &mut Http<TcpStream>, request: &Value) -> Head {
    let headers = headers(request);
    http.post("/mcp", &headers.iter().map(String::as_str).collect::<Vec<_>>(), request).await
}

/// Posts on a new connection and returns the response, which arrives as an event.
async fn ask(remote: &RemoteServer, request: &Value) -> Value {
    let mut http = Http::connect(remote).await;
    let head = post(&mut http, request).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    http.message().await.expect("a response")
}

fn tool_call(id: u32, name: &str) -> Value {
    modern(id, "tools/call", json!({ "name": name, "arguments": { "text": "hello" } }))
}

async fn serve(toolbox: Toolbox, options: ListenOptions) -> RemoteServer {
    RemoteServer::bind(([127, 0, 0, 1], 0).into(), Router::new(move || toolbox.clone(), options)).await.unwrap()
}

#[tokio::test]
async fn one_address_serves_requests_of_both_eras() {
    let remote = remote(ListenOptions::default()).await;
    let (_, session) = streamable::open(&remote).await;
    let mut http = Http::connect(&remote).await;
    let head = post(&mut http, &discover(1)).await;
    assert_eq!((head.status, head.header("mcp-session-id")), (200, None));
    let versions = http.message().await.unwrap()["result"]["supportedVersions"].clone();
    assert!(versions.as_array().unwrap().contains(&json!("2026-07-28")), "{versions}");
    assert_eq!(tool_names(&ask(&remote, &modern(2, "tools/list", json!({}))).await).len(), 3);
    assert_eq!(text_of(&ask(&remote, &tool_call(3, "say")).await), "hello");

    let mut http = Http::connect(&remote).await;
    http.post("/mcp", &[&session], &crate::call(2, "say", "still here")).await;
    assert_eq!(text_of(&http.message().await.unwrap()), "still here");
}

#[tokio::test]
async fn get_and_delete_are_not_allowed_for_modern_clients() {
    let remote = remote(ListenOptions::default()).await;
    let headers = ["MCP-Protocol-Version: 2026-07-28", "Accept: text/event-stream"];
    for target in ["GET /mcp", "DELETE /mcp"] {
        let head = Http::connect(&remote).await.send(target, &headers, "").await;
        assert_eq!((head.status, head.header("allow")), (405, Some("POST")), "{target}");
    }
}

#[tokio::test]
async fn an_invalid_request_gets_a_matching_status() {
    let remote = remote(ListenOptions::default()).await;
    let list = modern(1, "tools/list", json!({}));
    let mut future = list.clone();
    future["params"]["_meta"][VERSION] = "2099-01-01".into();
    let mut incapable = list.clone();
    incapable["params"]["_meta"].as_object_mut().unwrap().remove(CAPABILITIES);
    let mismatched = |line: &str| vec!["MCP-Protocol-Version: 2026-07-28".to_owned(), line.to_owned()];
    let misnamed = [mismatched("Mcp-Method: tools/call"), vec!["Mcp-Name: hang".to_owned()]].concat();
    for (request, headers, status, code) in [
        (&list, mismatched("Mcp-Method: tools/call"), 400, -32020),
        (&list, mismatched("X-Nothing: said"), 400, -32020),
        (&list, vec!["MCP-Protocol-Version: 2025-11-25".to_owned()], 400, -32020),
        (&tool_call(1, "say"), misnamed, 400, -32020),
        (&future, headers(&future), 400, -32022),
        (&incapable, headers(&incapable), 400, -32602),
        (&modern(1, "no/such", json!({})), headers(&modern(1, "no/such", json!({}))), 404, -32601),
        (&modern(1, "ping", json!({})), headers(&modern(1, "ping", json!({}))), 404, -32601),
        (&tool_call(1, "nosuch"), headers(&tool_call(1, "nosuch")), 200, -32602),
    ] {
        let mut http = Http::connect(&remote).await;
        let lines = headers.iter().map(String::as_str).collect::<Vec<_>>();
        let head = http.post("/mcp", &lines, request).await;
        let error = if head.header("content-length").is_some() {
            serde_json::from_str(&http.body(&head).await).unwrap()
        } else {
            http.message().await.unwrap()
        };
        assert_eq!((head.status, &error["error"]["code"]), (status, &json!(code)), "{request} {headers:?} {error}");
        assert_eq!(error["id"], 1, "{request}");
    }
}

#[tokio::test]
async fn a_task_requires_the_task_capability() {
    let modern_only = Modern::default();
    let router = Router::new(move || modern_only.clone(), ListenOptions::default());
    let remote = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await.unwrap();
    let created = ask(&remote, &modern(1, "tools/call", json!({ "name": "work" }))).await;
    let task = json!({ "taskId": created["result"]["taskId"] });
    assert_eq!(ask(&remote, &modern(2, "tasks/get", task.clone())).await["result"]["taskId"], task["taskId"]);

    for mut request in [modern(3, "tools/call", json!({ "name": "work" })), modern(4, "tasks/get", task)] {
        request["params"]["_meta"][CAPABILITIES] = json!({});
        let mut http = Http::connect(&remote).await;
        let head = post(&mut http, &request).await;
        let answer = serde_json::from_str::<Value>(&http.body(&head).await).unwrap();
        assert_eq!((head.status, &answer["error"]["code"]), (400, &json!(-32021)), "{request}");
    }
}

#[tokio::test]
async fn a_sole_response_is_json() {
    let remote = remote(ListenOptions { json_responses: true, ..ListenOptions::default() }).await;
    let mut http = Http::connect(&remote).await;
    let head = post(&mut http, &tool_call(1, "say")).await;
    assert_eq!(head.header("content-type"), Some("application/json"));
    assert_eq!(text_of(&serde_json::from_str(&http.body(&head).await).unwrap()), "hello");

    let mut report = tool_call(2, "report");
    report["params"]["_meta"]["progressToken"] = "p".into();
    let head = post(&mut http, &report).await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(http.message().await.unwrap()["method"], "notifications/progress");
    assert_eq!(text_of(&http.message().await.unwrap()), "done");
}

/// Creates a server whose tool returns when notified.
fn slow(answer: Arc<Notify>) -> Toolbox {
    let think = move |_| {
        let answer = answer.clone();
        async move {
            answer.notified().await;
            Ok(Reply::Text("thought".to_owned()))
        }
    };
    Toolbox::new("slow", "1").tool(json!({ "name": "think", "inputSchema": { "type": "object" } }), think)
}

#[tokio::test]
async fn a_long_call_carries_keep_alive_comments() {
    for json_responses in [false, true] {
        let keep_alive = Duration::from_millis(50);
        let answer = Arc::new(Notify::new());
        let options = ListenOptions { keep_alive, json_responses, ..ListenOptions::default() };
        let remote = serve(slow(answer.clone()), options).await;
        let mut http = Http::connect(&remote).await;
        let head = post(&mut http, &tool_call(1, "think")).await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(http.event().await.unwrap(), ": keep-alive");
        answer.notify_one();
        assert_eq!(text_of(&http.message().await.unwrap()), "thought", "{json_responses}");
        assert_eq!(http.event().await, None);
    }
}

#[tokio::test]
async fn a_subscription_is_a_stream_with_keep_alive_comments() {
    for json_responses in [false, true] {
        let keep_alive = Duration::from_millis(50);
        let options = ListenOptions { keep_alive, json_responses, ..ListenOptions::default() };
        let remote =
            RemoteServer::bind(([127, 0, 0, 1], 0).into(), Router::new(Modern::default, options)).await.unwrap();
        let mut http = Http::connect(&remote).await;
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        let head = post(&mut http, &modern(7, "subscriptions/listen", filter)).await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        let acknowledged = http.message().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        let changed = http.message().await.unwrap();
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], 7, "{json_responses}");
        assert_eq!(http.event().await.unwrap(), ": keep-alive");

        soon(remote.router().forget_sessions()).await;
        assert_eq!(http.event().await, None, "the stream ends without a response, like after a restart");
    }
}

#[tokio::test]
async fn a_pending_call_ends_when_the_server_forgets_its_sessions() {
    let remote = remote(ListenOptions::default()).await;
    let mut http = Http::connect(&remote).await;
    let calling = async {
        post(&mut http, &tool_call(1, "hang")).await;
        assert_eq!(http.message().await, None);
    };
    // The test cannot observe when the call reaches the server.
    let forgetting = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            remote.router().forget_sessions().await;
        }
    };
    soon(async {
        tokio::select! { () = calling => {}, () = forgetting => {} }
    })
    .await;
}

/// Notifies when it is dropped.
struct Ended(Arc<Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_disconnect_cancels_the_call() {
    for keep_alive in [Duration::from_millis(20), Duration::from_secs(15)] {
        let called = Arc::new(Notify::new());
        let cancelled = Arc::new(Notify::new());
        let calls = called.clone();
        let cancels = cancelled.clone();
        let hang = move |_| {
            let calls = calls.clone();
            let ended = Ended(cancels.clone());
            async move {
                let _ended = ended;
                calls.notify_one();
                std::future::pending().await
            }
        };
        let toolbox = Toolbox::new("t", "1").tool(json!({ "name": "hang", "inputSchema": { "type": "object" } }), hang);
        let remote = serve(toolbox, ListenOptions { keep_alive, ..ListenOptions::default() }).await;
        let mut http = Http::connect(&remote).await;
        let request = tool_call(1, "hang");
        tokio::select! {
            () = async { post(&mut http, &request).await; while http.event().await.is_some() {} } => panic!("unexpected response"),
            () = async { called.notified().await; tokio::time::sleep(Duration::from_millis(60)).await } => {}
        }
        drop(http);
        soon(cancelled.notified()).await;
    }
}

#[tokio::test]
async fn arguments_must_match_their_headers() {
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    let schema = json!({ "type": "object", "properties": { "region": region } });
    let toolbox = Toolbox::new("t", "1")
        .tool(json!({ "name": "where", "inputSchema": schema }), |_| async { Ok(Reply::Text("here".to_owned())) });
    let remote = serve(toolbox, ListenOptions::default()).await;
    let request = modern(1, "tools/call", json!({ "name": "where", "arguments": { "region": "eu" } }));
    for (header, status) in [(Some("Mcp-Param-Region: eu"), 200), (Some("Mcp-Param-Region: us"), 400), (None, 400)] {
        let usual = headers(&request);
        let lines = usual.iter().map(String::as_str).chain(header).collect::<Vec<_>>();
        let head = Http::connect(&remote).await.post("/mcp", &lines, &request).await;
        assert_eq!(head.status, status, "{header:?}");
    }
}

#[tokio::test]
async fn a_toolbox_sends_its_list_ttl_to_modern_clients_only() {
    let remote = serve(toolbox().tool_list_ttl(Duration::from_secs(60)), ListenOptions::default()).await;
    let list = ask(&remote, &modern(1, "tools/list", json!({}))).await["result"].clone();
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(60_000), &json!("public")));

    let (mut http, session) = streamable::open(&remote).await;
    http.post("/mcp", &[&session], &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).await;
    let list = http.message().await.unwrap()["result"].clone();
    assert_eq!(list.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
}

// In-memory connections, so that the clock can be paused.
#[tokio::test(start_paused = true)]
async fn a_client_may_be_idle_for_any_time_after_its_first_message() {
    let router = Router::new(toolbox, ListenOptions::default());
    let mut connections = tokio::task::JoinSet::new();
    let mut connect = || {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let router = router.clone();
        connections.spawn(async move { router.serve_connection(theirs).await });
        Http::over(ours)
    };
    for (first, connected) in [(Some(discover(1)), true), (Some(initialize()), true), (None, false)] {
        let mut events = connect();
        events.send("GET /sse", &[], "").await;
        let endpoint = events.event().await.unwrap();
        let path = endpoint.strip_prefix("event: endpoint\ndata: ").unwrap();
        if let Some(first) = &first {
            connect().post(path, &[], first).await;
            events.message().await.expect("a response");
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        connect().post(path, &[], &modern(2, "tools/list", json!({}))).await;
        let answer = events.message().await;
        assert_eq!(answer.is_some(), connected, "{first:?}");
    }
}
