//! Resource subscriptions and the log level. Both are restored on every new connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;

use super::listen::listen;
use super::preferences::Preferences;
use super::sender::{Request, RequestSender};
use super::{CallOptions, Live, Session, SessionOptions};
use crate::wire::Limits;
use crate::{CallError, CallErrorKind, Deadline, LogLevel};

/// Time for a modern server to acknowledge a subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(30);

impl Session {
    /// Subscribes to changes of a resource, which arrive as [`Notification::ResourceUpdated`]. The subscription is
    /// restored on every new connection.
    ///
    /// [`Notification::ResourceUpdated`]: crate::Notification::ResourceUpdated
    pub async fn subscribe(&self, uri: &str) -> Result<(), CallError> {
        let pending = &PendingSubscription::new(&self.inner.preferences, uri);
        let work = |live: Arc<Live>| {
            async move {
                let subscribed = if live.sender.is_modern() {
                    let subscription = &live.cache.subscription;
                    // A resource that was added earlier is part of a request that was or will be sent anyway.
                    let attempts = subscription.attempts();
                    let attempts = if pending.add() { attempts } else { 0 };
                    let subscribed = subscription.wait_until_subscribed(uri, attempts);
                    let timeout = CallErrorKind::Timeout { deadline: Deadline::FirstByte, after: ACKNOWLEDGE_TIMEOUT };
                    tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, subscribed).await.unwrap_or(Err(timeout))
                } else {
                    self.resource_request(&live, "resources/subscribe", uri).await
                };
                subscribed.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.with_session(work).await?;
        pending.keep();
        Ok(())
    }

    /// Ends a subscription.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        self.inner.preferences.remove_resource(uri);
        let work = |live: Arc<Live>| {
            async move {
                if live.sender.is_modern() {
                    // A server that does not acknowledge the change sends no notifications either.
                    let unsubscribed = live.cache.subscription.wait_until_unsubscribed(uri);
                    let _ = tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, unsubscribed).await;
                    return Ok(());
                }
                let sent = self.resource_request(&live, "resources/unsubscribe", uri).await;
                sent.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.with_session(work).await
    }

    /// Sets the minimum level of the server's log messages, on this connection and every later one.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), CallError> {
        let work = |live: Arc<Live>| {
            async move {
                if live.sender.is_modern() {
                    return Ok(());
                }
                let params = json!({ "level": level });
                let mut request = Request::new("logging/setLevel", &params, self.inner.limits(&CallOptions::default()));
                let sent = live.sender.send(&mut request, None).await;
                sent.map(drop).map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.with_session(work).await?;
        self.inner.preferences.set_log_level(level);
        Ok(())
    }

    async fn resource_request(&self, live: &Live, method: &'static str, uri: &str) -> Result<(), CallErrorKind> {
        let params = json!({ "uri": uri });
        let mut request = Request::new(method, &params, self.inner.limits(&CallOptions::default()));
        live.sender.send(&mut request, None).await.map(drop)
    }
}

/// A subscription that is removed again unless it succeeds.
struct PendingSubscription<'a> {
    preferences: &'a Preferences,
    uri: &'a str,
    added: AtomicBool,
}

impl<'a> PendingSubscription<'a> {
    fn new(preferences: &'a Preferences, uri: &'a str) -> Self {
        Self { preferences, uri, added: AtomicBool::new(false) }
    }

    /// Adds the resource; returns `false` if it was already present.
    fn add(&self) -> bool {
        let added = self.preferences.add_resource(self.uri);
        self.added.fetch_or(added, Ordering::Relaxed);
        added
    }

    fn keep(&self) {
        self.preferences.add_resource(self.uri);
        self.added.store(false, Ordering::Relaxed);
    }
}

impl Drop for PendingSubscription<'_> {
    fn drop(&mut self) {
        if self.added.load(Ordering::Relaxed) {
            self.preferences.remove_resource(self.uri);
        }
    }
}

impl Live {
    /// Spawns the tasks that run beside calls for as long as the connection lives.
    pub(super) fn spawn_background_tasks(&self, options: &SessionOptions) {
        let mut background = self.background();
        let sender = self.sender.clone();
        if sender.is_modern() {
            background.spawn(listen(sender, Arc::clone(&self.cache), self.info.capabilities.clone()));
        } else {
            background.spawn(restore_preferences(sender, options.deadlines.first_byte));
        }
    }
}

/// Restores the log level and the subscriptions on a new connection.
async fn restore_preferences(sender: RequestSender, limit: Duration) {
    let level = sender.preferences.log_level().map(|level| ("logging/setLevel", json!({ "level": level })));
    let resources = sender.preferences.resources().borrow().clone();
    let resources = resources.into_iter().map(|uri| ("resources/subscribe", json!({ "uri": uri })));
    for (method, params) in level.into_iter().chain(resources) {
        let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
        if let Err(error) = sender.send(&mut Request::new(method, &params, limits), None).await {
            tracing::warn!(method, %error, "cannot restore a setting on the new connection");
        }
    }
}
