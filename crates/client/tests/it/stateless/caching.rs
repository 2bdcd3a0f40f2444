//! Caching with servers whose policies are invalid or odd.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step, eventually};

use super::piped;
use crate::seconds;

fn list(more: &Value) -> Step {
    let mut list = json!({"resultType": "complete", "tools": [{"name": "one", "inputSchema": {"type": "object"}}]});
    for (key, value) in more.as_object().unwrap() {
        list[key] = value.clone();
    }
    Step::Result(list)
}

/// Requests a list every second for this many seconds, and counts the requests that reach the server.
async fn requests_in(script: Script, times: u32) -> usize {
    let (session, server) = piped(script);
    for _ in 0..times {
        eventually(session.list_tools()).await.unwrap();
        tokio::time::sleep(seconds(1)).await;
    }
    server.log().count("tools/list")
}

#[tokio::test(start_paused = true)]
async fn an_invalid_ttl_counts_as_zero() {
    let nonsense = [
        json!({}),
        json!({"ttlMs": 0}),
        json!({"ttlMs": -1}),
        json!({"ttlMs": -1e300}),
        json!({"ttlMs": "60000"}),
        json!({"ttlMs": null}),
        json!({"ttlMs": [60_000]}),
        json!({"ttlMs": true}),
    ];
    for terms in nonsense {
        assert_eq!(requests_in(Script::modern().on("tools/list", [list(&terms)]), 4).await, 4, "{terms}");
    }
    let sense = [
        json!({"ttlMs": 60_000, "cacheScope": "public"}),
        json!({"ttlMs": 60_000.75, "cacheScope": "private"}),
        json!({"ttlMs": 6e4}),
        json!({"ttlMs": 60_000, "cacheScope": "galaxy"}),
        json!({"ttlMs": 60_000, "cacheScope": 7}),
        json!({"ttlMs": u64::MAX}),
        json!({"ttlMs": 1e300}),
    ];
    for terms in sense {
        assert_eq!(requests_in(Script::modern().on("tools/list", [list(&terms)]), 4).await, 1, "{terms}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_cached_for_longer_than_a_day() {
    let (session, server) = piped(Script::modern().on("tools/list", [list(&json!({"ttlMs": u64::MAX}))]));
    for _ in 0..3 {
        eventually(session.list_tools()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(25 * 60 * 60)).await;
    }
    assert_eq!(server.log().count("tools/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn the_shortest_ttl_of_all_pages_applies() {
    let pages = |first: Value, second: Value| {
        let mut first = first;
        first["nextCursor"] = "2".into();
        // The pages of every requested list, one after the other.
        (0..20).fold(Script::modern(), |script, _| {
            script.once("tools/list", [list(&first)]).once("tools/list", [list(&second)])
        })
    };
    let long = json!({"ttlMs": 3_600_000});
    let short = json!({"ttlMs": 2_500});
    // Requested at seconds 0, 3, 6 and 9, or a second earlier where jitter shortens the time.
    for script in [pages(long.clone(), short.clone()), pages(short, long.clone())] {
        let requests = requests_in(script, 10).await;
        assert_eq!(requests, 8, "{requests}");
    }
    assert_eq!(requests_in(pages(long.clone(), json!({})), 5).await, 10);
    assert_eq!(requests_in(pages(long.clone(), long), 5).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_truncated_list_is_not_cached() {
    let endless = list(&json!({"ttlMs": 60_000, "nextCursor": "again"}));
    assert_eq!(requests_in(Script::modern().on("tools/list", [endless]), 3).await, 6);
    let (session, server) = piped(
        Script::modern()
            .once("tools/list", [list(&json!({"ttlMs": 60_000, "nextCursor": "2"}))])
            .once("tools/list", [Step::Error(-32603, "no".into())])
            .on("tools/list", [list(&json!({"ttlMs": 60_000}))]),
    );
    eventually(session.list_tools()).await.unwrap_err();
    eventually(session.list_tools()).await.unwrap();
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(server.log().count("tools/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn change_notifications_invalidate_cached_results() {
    let changed = Step::Notify("notifications/tools/list_changed".into(), json!({}));
    let script = Script::modern().on("tools/list", [list(&json!({"ttlMs": 60_000}))]);
    let (session, server) = piped(script.any_tool("tool").on_call("tool", [changed, Step::Text("done".into())]));
    eventually(session.list_tools()).await.unwrap();
    eventually(session.list_tools()).await.unwrap();
    eventually(session.call("tool", &crate::none())).await.unwrap();
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(server.log().count("tools/list"), 2);
}
