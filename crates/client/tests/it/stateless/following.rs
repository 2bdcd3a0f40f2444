//! Word of changes, from servers that refuse it, take it back, or say it to nobody.

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_client::CallErrorKind;
use wharf_testkit::{HttpScripted, Script, Step, eventually};

use super::{Obliging, asked, http, modern, piped, piped_with};
use crate::remote::{http_with, in_memory, options};
use crate::{json, none, seconds, settle, told};

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
async fn a_server_that_refuses_to_tell_is_asked_once() {
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
        // Whoever wants to hear of a resource is told at once that nobody tells.
        let began = Instant::now();
        let error = eventually(session.subscribe("a://b")).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Unsupported(_)), "{error}");
        assert_eq!(began.elapsed(), seconds(0));
        // One that has never heard of it is not asked even then; the others may have changed their minds.
        settle().await;
        // With the resource, without it, and again when it is no longer wanted.
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
async fn a_stream_that_keeps_ending_is_opened_less_and_less_often() {
    let end = || Step::Result(json!({"resultType": "complete"}));
    let streams = [
        // At once, after it was acknowledged, and after something was said on it.
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
        assert_eq!(told(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    }
    // Where it lives for a while it is opened again without end, and soon.
    let script = Script::modern().on(LISTEN, [Step::Normally, Step::Wait(55_000), end()]);
    let (session, server) = piped(script);
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(3600)).await;
    assert!((60..=65).contains(&server.log().count(LISTEN)), "{}", server.log().count(LISTEN));
}

#[tokio::test(start_paused = true)]
async fn over_http_too_and_what_was_missed_meanwhile_is_doubted() {
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
        // Every gap may have hidden a change; where nobody was heard between two of them they are one.
        let heard = host.heard().len();
        assert!(if lived == 0 { (1..=3).contains(&heard) } else { heard == 3 }, "{what}: {heard}");
        server.push(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
        settle().await;
        assert_eq!(host.heard().len(), heard + 1, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_refused_for_now_is_tried_again() {
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
async fn what_is_said_twice_or_to_another_or_to_nobody_is_heard_all_the_same() {
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
        // Neither word bears anybody's name.
        eventually(session.call("tool", &none())).await.unwrap();
        settle().await;
        assert_eq!(host.heard(), ["tools", "a://b"], "{what}");
        assert_eq!(server.log().count(LISTEN), 2, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_agrees_to_less_or_to_nothing_is_believed() {
    for granted in [json!({}), json!({"toolsListChanged": true}), json!({"resourceSubscriptions": "a://b"}), json!(7)] {
        let (session, server) = piped(Script::modern().on(LISTEN, [acknowledged("{id}", &granted), Step::Hang]));
        let began = Instant::now();
        let error = eventually(session.subscribe("a://b")).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Unsupported(_)), "{granted}: {error}");
        assert_eq!(began.elapsed(), seconds(0), "{granted}");
        assert!(server.log().count(LISTEN) <= 3, "{granted}");
    }
    // Or that says nothing at all.
    let (session, _server) = piped(Script::modern().on(LISTEN, [Step::Hang]));
    let began = Instant::now();
    let error = eventually(session.subscribe("a://b")).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Timeout { .. }), "{error}");
    assert_eq!(began.elapsed(), seconds(30));
}

#[tokio::test(start_paused = true)]
async fn nobody_listens_where_there_is_nothing_to_hear_and_the_end_is_told() {
    let quiet = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
    let (session, server) = piped(Script::modern().on("server/discover", [Step::Result(quiet)]));
    eventually(session.connect()).await.unwrap();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(server.log().count(LISTEN), 0);

    let (session, server) = piped(Script::modern());
    eventually(session.connect()).await.unwrap();
    settle().await;
    eventually(session.close()).await;
    let listening = asked(&server, LISTEN);
    let cancelled = server.log().last_params("notifications/cancelled").unwrap();
    assert_eq!((listening.len(), &cancelled["requestId"]), (1, &listening[0]["id"]));
}
