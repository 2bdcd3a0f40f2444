//! Notifications: requested once, and received for as long as the session lives, even if the server restarts.

use std::sync::Arc;

use serde_json::json;
use wharf_client::Session;
use wharf_testkit::{soon, until};

use super::{Peer, Person, closes, expected_of_every_peer};
use crate::peers::call;

expected_of_every_peer! {
    a_new_tool_is_notified_and_listed_although_the_list_was_cached
    resource_updates_arrive_until_unsubscribed
    listening_resumes_after_a_disconnect
    listening_resumes_after_the_server_was_killed
}

const NOTE: &str = "note://hello";

async fn grow(session: &Session, name: &str) {
    assert_eq!(call(session, "grow", json!({"name": name})).await, format!("grew {name}"));
}

async fn touch(session: &Session, uri: &str) {
    assert_eq!(call(session, "touch", json!({"uri": uri})).await, format!("touched {uri}"));
}

/// Whether a tool is listed.
async fn has(session: &Session, name: &str) -> bool {
    soon(session.list_tools()).await.unwrap().items.iter().any(|tool| &*tool.name == name)
}

/// Touches a resource until its update arrives: the client does not report when the server is listening again.
async fn is_heard(session: &Session, person: &Arc<Person>, uri: &str) {
    let before = person.updates(uri);
    until(async || {
        touch(session, uri).await;
        person.updates(uri) > before
    })
    .await;
}

async fn a_new_tool_is_notified_and_listed_although_the_list_was_cached(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    // Resources and lists are acknowledged together, so that nothing is missed from here on.
    soon(session.subscribe(NOTE)).await.unwrap();
    assert!(!has(&session, "grown").await);
    grow(&session, "grown").await;
    until(async || person.tools_changed() == 1).await;
    assert!(has(&session, "grown").await);
    assert_eq!(call(&session, "grown", json!({"text": "hi"})).await, "hi");
    closes(&peer, &session).await;
}

async fn resource_updates_arrive_until_unsubscribed(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.connect()).await.unwrap();
    touch(&session, NOTE).await;
    soon(session.subscribe(NOTE)).await.unwrap();
    soon(session.subscribe("note://ask")).await.unwrap();
    touch(&session, NOTE).await;
    until(async || person.updates(NOTE) == 1).await;
    soon(session.unsubscribe(NOTE)).await.unwrap();
    touch(&session, NOTE).await;
    // A later notification shows that this one will not arrive.
    touch(&session, "note://ask").await;
    until(async || person.updates("note://ask") == 1).await;
    assert_eq!(person.updates(NOTE), 1);
    closes(&peer, &session).await;
}

async fn listening_resumes_after_a_disconnect(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe(NOTE)).await.unwrap();
    assert!(!has(&session, "grown").await);
    assert_eq!(call(&session, "hang_up", json!({})).await, "hung up");
    // This change is missed as it happens, and reported when listening resumes.
    grow(&session, "grown").await;
    until(async || person.tools_changed() >= 1 && person.updates(NOTE) >= 1).await;
    assert!(has(&session, "grown").await);
    is_heard(&session, &person, NOTE).await;
    assert_eq!(session.health().connections, 1);
    closes(&peer, &session).await;
}

async fn listening_resumes_after_the_server_was_killed(mut peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe(NOTE)).await.unwrap();
    grow(&session, "grown").await;
    until(async || person.tools_changed() == 1).await;
    assert!(has(&session, "grown").await);
    peer.restart().await;
    if !peer.is_http() {
        // A dead process is restarted when it is needed, and not before.
        until(async || !session.is_connected()).await;
        soon(session.connect()).await.unwrap();
    }
    // The new server does not have the old one's tools, and the host is notified to list again.
    until(async || person.tools_changed() >= 2 && person.updates(NOTE) >= 1).await;
    assert!(!has(&session, "grown").await);
    is_heard(&session, &person, NOTE).await;
    let before = person.tools_changed();
    grow(&session, "again").await;
    until(async || person.tools_changed() > before).await;
    assert!(has(&session, "again").await);
    assert_eq!(session.health().connections, if peer.is_http() { 1 } else { 2 });
    closes(&peer, &session).await;
}
