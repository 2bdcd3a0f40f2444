//! Both eras of the protocol: with `initialize` up to 2025-11-25, and with metadata in every request since 2026-07-28.

mod handler;
mod http;
mod pipe;

use std::time::Duration;

use serde_json::{Value, json};

use crate::{call, initialize, initialized, server_name, text_of, toolbox};
use handler::Modern;
use pipe::{KINDS, Kind, Pipe};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Creates a request of the modern era, from a client that supports elicitation and tasks.
fn modern(id: u32, method: &str, params: Value) -> Value {
    let capabilities = json!({ "elicitation": {}, "extensions": { TASKS: {} } });
    let mut params = params;
    params["_meta"][VERSION] = "2026-07-28".into();
    params["_meta"][CAPABILITIES] = capabilities;
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn discover(id: u32) -> Value {
    modern(id, "server/discover", json!({}))
}

fn tool_names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("tools, not {answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_legacy_client_is_served_after_its_handshake() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        let greeting = pipe.ask(&initialize()).await;
        assert_eq!((server_name(&greeting), &greeting["result"]["protocolVersion"]), ("parrot", &json!("2025-06-18")));
        pipe.send(&initialized()).await;
        let answer = pipe.ask(&call(2, "say", "hello")).await;
        assert_eq!(answer["result"], json!({ "content": [{ "type": "text", "text": "hello" }], "isError": false }));
        let unknown = pipe.ask(&json!({ "jsonrpc": "2.0", "id": 3, "method": "subscriptions/listen" })).await;
        assert_eq!(unknown["error"]["code"], -32601, "{kind:?}");
    }
}

#[tokio::test]
async fn a_modern_client_discovers_and_continues() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        let found = pipe.ask(&discover(1)).await["result"].clone();
        assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{found}");
        assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "parrot");
        assert_eq!((&found["resultType"], &found["capabilities"]["tools"]), (&json!("complete"), &json!({})));
        assert_eq!(tool_names(&pipe.ask(&modern(2, "tools/list", json!({}))).await), ["say", "report", "hang"]);
        let request = modern(3, "tools/call", json!({ "name": "say", "arguments": { "text": "hello" } }));
        let answer = pipe.ask(&request).await;
        assert_eq!((text_of(&answer), &answer["result"]["resultType"]), ("hello", &json!("complete")), "{kind:?}");
    }
}

#[tokio::test]
async fn a_modern_client_need_not_discover() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        let list = pipe.ask(&modern(1, "tools/list", json!({}))).await;
        assert_eq!(tool_names(&list).len(), 3, "{kind:?}");
        assert_eq!((&list["result"]["ttlMs"], &list["result"]["cacheScope"]), (&json!(0), &json!("private")));
        let removed = pipe.ask(&modern(2, "ping", json!({}))).await;
        assert_eq!(removed["error"]["code"], -32601, "{kind:?}");
    }
}

#[tokio::test]
async fn a_client_may_use_either_era_after_a_probe() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        pipe.ask(&discover(1)).await;
        let params = initialize()["params"].clone();
        let again = json!({ "jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params });
        assert_eq!(server_name(&pipe.ask(&again).await), "parrot", "{kind:?}");
        pipe.send(&initialized()).await;
        assert_eq!(text_of(&pipe.ask(&call(3, "say", "hello")).await), "hello", "{kind:?}");
    }
}

#[tokio::test]
async fn a_cancelled_probe_does_not_end_the_connection() {
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        pipe.ask(&discover(1)).await;
        pipe.send(&cancelled).await;
        assert_eq!(server_name(&pipe.ask(&initialize()).await), "parrot", "{kind:?}");

        // Neither does one that was refused before, or one with an unknown id.
        let mut pipe = Pipe::open(kind, toolbox).await;
        pipe.send(&cancelled).await;
        let mut refused = modern(1, "tools/list", json!({}));
        refused["params"]["_meta"][VERSION] = "2099-01-01".into();
        pipe.ask(&refused).await;
        pipe.send(&cancelled).await;
        assert_eq!(tool_names(&pipe.ask(&modern(2, "tools/list", json!({}))).await).len(), 3, "{kind:?}");
    }
}

#[tokio::test]
async fn an_unknown_version_is_refused_with_the_supported_ones() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        for (id, method) in [(1, "server/discover"), (2, "tools/list")] {
            let mut request = modern(id, method, json!({}));
            request["params"]["_meta"][VERSION] = "2099-01-01".into();
            let error = pipe.ask(&request).await["error"].clone();
            assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!("2099-01-01")));
            assert!(error["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{error}");
        }
        // Neither refusal settles the era.
        assert_eq!(server_name(&pipe.ask(&initialize()).await), "parrot", "{kind:?}");
    }
}

#[tokio::test]
async fn a_request_without_metadata_is_refused_before_and_after_a_valid_one() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        let bare = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
        assert_eq!(pipe.ask(&bare(1)).await["error"]["code"], -32602, "{kind:?}");
        let mut halved = modern(2, "tools/list", json!({}));
        halved["params"]["_meta"].as_object_mut().unwrap().remove(CAPABILITIES);
        assert_eq!(pipe.ask(&halved).await["error"]["code"], -32602, "{kind:?}");
        assert_eq!(tool_names(&pipe.ask(&modern(3, "tools/list", json!({}))).await).len(), 3);
        assert_eq!(pipe.ask(&bare(4)).await["error"]["code"], -32602, "{kind:?}");
    }
}

#[tokio::test]
async fn progress_arrives_before_the_result_of_a_modern_call() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, toolbox).await;
        let params = json!({ "name": "report", "arguments": {}, "_meta": { "progressToken": "p" } });
        pipe.send(&modern(1, "tools/call", params)).await;
        let progress = pipe.receive().await;
        assert_eq!(
            (&progress["method"], &progress["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p")),
            "{kind:?}"
        );
        assert_eq!(text_of(&pipe.receive().await), "done", "{kind:?}");
    }
}

#[tokio::test]
async fn a_subscription_is_acknowledged_notified_and_cancelled() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, Modern::default).await;
        let filter = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
        pipe.send(&modern(7, "subscriptions/listen", filter)).await;
        let acknowledged = pipe.receive().await;
        let accepted = json!({ "_meta": { SUBSCRIPTION: 7 }, "notifications": { "toolsListChanged": true } });
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{kind:?}");
        assert_eq!(acknowledged["params"], accepted, "{kind:?}");
        let changed = pipe.receive().await;
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], 7, "{kind:?}");

        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
        pipe.send(&cancelled).await;
        assert_eq!(tool_names(&pipe.ask(&modern(8, "tools/list", json!({}))).await), ["ask", "work"], "{kind:?}");
    }
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_gets_a_response() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, Modern::default).await;
        let filter = json!({ "notifications": { "promptsListChanged": true } });
        pipe.send(&modern(7, "subscriptions/listen", filter)).await;
        assert_eq!(pipe.receive().await["params"]["notifications"], json!({}), "{kind:?}");
        let ended = pipe.receive().await;
        assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!(7), &json!("complete")), "{kind:?}");
        assert_eq!(ended["result"]["_meta"][SUBSCRIPTION], 7, "{kind:?}");
    }
}

#[tokio::test]
async fn a_result_requires_input_and_the_retry_provides_it() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, Modern::default).await;
        let input_required = pipe.ask(&modern(1, "tools/call", json!({ "name": "ask" }))).await["result"].clone();
        assert_eq!(
            (&input_required["resultType"], &input_required["requestState"]),
            (&json!("input_required"), &json!("asked"))
        );
        assert_eq!(input_required["inputRequests"]["who"]["method"], "elicitation/create");
        let responses = json!({ "who": { "action": "accept", "content": { "name": "Ann" } } });
        let retry =
            json!({ "name": "ask", "inputResponses": responses, "requestState": input_required["requestState"] });
        assert_eq!(text_of(&pipe.ask(&modern(2, "tools/call", retry)).await), "Hello, Ann!", "{kind:?}");
    }
}

#[tokio::test]
async fn a_legacy_client_gets_an_error_instead_of_an_input_request() {
    let mut pipe = Pipe::open(Kind::Stream, Modern::default).await;
    pipe.ask(&initialize()).await;
    assert_eq!(pipe.ask(&call(2, "ask", "")).await["error"]["code"], -32600);
}

#[tokio::test]
async fn a_task_is_created_polled_updated_and_completed() {
    for kind in KINDS {
        let mut pipe = Pipe::open(kind, Modern::default).await;
        let created = pipe.ask(&modern(1, "tools/call", json!({ "name": "work" }))).await["result"].clone();
        assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
        let task = json!({ "taskId": created["taskId"] });
        let asking = status(&mut pipe, &task, "input_required").await;
        assert_eq!(asking["inputRequests"]["who"]["method"], "elicitation/create", "{kind:?}");
        let responses = json!({ "who": { "action": "accept", "content": { "name": "Ann" } } });
        let update = json!({ "taskId": created["taskId"], "inputResponses": responses });
        assert_eq!(pipe.ask(&modern(3, "tasks/update", update)).await["result"], json!({ "resultType": "complete" }));
        let completed = status(&mut pipe, &task, "completed").await;
        assert_eq!(completed["result"]["content"][0]["text"], "Hello, Ann!", "{kind:?}");
        assert_eq!(pipe.ask(&modern(5, "tasks/list", json!({}))).await["error"]["code"], -32601, "{kind:?}");
    }
}

/// Polls until the task has this status.
async fn status(pipe: &mut Pipe, task: &Value, status: &str) -> Value {
    let poll = modern(4, "tasks/get", task.clone());
    let polling = async {
        loop {
            let state = pipe.ask(&poll).await["result"].clone();
            if state["status"] == status {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    crate::soon(polling).await
}
