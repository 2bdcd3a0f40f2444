//! Input requests: a result asks for input, and the same request is sent again with the answers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{CallErrorKind, CallOptions, InputFailure, Outcome};
use wharf_testkit::soon;

use super::{Behavior, Peer, Person, closes, expected_of_every_peer};
use crate::peers::call;
use crate::{none, result_text};

expected_of_every_peer! {
    the_host_answers_input_requests
    a_host_can_decline_an_input_request
    unsupported_input_requests_do_not_reach_the_host
    a_server_that_keeps_requesting_input_is_an_error
    the_hosts_time_does_not_count
}

async fn the_host_answers_input_requests(peer: Peer) {
    let person = Person::helpful();
    let session = peer.session(&person);
    let expected = [
        ("ask_form", "Ada 36"),
        ("ask_url", "accepted"),
        ("ask_model", "m1 says Paris"),
        ("ask_roots", "a=file:///a"),
        ("ask_all", "Ada 36; m1 says Paris; a=file:///a"),
        ("ask_twice", "one, two"),
        ("ask_again", "came back"),
    ];
    for (tool, answer) in expected {
        assert_eq!(call(&session, tool, json!({})).await, answer, "{tool}");
    }
    let form = json!(["Who are you?", null]);
    let page = json!(["Please log in.", "https://example.com/login?a=1&b=2"]);
    let words = [json!(["The first word?", null]), json!(["The second word?", null])];
    assert_eq!(person.elicitations(), [form.clone(), page, form.clone(), words[0].clone(), words[1].clone()]);

    let prompt = soon(session.get_prompt("ask", &none())).await.unwrap();
    assert!(prompt.as_str().contains("Please greet Ada 36."), "{prompt}");
    // A result that depends on input is not cached, whatever the server says: the next user may answer differently.
    for _ in 0..2 {
        let note = soon(session.read_resource("note://ask")).await.unwrap();
        assert!(note.as_str().contains("Hello Ada 36."), "{note}");
    }
    assert_eq!(person.elicitations().split_off(5), [form.clone(), form.clone(), form]);
    closes(&peer, &session).await;
}

async fn a_host_can_decline_an_input_request(peer: Peer) {
    for (behavior, answer) in [(Behavior::Declining, "declined"), (Behavior::Leaving, "cancelled")] {
        let session = peer.session(&Arc::new(Person::able(behavior)));
        assert_eq!(call(&session, "ask_form", json!({})).await, answer);
        assert_eq!(call(&session, "ask_url", json!({})).await, answer);
        let error = soon(session.call("ask_model", &none())).await.unwrap_err();
        let CallErrorKind::Input { method, reason } = &error.kind else { panic!("{error}") };
        assert_eq!(
            (method.as_str(), reason),
            ("sampling/createMessage", &InputFailure::Refused("not today".to_owned()))
        );
        assert_eq!(error.outcome(), Outcome::Unknown);
        closes(&peer, &session).await;
    }
}

async fn unsupported_input_requests_do_not_reach_the_host(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    for tool in ["ask_form", "ask_url", "ask_model", "ask_roots", "ask_all", "ask_twice", "ask_forever"] {
        let error = soon(session.call(tool, &none())).await.unwrap_err();
        let CallErrorKind::Server { code: -32021, data: Some(data), .. } = &error.kind else { panic!("{error}") };
        assert!(data.to_value().unwrap()["requiredCapabilities"].is_object(), "{data}");
    }
    assert_eq!(soon(session.get_prompt("ask", &none())).await.unwrap_err().code(), Some(-32021));
    assert_eq!(soon(session.read_resource("note://ask")).await.unwrap_err().code(), Some(-32021));
    assert_eq!(person.elicitations(), Vec::<Value>::new());
    assert_eq!(call(&session, "ask_again", json!({})).await, "came back");
    closes(&peer, &session).await;
}

async fn a_server_that_keeps_requesting_input_is_an_error(peer: Peer) {
    let person = Person::helpful();
    let session = peer.session(&person);
    let error = soon(session.call("ask_forever", &none())).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Rounds(10)), "{error}");
    assert_eq!(person.elicitations().len(), 10);
    assert_eq!(call(&session, "ask_form", json!({})).await, "Ada 36");
    closes(&peer, &session).await;
}

async fn the_hosts_time_does_not_count(peer: Peer) {
    let person = Arc::new(Person { thinks: Duration::from_millis(1100), ..Person::able(Behavior::Helpful) });
    let session = peer.session(&person);
    soon(session.connect()).await.unwrap();
    let ask = async |tool| {
        let options = CallOptions { total: Some(Duration::from_secs(1)), ..CallOptions::default() };
        result_text(soon(session.call_with(tool, &none(), options)).await)
    };
    let answers = soon(Box::pin(async { tokio::join!(ask("ask_form"), ask("task_ask")) })).await;
    assert_eq!(answers, ("Ada 36".to_owned(), "Ada 36".to_owned()));
    closes(&peer, &session).await;
}
