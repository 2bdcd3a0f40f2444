//! Saved sessions that another fleet resumes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_fleet::{Fleet, FleetOptions, ServerSpec};
use wharf_testkit::{HttpScripted, Script, Scripted, soon};

use super::{call, entry, in_memory, open, over_http};

/// How many sessions the server was asked to end.
fn goodbyes(server: &HttpScripted) -> usize {
    server.requests().iter().filter(|seen| seen.method == "DELETE").count()
}

#[tokio::test]
async fn another_fleet_resumes_saved_sessions() {
    let server = HttpScripted::new(Script::good());
    let other = HttpScripted::new(Script::good());
    let (kept, _one) = over_http("kept", &server).await;
    let (fresh, _two) = over_http("fresh", &other).await;
    let fleet = open([kept.clone(), in_memory("local", &Scripted::new(Script::good()))]);
    soon(fleet.settled(Duration::from_secs(10))).await;
    let left = soon(fleet.close_keeping_sessions()).await;
    assert_eq!(left.len(), 1, "a local server keeps no session: {left:?}");
    assert_eq!((goodbyes(&server), server.log().count("initialize")), (0, 1));

    let resume = left.into_iter().map(Arc::new).collect();
    let fleet = Fleet::open([kept, fresh].map(ServerSpec::from), FleetOptions { resume, ..FleetOptions::default() });
    soon(fleet.settled(Duration::from_secs(10))).await;
    soon(call(&entry(&fleet, "mcp__kept__add"), json!({"a": 1, "b": 1}))).await.unwrap();
    assert_eq!((server.log().count("initialize"), other.log().count("initialize")), (1, 1));
    fleet.close().await;
    assert_eq!(goodbyes(&server), 1);
}
