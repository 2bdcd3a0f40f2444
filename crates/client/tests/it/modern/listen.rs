//! What the server tells unasked: asked for once, heard for as long as the session lives, whatever becomes of the server.

use std::sync::Arc;

use serde_json::json;
use wharf_client::Session;
use wharf_testkit::{soon, until};

use super::{Peer, Person, closes, expected_of_every_peer};
use crate::peers::call;

expected_of_every_peer! {
    a_tool_that_has_grown_is_heard_of_and_listed_although_the_list_was_kept
    a_resource_is_heard_of_until_that_is_taken_back
    a_server_that_hangs_up_is_listened_to_again
    a_server_that_was_killed_is_listened_to_again
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

/// Touches a resource until that is heard of: nobody is told when exactly the server listens to us again.
async fn is_heard(session: &Session, person: &Arc<Person>, uri: &str) {
    let before = person.updates(uri);
    until(async || {
        touch(session, uri).await;
        person.updates(uri) > before
    })
    .await;
}

async fn a_tool_that_has_grown_is_heard_of_and_listed_although_the_list_was_kept(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    // What is agreed about resources is agreed about lists too; from here on nothing is missed.
    soon(session.subscribe(NOTE)).await.unwrap();
    assert!(!has(&session, "grown").await);
    grow(&session, "grown").await;
    until(async || person.tools_changed() == 1).await;
    assert!(has(&session, "grown").await);
    assert_eq!(call(&session, "grown", json!({"text": "hi"})).await, "hi");
    closes(&peer, &session).await;
}

async fn a_resource_is_heard_of_until_that_is_taken_back(peer: Peer) {
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
    // What comes after it has come shows that it will not come.
    touch(&session, "note://ask").await;
    until(async || person.updates("note://ask") == 1).await;
    assert_eq!(person.updates(NOTE), 1);
    closes(&peer, &session).await;
}

async fn a_server_that_hangs_up_is_listened_to_again(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe(NOTE)).await.unwrap();
    assert!(!has(&session, "grown").await);
    assert_eq!(call(&session, "hang_up", json!({})).await, "hung up");
    // Nobody hears of this one as it happens; it is told of when the server is listened to again.
    grow(&session, "grown").await;
    until(async || person.tools_changed() >= 1 && person.updates(NOTE) >= 1).await;
    assert!(has(&session, "grown").await);
    is_heard(&session, &person, NOTE).await;
    assert_eq!(session.health().connections, 1);
    closes(&peer, &session).await;
}

async fn a_server_that_was_killed_is_listened_to_again(mut peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe(NOTE)).await.unwrap();
    grow(&session, "grown").await;
    until(async || person.tools_changed() == 1).await;
    assert!(has(&session, "grown").await);
    peer.restart().await;
    if !peer.is_http() {
        // A process that is gone is started again when it is needed, and not before.
        until(async || !session.is_connected()).await;
        soon(session.connect()).await.unwrap();
    }
    // The new server does not know what the old one had grown, and the host is told to look.
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
