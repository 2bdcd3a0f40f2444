//! What may be kept, and for how long, by servers that say so badly.

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

/// How often a list is asked for that is wanted every second, for so many seconds.
async fn asked_in(script: Script, times: u32) -> usize {
    let (session, server) = piped(script);
    for _ in 0..times {
        eventually(session.list_tools()).await.unwrap();
        tokio::time::sleep(seconds(1)).await;
    }
    server.log().count("tools/list")
}

#[tokio::test(start_paused = true)]
async fn a_time_that_makes_no_sense_is_none() {
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
        assert_eq!(asked_in(Script::modern().on("tools/list", [list(&terms)]), 4).await, 4, "{terms}");
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
        assert_eq!(asked_in(Script::modern().on("tools/list", [list(&terms)]), 4).await, 1, "{terms}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_for_longer_than_a_day() {
    let (session, server) = piped(Script::modern().on("tools/list", [list(&json!({"ttlMs": u64::MAX}))]));
    for _ in 0..3 {
        eventually(session.list_tools()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(25 * 60 * 60)).await;
    }
    assert_eq!(server.log().count("tools/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn of_several_pages_the_shortest_time_counts() {
    let pages = |first: Value, second: Value| {
        let mut first = first;
        first["nextCursor"] = "2".into();
        // The pages of every list that is asked for, one after the other.
        (0..20).fold(Script::modern(), |script, _| {
            script.once("tools/list", [list(&first)]).once("tools/list", [list(&second)])
        })
    };
    let (long, short) = (json!({"ttlMs": 3_600_000}), json!({"ttlMs": 2_500}));
    // Asked for in the seconds 0, 3, 6 and 9, or a second earlier where chance shortens the time.
    for script in [pages(long.clone(), short.clone()), pages(short, long.clone())] {
        let asked = asked_in(script, 10).await;
        assert_eq!(asked, 8, "{asked}");
    }
    assert_eq!(asked_in(pages(long.clone(), json!({})), 5).await, 10);
    assert_eq!(asked_in(pages(long.clone(), long), 5).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_failed_or_was_cut_short_is_not_kept() {
    let endless = list(&json!({"ttlMs": 60_000, "nextCursor": "again"}));
    assert_eq!(asked_in(Script::modern().on("tools/list", [endless]), 3).await, 6);
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
async fn what_was_kept_is_forgotten_when_the_server_says_that_it_changed() {
    let changed = Step::Notify("notifications/tools/list_changed".into(), json!({}));
    let script = Script::modern().on("tools/list", [list(&json!({"ttlMs": 60_000}))]);
    let (session, server) = piped(script.any_tool("tool").on_call("tool", [changed, Step::Text("done".into())]));
    eventually(session.list_tools()).await.unwrap();
    eventually(session.list_tools()).await.unwrap();
    eventually(session.call("tool", &crate::none())).await.unwrap();
    eventually(session.list_tools()).await.unwrap();
    assert_eq!(server.log().count("tools/list"), 2);
}
