//! Arguments that a tool wants in headers, over HTTP; over stdio there are none, and nothing to be wrong about them.

use futures_util::future::join_all;
use serde_json::{Value, json};
use wharf_protocol::Json;
use wharf_testkit::soon;

use super::{Peer, Person, closes, expected_of_every_peer, expected_over_http};
use crate::peers::call;
use crate::{json as to_json, told};

expected_of_every_peer! {
    a_tool_whose_headers_make_no_sense_is_set_aside_where_there_are_headers
}

expected_over_http! {
    arguments_are_said_in_headers_as_the_tool_asks
    a_tool_that_was_never_listed_gets_its_headers_too
    many_who_call_it_at_once_get_them_by_one_list
}

async fn arguments_are_said_in_headers_as_the_tool_asks(peer: Peer) {
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
        assert_eq!(said(&session, arguments).await, headers, "{arguments}");
    }
    // The same number, however it is written.
    for arguments in [r#"{"count": 42.0}"#, r#"{"count": 1e3}"#, r#"{"count": -0}"#] {
        assert!(said(&session, arguments).await["count"].is_string(), "{arguments}");
    }
    // A request that the host makes by itself is no other.
    let params = json!({"name": "headers", "arguments": {"region": "here"}});
    let result = soon(session.request("tools/call", &params)).await.unwrap();
    assert!(result.as_str().contains("mcp-param-region"), "{result}");
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    closes(&peer, &session).await;
}

/// The headers that came with a call, by what follows `mcp-param-` in their names.
async fn said(session: &wharf_client::Session, arguments: &str) -> Value {
    let arguments = Json::parse(arguments.to_owned()).unwrap();
    let text = told(soon(session.call("headers", &arguments)).await);
    let came: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments}: {text}"));
    let came = came.as_object().unwrap().iter();
    came.map(|(name, value)| (name.replace("mcp-param-", ""), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

async fn a_tool_that_was_never_listed_gets_its_headers_too(peer: Peer) {
    let session = peer.session(&Person::listening());
    assert_eq!(said(&session, r#"{"region": "here"}"#).await, json!({"region": "here"}));
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    assert_eq!(said(&session, r#"{"region": "there"}"#).await, json!({"region": "there"}));
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    closes(&peer, &session).await;
}

async fn many_who_call_it_at_once_get_them_by_one_list(peer: Peer) {
    let session = peer.session(&Person::listening());
    soon(session.connect()).await.unwrap();
    let calls = (0..20).map(|number| {
        let session = &session;
        async move {
            let said = said(session, &format!(r#"{{"region": "{number}"}}"#)).await;
            assert_eq!(said, json!({"region": number.to_string()}));
        }
    });
    join_all(calls).await;
    assert_eq!(call(&session, "list_count", json!({})).await, "1");
    closes(&peer, &session).await;
}

async fn a_tool_whose_headers_make_no_sense_is_set_aside_where_there_are_headers(peer: Peer) {
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
            "has `x-mcp-header` at `a`, which is no string, integer or boolean",
            "has a `x-mcp-header` at `a` that is no name of a header",
            "has the `x-mcp-header` of `b` a second time",
            "has `x-mcp-header` where no value can be found by properties alone",
        ];
        assert_eq!(aside, bad.into_iter().zip(reasons).collect::<Vec<_>>());
        assert!(listed.items.iter().all(|tool| !bad.contains(&&*tool.name)));
    } else {
        assert_eq!(aside, []);
        for (name, arguments) in bad.into_iter().zip([json!({"a": 1.5}), json!({"a": "x"}), json!({}), json!({})]) {
            assert_eq!(told(soon(session.call(name, &to_json(arguments))).await), "{}", "{name}");
        }
    }
    closes(&peer, &session).await;
}
