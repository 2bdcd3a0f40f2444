//! Notifications from servers that refuse them, cancel them, or misaddress them.

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_client::CallErrorKind;
use wharf_testkit::{HttpScripted, Script, Step, eventually};

use super::{Obliging, http, modern, piped, piped_with, requests};
use crate::remote::{http_with, in_memory, options};
use crate::{json, none, result_text, seconds, settle};

const LISTEN: &str = "subscriptions/listen";

fn acknowledged(id: &str, notifications: &Value) -> Step {
    Step::Line(format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{notifications}}}}}"#
    ))
}

fn changed() -> Step {
    Step::Notify("notifications/tools/list_changed".into(), json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_notifications_is_asked_once() {
    for refusal in [
        Step::Error(-32601, "Method not found".into()),
        Step::Error(-32602, "no".into()),
        Step::Error(-32603, "no".into()),
        Step::Error(-32021, "no".into()),
    ] {
        let (session, server) = piped(Script::modern().on(LISTEN, [refusal]));
        eventually(session.connect()).await.unwrap();
        tokio::time::sleep(seconds(3600)).await;
        assert_eq!((server.log().count(LISTEN), session.is_connected()), (1, true));
        // A subscription to a resource fails immediately.
        let began = Instant::now();
        let error = eventually(session.subscribe("a://b")).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Unsupported(_)), "{error}");
        assert_eq!(began.elapsed(), seconds(0));
        // A server without the method is not requests again; the others may have changed their minds.
        settle().await;
        // With the resource, without it, and again when the subscription ends.
        assert!((1..=4).contains(&server.log().count(LISTEN)));
        assert_eq!(server.log().count(LISTEN) == 1, error.to_string().contains("-32601"), "{error}");
    }
    let script = Script::modern().once(LISTEN, [Step::Error(-32603, "not yet".into())]);
    let (session, server) = piped(script);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(60)).await;
    eventually(session.subscribe("a://b")).await.unwrap();
    assert_eq!(server.log().count(LISTEN), 2);
}

#[tokio::test(start_paused = true)]
async fn reconnect_delay_grows_while_the_stream_keeps_ending() {
    let end = || Step::Result(json!({"resultType": "complete"}));
    let streams = [
        // Immediately, after it was acknowledged, and after a notification.
        vec![end()],
        vec![Step::Normally, end()],
        vec![Step::Normally, changed(), end()],
        vec![Step::Normally, Step::Wait(5_000), end()],
    ];
    for steps in streams {
        let what = format!("{steps:?}");
        let (session, server) = piped(Script::modern().on(LISTEN, steps));
        eventually(session.connect()).await.unwrap();
        tokio::time::sleep(seconds(3600)).await;
        let opened = server.log().count(LISTEN);
        assert!((2..=80).contains(&opened), "{what}: {opened}");
        assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
    // A stream that lives for a while is reopened forever, with short delays.
    let script = Script::modern().on(LISTEN, [Step::Normally, Step::Wait(55_000), end()]);
    let (session, server) = piped(script);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(3600)).await;
    assert!((60..=65).contains(&server.log().count(LISTEN)), "{}", server.log().count(LISTEN));
}

#[tokio::test(start_paused = true)]
async fn missed_changes_over_http_invalidate_the_cache() {
    let ends = [Step::EndStream, Step::HangUp, Step::Reset].into_iter().flat_map(|end| [(0, end.clone()), (100, end)]);
    for (lived, end) in ends {
        let what = format!("{end:?} after {lived} ms");
        let steps = [Step::Normally, Step::Wait(lived), end];
        let server = HttpScripted::new(Script::modern().times(3, LISTEN, steps));
        let host = Obliging::default();
        let (session, _) = http_with(options(in_memory(&server)), host.clone(), modern());
        eventually(session.connect()).await.unwrap();
        tokio::time::sleep(seconds(600)).await;
        assert_eq!((server.log().count(LISTEN), server.open_streams()), (4, 1), "{what}");
        // Every gap may have hidden a change; gaps without a stream in between count as one.
        let received = host.received().len();
        assert!(if lived == 0 { (1..=3).contains(&received) } else { received == 3 }, "{what}: {received}");
        server.push(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
        settle().await;
        assert_eq!(host.received().len(), received + 1, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_temporarily_refused_stream_is_retried() {
    let busy = || Step::Http { status: 503, headers: Vec::new(), body: String::new() };
    let server = HttpScripted::new(Script::modern().times(2, LISTEN, [busy()]));
    let session = http(&server);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!((server.log().count(LISTEN), server.open_streams()), (3, 1));
    let forbidden = Step::Http { status: 404, headers: Vec::new(), body: String::new() };
    let server = HttpScripted::new(Script::modern().on(LISTEN, [forbidden]));
    let session = http(&server);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(server.log().count(LISTEN), 1);
}

#[tokio::test(start_paused = true)]
async fn repeated_and_misaddressed_notifications_are_delivered() {
    let all = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]});
    let agreeing = [
        vec![acknowledged("{id}", &all), acknowledged("{id}", &all), Step::Hang],
        vec![acknowledged("99", &all), Step::Hang],
        vec![acknowledged("\"{id}\"", &all), Step::Hang],
        vec![acknowledged("null", &all), Step::Hang],
        vec![Step::Normally, Step::Normally, Step::Normally, Step::Hang],
    ];
    for steps in agreeing {
        let what = format!("{steps:?}");
        let told_of = Step::Notify("notifications/resources/updated".into(), json!({"uri": "a://b"}));
        let script = Script::modern().any_tool("tool").on_call("tool", [changed(), told_of, Step::Text("done".into())]);
        let host = Obliging::default();
        let (session, server) = piped_with(script.on(LISTEN, steps), host.clone());
        let began = Instant::now();
        for _ in 0..3 {
            eventually(session.subscribe("a://b")).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        assert_eq!(began.elapsed(), seconds(0), "{what}");
        // Neither message names a request.
        eventually(session.call("tool", &none())).await.unwrap();
        settle().await;
        assert_eq!(host.received(), ["tools", "a://b"], "{what}");
        assert_eq!(server.log().count(LISTEN), 2, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partial_acknowledgement_is_respected() {
    for granted in [json!({}), json!({"toolsListChanged": true}), json!({"resourceSubscriptions": "a://b"}), json!(7)] {
        let (session, server) = piped(Script::modern().on(LISTEN, [acknowledged("{id}", &granted), Step::Hang]));
        let began = Instant::now();
        let error = eventually(session.subscribe("a://b")).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Unsupported(_)), "{granted}: {error}");
        assert_eq!(began.elapsed(), seconds(0), "{granted}");
        assert!(server.log().count(LISTEN) <= 3, "{granted}");
    }
    // A server may also send nothing.
    let (session, _server) = piped(Script::modern().on(LISTEN, [Step::Hang]));
    let began = Instant::now();
    let error = eventually(session.subscribe("a://b")).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
    assert_eq!(began.elapsed(), seconds(30));
}

#[tokio::test(start_paused = true)]
async fn no_stream_is_opened_without_notifications_and_its_end_wakes_subscribers() {
    let quiet = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
    let (session, server) = piped(Script::modern().on("server/discover", [Step::Result(quiet)]));
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(server.log().count(LISTEN), 0);

    let (session, server) = piped(Script::modern());
    eventually(session.connect()).await.unwrap();
    settle().await;
    eventually(session.close()).await;
    let listening = requests(&server, LISTEN);
    let cancelled = server.log().last_params("notifications/cancelled").unwrap();
    assert_eq!((listening.len(), &cancelled["requestId"]), (1, &listening[0]["id"]));
}
