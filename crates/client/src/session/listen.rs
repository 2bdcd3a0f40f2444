//! Keeps the notification stream of a modern server open: one long `subscriptions/listen` request, sent again when it
//! ends and when the host subscribes to other resources.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::time::Instant;
use wharf_protocol::Json;

use super::sender::{Request, RequestSender};
use super::server_cache::ServerCache;
use super::subscription::NotificationFilter;
use crate::era::METHOD_NOT_FOUND;
use crate::transport::ReconnectBackoff;
use crate::wire::{Limits, NEVER};
use crate::{CallErrorKind, ConnectErrorKind};

/// Time for the first byte of the answer.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the acknowledgement.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(60);

type ListenFuture = BoxFuture<'static, Result<Json, CallErrorKind>>;

/// Closes the subscription however the task ends, so that waiting callers are woken.
struct CloseOnDrop(Arc<ServerCache>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.subscription.close();
    }
}

/// Listens for as long as the connection lives.
pub(super) async fn listen(sender: RequestSender, cache: Arc<ServerCache>, capabilities: Json) {
    let _close = CloseOnDrop(Arc::clone(&cache));
    let subscription = &cache.subscription;
    let mut resources = sender.preferences.resources();
    let mut backoff = ReconnectBackoff::unlimited();
    // The previous stream, read until its replacement is acknowledged.
    let mut previous: Option<ListenFuture> = None;
    // The resources that the server refused. Until they change, only list changes are requested.
    let mut refused = None;
    loop {
        let subscribed = resources.borrow_and_update().clone();
        let lists_only = refused.as_ref() == Some(&subscribed);
        let requested = if lists_only { BTreeSet::new() } else { subscribed.clone() };
        let filter = NotificationFilter::new(&capabilities, requested);
        if filter.is_empty() {
            previous = None;
            subscription.clear();
            if resources.changed().await.is_err() {
                return;
            }
            continue;
        }
        let acknowledgements = subscription.begin_request(&filter);
        let opened_at = Instant::now();
        let mut listening = request(sender.clone(), Arc::clone(&cache), filter);
        let ended = tokio::select! {
            biased;
            () = subscription.wait_for_acknowledgement(acknowledgements) => None,
            ended = &mut listening => Some(ended),
            // The subscriptions changed before this request was acknowledged.
            changed = resources.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            () = tokio::time::sleep(ACKNOWLEDGE_TIMEOUT) => {
                Some(Err(CallErrorKind::Lost("did not acknowledge the request in time".to_owned())))
            }
            () = read_previous(&mut previous) => None,
        };
        previous = None;
        let ended = if let Some(ended) = ended {
            ended
        } else {
            tokio::select! {
                ended = &mut listening => ended,
                changed = resources.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    previous = Some(listening);
                    continue;
                }
            }
        };
        drop(listening);
        if sender.handle.ending().is_some() {
            return;
        }
        subscription.mark_gap();
        let delay = if is_retryable(&ended) { backoff.next_delay(opened_at.elapsed(), false, None) } else { None };
        let changed = if let Some(delay) = delay {
            tokio::time::timeout(delay, resources.changed()).await.unwrap_or(Ok(()))
        } else {
            let is_unknown_method = matches!(ended, Err(CallErrorKind::Server { code: METHOD_NOT_FOUND, .. }));
            subscription.refuse(ended.map_or_else(|error| error.to_string(), |_| String::new()));
            if is_unknown_method {
                return;
            }
            if !lists_only && !subscribed.is_empty() {
                refused = Some(subscribed);
                continue;
            }
            resources.changed().await
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Reads the previous stream while its replacement is pending. Never returns.
async fn read_previous(previous: &mut Option<ListenFuture>) {
    if let Some(listening) = previous {
        let _ = listening.await;
    }
    *previous = None;
    std::future::pending::<()>().await;
}

fn request(sender: RequestSender, cache: Arc<ServerCache>, filter: NotificationFilter) -> ListenFuture {
    #[derive(Serialize)]
    struct Params {
        notifications: NotificationFilter,
    }
    async move {
        let params = Params { notifications: filter };
        let limits = Limits { idle: NEVER, total: None, first_byte: FIRST_BYTE_TIMEOUT };
        let mut request = Request::new("subscriptions/listen", &params, limits);
        request.id = Some(&cache.subscription.latest_request);
        sender.send(&mut request, None).await
    }
    .boxed()
}

/// Whether a stream that ended like this may work later.
fn is_retryable(ended: &Result<Json, CallErrorKind>) -> bool {
    match ended {
        Ok(_)
        | Err(
            CallErrorKind::Lost(_)
            | CallErrorKind::Malformed(_)
            | CallErrorKind::Unanswered(_)
            | CallErrorKind::Timeout { .. }
            | CallErrorKind::Busy
            | CallErrorKind::Connect(ConnectErrorKind::Transport(_)),
        ) => true,
        Err(CallErrorKind::Http(status)) => status.status >= 500 || status.status == 429,
        Err(_) => false,
    }
}
