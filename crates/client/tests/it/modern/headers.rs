//! Arguments in headers, over HTTP. Over stdio there are no headers, and invalid annotations do not matter.

use futures_util::future::join_all;
use serde_json::{Value, json};
use wharf_protocol::Json;
use wharf_testkit::soon;

use super::{Peer, Person, closes, expected_of_every_peer, expected_over_http};
use crate::peers::call;
use crate::{json as to_json, result_text};

expected_of_every_peer! {
    a_tool_with_invalid_header_annotations_is_quarantined_over_http
}

expected_over_http! {
    annotated_arguments_are_sent_in_headers
    a_tool_that_was_never_listed_gets_its_headers
    concurrent_callers_share_one_list_for_headers
}

async fn annotated_arguments_are_sent_in_headers(peer: Peer) {
    let session = peer.session(&Person::listening());
    soon(session.list_tools()).await.unwrap();
    let expected = [
        (
            r#"{"region": "eu-west 1", "count": 42, "urgent": true, "room": {"city": "Paris", "floor": 3}, "plain": "x"}"#,
            json!({"region": "eu-west 1", "count": "42", "urgent": "true", "city": "Paris"}),
        ),
        (r#"{"region": null, "count": null, "room": {"floor": 3}}"#, json!({})),
        ("{}", json!({})),
        (r#"{"urgent": false, "count": -7, "room": {}}"#, json!({"urgent": "false", "count": "-7"})),
        (r#"{"region": ""}"#, json!({"region": ""})),
        (r#"{"region": "Zürich 🚢"}"#, json!({"region": "=?base64?WsO8cmljaCDwn5qi?="})),
        (r#"{"region": " a"}"#, json!({"region": "=?base64?IGE=?="})),
        (r#"{"region": "a "}"#, json!({"region": "=?base64?YSA=?="})),
        (r#"{"region": "a\tb\r\nc: d"}"#, json!({"region": "=?base64?YQliDQpjOiBk?="})),
        (r#"{"region": "=?base64?eA==?="}"#, json!({"region": "=?base64?PT9iYXNlNjQ/ZUE9PT89?="})),
        (r#"{"region": "\u0041\/\"\\"}"#, json!({"region": r#"A/"\"#})),
        (r#"{"count": 9007199254740993}"#, json!({"count": "9007199254740993"})),
    ];
    for (arguments, headers) in expected {
        assert_eq!(headers_of(&session, arguments).await, headers, "{arguments}");
    }
    // The same number, however it is written.
    for arguments in [r#"{"count": 42.0}"#, r#"{"count": 1e3}"#, r#"{"count": -0}"#] {
        assert!(headers_of(&session, arguments).await["count"].is_string(), "{arguments}");
    }
    // A raw request gets the headers too.
    let params = json!({"name": "headers", "arguments": {"region": "here"}});
    let result = soon(session.request("tools/call", &params)).await.unwrap();
    assert!(result.as_str().contains("mcp-param-region"), "{result}");
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    closes(&peer, &session).await;
}

/// The headers of a call, by the part of their names after `mcp-param-`.
async fn headers_of(session: &wharf_client::Session, arguments: &str) -> Value {
    let arguments = Json::parse(arguments.to_owned()).unwrap();
    let text = result_text(soon(session.call("headers", &arguments)).await);
    let came: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments}: {text}"));
    let came = came.as_object().unwrap().iter();
    came.map(|(name, value)| (name.replace("mcp-param-", ""), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

async fn a_tool_that_was_never_listed_gets_its_headers(peer: Peer) {
    let session = peer.session(&Person::listening());
    assert_eq!(headers_of(&session, r#"{"region": "here"}"#).await, json!({"region": "here"}));
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    assert_eq!(headers_of(&session, r#"{"region": "there"}"#).await, json!({"region": "there"}));
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    closes(&peer, &session).await;
}

async fn concurrent_callers_share_one_list_for_headers(peer: Peer) {
    let session = peer.session(&Person::listening());
    soon(session.connect()).await.unwrap();
    let calls = (0..20).map(|number| {
        let session = &session;
        async move {
            let sent = headers_of(session, &format!(r#"{{"region": "{number}"}}"#)).await;
            assert_eq!(sent, json!({"region": number.to_string()}));
        }
    });
    join_all(calls).await;
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    closes(&peer, &session).await;
}

async fn a_tool_with_invalid_header_annotations_is_quarantined_over_http(peer: Peer) {
    let session = peer.session(&Person::listening());
    let listed = soon(session.list_tools()).await.unwrap();
    let aside: Vec<_> = listed
        .quarantined
        .iter()
        .map(|tool| (tool.name.as_deref().unwrap_or_default(), tool.reason.as_str()))
        .collect();
    let bad = ["bad_header_type", "bad_header_name", "bad_header_twice", "bad_header_place"];
    if peer.is_http() {
        let reasons = [
            "has `x-mcp-header` at `a`, which is not a string, integer or boolean",
            "has an `x-mcp-header` at `a` that is not a valid header name",
            "has the `x-mcp-header` of `b` twice",
            "has `x-mcp-header` in a schema that is not a plain property",
        ];
        assert_eq!(aside, bad.into_iter().zip(reasons).collect::<Vec<_>>());
        assert!(listed.items.iter().all(|tool| !bad.contains(&&*tool.name)));
    } else {
        assert_eq!(aside, []);
        for (name, arguments) in bad.into_iter().zip([json!({"a": 1.5}), json!({"a": "x"}), json!({}), json!({})]) {
            assert_eq!(result_text(soon(session.call(name, &to_json(arguments))).await), "{}", "{name}");
        }
    }
    closes(&peer, &session).await;
}
