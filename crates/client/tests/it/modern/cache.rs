//! Cacheable results: requested once until they change, and not visible to other users.

use std::sync::Arc;

use serde_json::json;
use wharf_client::{ResultCache, Session, SessionOptions};
use wharf_testkit::{soon, until};

use super::{Peer, Person, closes, expected_of_every_peer, expected_over_http};
use crate::peers::call;

expected_of_every_peer! {
    a_list_is_cached_until_it_changes_or_is_cleared
    a_resource_is_cached_until_it_changes_or_is_cleared
}

expected_over_http! {
    public_results_are_shared_between_users_and_private_ones_are_not
}

const NOTE: &str = "note://hello";

/// How often the tools and a resource were requested.
async fn request_counts(session: &Session) -> (u32, u32) {
    let count = async |tool| call(session, tool, json!({})).await.parse().unwrap();
    (count("list_count").await, count("read_count").await)
}

async fn list(session: &Session) {
    assert!(soon(session.list_tools()).await.unwrap().items.len() > 20);
}

async fn read(session: &Session) {
    assert!(soon(session.read_resource(NOTE)).await.unwrap().as_str().contains("Hello from the note."));
}

async fn a_list_is_cached_until_it_changes_or_is_cleared(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe(NOTE)).await.unwrap();
    for _ in 0..3 {
        list(&session).await;
    }
    assert_eq!(request_counts(&session).await.0, 1);
    assert_eq!(call(&session, "grow", json!({"name": "grown"})).await, "grew grown");
    until(async || person.tools_changed() == 1).await;
    for _ in 0..2 {
        list(&session).await;
    }
    assert_eq!(request_counts(&session).await.0, 2);
    // A changed resource does not invalidate the tools.
    assert_eq!(call(&session, "touch", json!({"uri": NOTE})).await, format!("touched {NOTE}"));
    until(async || person.updates(NOTE) == 1).await;
    list(&session).await;
    assert_eq!(request_counts(&session).await.0, 2);
    session.clear_cache();
    list(&session).await;
    assert_eq!(request_counts(&session).await.0, 3);
    closes(&peer, &session).await;
}

async fn a_resource_is_cached_until_it_changes_or_is_cleared(peer: Peer) {
    let person = Person::listening();
    let session = peer.session(&person);
    soon(session.subscribe(NOTE)).await.unwrap();
    for _ in 0..3 {
        read(&session).await;
    }
    assert_eq!(request_counts(&session).await.1, 1);
    assert_eq!(call(&session, "touch", json!({"uri": NOTE})).await, format!("touched {NOTE}"));
    until(async || person.updates(NOTE) == 1).await;
    for _ in 0..2 {
        read(&session).await;
    }
    assert_eq!(request_counts(&session).await.1, 2);
    session.clear_cache();
    read(&session).await;
    assert_eq!(request_counts(&session).await, (0, 3));
    closes(&peer, &session).await;
}

async fn public_results_are_shared_between_users_and_private_ones_are_not(peer: Peer) {
    let cache = Arc::new(ResultCache::default());
    let user = |token: &str| {
        let options = SessionOptions { cache: Arc::clone(&cache), ..SessionOptions::default() };
        peer.session_with(&Person::listening(), &[("Authorization", token)], options)
    };
    let [ann, bob, ann_again] = ["Bearer ann", "Bearer bob", "Bearer ann"].map(user);
    for session in [&ann, &bob, &ann_again] {
        list(session).await;
        read(session).await;
    }
    // One list for all, and one note for each of the two.
    assert_eq!(request_counts(&ann).await, (1, 2));
    bob.clear_cache();
    for session in [&ann, &bob] {
        list(session).await;
    }
    assert_eq!(request_counts(&ann).await.0, 2);
    for session in [&ann, &bob, &ann_again] {
        closes(&peer, session).await;
    }
}
