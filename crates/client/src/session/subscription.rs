//! The state of a modern server's notification stream: what was requested, and what the server acknowledged.
//!
//! A modern server sends notifications only as the answer to a long `subscriptions/listen` request. The task in
//! `listen.rs` sends it; this file holds its state.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::sync::watch;
use wharf_protocol::{Fields, Json};

use crate::{CallErrorKind, Notification};

/// The notification stream of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    state: watch::Sender<State>,
    /// The id of the latest `subscriptions/listen` request.
    pub(super) latest_request: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Whether a request is in flight that the server could acknowledge.
    open: bool,
    /// Whether notifications may have been missed since the last acknowledgement.
    missed_events: bool,
    /// The last acknowledged request. Notifications of earlier ones are stale.
    acknowledged_request: u64,
    /// How many requests were sent.
    attempts: u64,
    /// How many acknowledgements were received.
    acknowledgements: u64,
    /// The filter of the latest request.
    pending: NotificationFilter,
    /// The filter of the last acknowledged request.
    requested: NotificationFilter,
    /// What the server granted of it.
    granted: NotificationFilter,
    refused: Option<Refusal>,
    /// The connection no longer listens.
    closed: bool,
}

/// Why the server is no longer asked for resource notifications.
#[derive(Clone, Debug)]
struct Refusal {
    /// The number of attempts at that time.
    attempts: u64,
    reason: String,
}

/// The notifications that a `subscriptions/listen` request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotificationFilter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl NotificationFilter {
    /// Asks for every list change that the server announces in its capabilities, and for these resources.
    pub(super) fn new(capabilities: &Json, resources: BTreeSet<String>) -> Self {
        let all = Fields::of(capabilities).ok();
        let announces = |kind: &str| {
            let one = all.as_ref().and_then(|all| all.object(kind).ok().flatten());
            one.is_some_and(|one| Fields::of(&one).ok().and_then(|one| one.flag("listChanged").ok()?).unwrap_or(false))
        };
        Self {
            tools_list_changed: announces("tools"),
            prompts_list_changed: announces("prompts"),
            resources_list_changed: announces("resources"),
            resource_subscriptions: resources,
        }
    }

    /// Reads what an acknowledgement grants.
    fn read(params: Option<&Json>) -> Self {
        let granted = params.and_then(|params| Fields::of(params).ok()?.object("notifications").ok()?);
        let fields = granted.as_ref().and_then(|granted| Fields::of(granted).ok());
        let flag = |key: &str| fields.as_ref().and_then(|fields| fields.flag(key).ok()?).unwrap_or(false);
        let uris = fields.as_ref().and_then(|fields| fields.items("resourceSubscriptions").ok()?).unwrap_or_default();
        Self {
            tools_list_changed: flag("toolsListChanged"),
            prompts_list_changed: flag("promptsListChanged"),
            resources_list_changed: flag("resourcesListChanged"),
            resource_subscriptions: uris.iter().filter_map(|uri| uri.decode().ok()).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a notification for everything that the filter covers.
    fn all_changes(&self) -> Vec<Notification> {
        let lists = [
            (self.tools_list_changed, Notification::ToolsChanged),
            (self.prompts_list_changed, Notification::PromptsChanged),
            (self.resources_list_changed, Notification::ResourcesChanged),
        ];
        let lists = lists.into_iter().filter(|(covered, _)| *covered).map(|(_, notification)| notification);
        let resources =
            self.resource_subscriptions.iter().map(|uri| Notification::ResourceUpdated { uri: uri.clone() });
        lists.chain(resources).collect()
    }
}

impl Subscription {
    /// Records an acknowledgement. Returns notifications for what the host may have missed before it.
    pub(super) fn on_acknowledged(&self, request: Option<u64>, params: Option<&Json>) -> Vec<Notification> {
        let granted = NotificationFilter::read(params);
        let mut missed = Vec::new();
        self.state.send_if_modified(|state| {
            // A late acknowledgement of an earlier stream says nothing about the current one.
            let latest = self.latest_request.load(Ordering::Acquire);
            if !state.open || request.is_some_and(|request| request < latest) {
                return false;
            }
            if std::mem::take(&mut state.missed_events) {
                missed = granted.all_changes();
            }
            state.acknowledged_request = latest;
            state.acknowledgements += 1;
            // Cloned, because some servers acknowledge a request twice.
            state.requested.clone_from(&state.pending);
            state.granted = granted;
            true
        });
        missed
    }

    /// Records that no stream is open: the next acknowledgement reports everything as changed.
    pub(super) fn mark_gap(&self) {
        self.state.send_modify(|state| {
            state.open = false;
            state.missed_events = true;
        });
    }

    /// Whether a later request has replaced this one.
    pub(super) fn is_stale(&self, request: u64) -> bool {
        request < self.state.borrow().acknowledged_request
    }

    /// Returns how many requests were sent.
    pub(super) fn attempts(&self) -> u64 {
        self.state.borrow().attempts
    }

    /// Waits until the server has granted or refused a resource in a request after the first `attempts`.
    pub(super) async fn wait_until_subscribed(&self, uri: &str, attempts: u64) -> Result<(), CallErrorKind> {
        let mut state = self.state.subscribe();
        let decided = state.wait_for(|state| {
            let refused = state.refused.as_ref().is_some_and(|refusal| refusal.attempts > attempts);
            let answered = state.attempts > attempts && state.requested.resource_subscriptions.contains(uri);
            state.closed || refused || answered
        });
        match decided.await {
            Ok(state) if !state.closed && state.granted.resource_subscriptions.contains(uri) => Ok(()),
            Ok(state) => Err(state.refusal(uri)),
            Err(_) => Err(CallErrorKind::Lost("stopped sending notifications".to_owned())),
        }
    }

    /// Waits until the server no longer sends notifications for a resource.
    pub(super) async fn wait_until_unsubscribed(&self, uri: &str) {
        let unsubscribed = |state: &State| {
            let subscribed = state.open && state.granted.resource_subscriptions.contains(uri);
            state.closed || state.refused.is_some() || !subscribed
        };
        let _ = self.state.subscribe().wait_for(unsubscribed).await;
    }

    /// Records that no notifications are requested any more.
    pub(super) fn clear(&self) {
        self.state.send_modify(|state| {
            // Makes the current request stale. The next request has a higher id.
            state.acknowledged_request += u64::from(state.open);
            state.open = false;
            state.requested = NotificationFilter::default();
            state.granted = NotificationFilter::default();
        });
    }

    /// Records a new request. Returns the number of acknowledgements before it.
    pub(super) fn begin_request(&self, filter: &NotificationFilter) -> u64 {
        let mut acknowledgements = 0;
        self.state.send_modify(|state| {
            // A refusal of resources stays valid until resources are requested again.
            if !filter.resource_subscriptions.is_empty() {
                state.refused = None;
            }
            state.pending.clone_from(filter);
            // The last acknowledgement was for another filter.
            state.requested = NotificationFilter::default();
            state.open = true;
            state.attempts += 1;
            acknowledgements = state.acknowledgements;
        });
        acknowledgements
    }

    /// Waits for an acknowledgement after the first `acknowledgements`.
    pub(super) async fn wait_for_acknowledgement(&self, acknowledgements: u64) {
        let _ = self.state.subscribe().wait_for(|state| state.acknowledgements > acknowledgements).await;
    }

    pub(super) fn refuse(&self, reason: String) {
        tracing::debug!(reason, "the server does not send notifications");
        self.state.send_modify(|state| state.refused = Some(Refusal { attempts: state.attempts, reason }));
    }

    pub(super) fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }
}

impl State {
    /// Returns why the server sends no notifications for a resource.
    fn refusal(&self, uri: &str) -> CallErrorKind {
        let reason = match &self.refused {
            Some(refusal) => &refusal.reason,
            None if self.closed => return CallErrorKind::Lost("ended the connection".to_owned()),
            None => "the server did not acknowledge it",
        };
        CallErrorKind::Unsupported(format!("notifications for {uri} ({reason})"))
    }
}
