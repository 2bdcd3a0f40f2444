//! What a host wants of a server for as long as it uses it, on this connection and on those after it: word of resources
//! that change, and how much to log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;

use super::following::follow;
use super::manner::{Request, Speaker, Wishes};
use super::{CallOptions, Live, Session, SessionOptions};
use crate::wire::Limits;
use crate::{CallError, CallErrorKind, Deadline, LogLevel};

/// How long a server may take to agree, where there is no answer that would say so.
const AGREEMENT: Duration = Duration::from_secs(30);

impl Session {
    /// Asks to be told when a resource changes; [`crate::Notice::ResourceUpdated`] tells. The server is asked again by
    /// itself when the connection had to be made anew.
    pub async fn subscribe(&self, uri: &str) -> Result<(), CallError> {
        let wish = &Wish::new(&self.inner.wishes, uri);
        let work = |live: Arc<Live>| {
            async move {
                let subscribed = if live.speaker.is_modern() {
                    let followed = &live.beliefs.followed;
                    // What was wished before has been asked for, or is about to be.
                    let before = followed.tries();
                    let tries = if wish.add() { before } else { 0 };
                    let covered = tokio::time::timeout(AGREEMENT, followed.covers(uri, tries)).await;
                    let late = CallErrorKind::Timeout { deadline: Deadline::FirstByte, after: AGREEMENT };
                    covered.unwrap_or(Err(late))
                } else {
                    self.about_resource(&live, "resources/subscribe", uri).await
                };
                subscribed.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.in_session(work).await?;
        wish.keep();
        Ok(())
    }

    /// Takes that back.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        self.inner.wishes.remove_resource(uri);
        let work = |live: Arc<Live>| {
            async move {
                if live.speaker.is_modern() {
                    // A server that does not answer does not tell of anything either.
                    let _ = tokio::time::timeout(AGREEMENT, live.beliefs.followed.spares(uri)).await;
                    return Ok(());
                }
                let told = self.about_resource(&live, "resources/unsubscribe", uri).await;
                told.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.in_session(work).await
    }

    /// Tells the server how much to log, on this connection and those after it.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), CallError> {
        let work = |live: Arc<Live>| {
            async move {
                if live.speaker.is_modern() {
                    return Ok(());
                }
                let (params, limits) = (json!({ "level": level }), self.inner.limits(&CallOptions::default()));
                let mut request = Request::new("logging/setLevel", &params, limits);
                let told = live.speaker.send(&mut request, None).await;
                told.map(drop).map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.in_session(work).await?;
        self.inner.wishes.set_log_level(level);
        Ok(())
    }

    async fn about_resource(&self, live: &Live, method: &'static str, uri: &str) -> Result<(), CallErrorKind> {
        let (params, limits) = (json!({ "uri": uri }), self.inner.limits(&CallOptions::default()));
        live.speaker.send(&mut Request::new(method, &params, limits), None).await.map(drop)
    }
}

/// A wish that is taken back if it does not come true.
struct Wish<'a> {
    wishes: &'a Wishes,
    uri: &'a str,
    added: AtomicBool,
}

impl<'a> Wish<'a> {
    fn new(wishes: &'a Wishes, uri: &'a str) -> Self {
        Self { wishes, uri, added: AtomicBool::new(false) }
    }

    /// `false` if it had been wished before.
    fn add(&self) -> bool {
        let added = self.wishes.add_resource(self.uri);
        self.added.fetch_or(added, Ordering::Relaxed);
        added
    }

    fn keep(&self) {
        self.wishes.add_resource(self.uri);
        self.added.store(false, Ordering::Relaxed);
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if self.added.load(Ordering::Relaxed) {
            self.wishes.remove_resource(self.uri);
        }
    }
}

impl Live {
    /// Does what has to be done besides calls, for as long as the connection lives.
    pub(super) fn follow_up(&self, options: &SessionOptions) {
        let mut beside = self.beside();
        if self.speaker.is_modern() {
            let (speaker, beliefs) = (self.speaker.clone(), Arc::clone(&self.beliefs));
            beside.spawn(follow(speaker, beliefs, self.info.capabilities.clone()));
        } else {
            beside.spawn(wish_again(self.speaker.clone(), options.deadlines.first_byte));
        }
    }
}

/// Tells a server on a new connection what the one before was told.
async fn wish_again(speaker: Speaker, limit: Duration) {
    let (level, resources) = (speaker.wishes.log_level(), speaker.wishes.resources().borrow().clone());
    let level = level.map(|level| ("logging/setLevel", json!({ "level": level })));
    let resources = resources.into_iter().map(|uri| ("resources/subscribe", json!({ "uri": uri })));
    for (method, params) in level.into_iter().chain(resources) {
        let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
        if let Err(error) = speaker.send(&mut Request::new(method, &params, limits), None).await {
            tracing::warn!(method, %error, "a server that was connected anew does not do what it did before");
        }
    }
}
