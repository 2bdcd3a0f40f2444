//! What a server tells unasked, in the era in which it has to be asked to: one long request for all of it, made again when
//! it ends, and made anew when the host wants to hear of other resources.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use wharf_protocol::{Fields, Json};

use super::beliefs::Beliefs;
use super::manner::{Request, Speaker};
use crate::era::METHOD_NOT_FOUND;
use crate::transport::Governor;
use crate::wire::{Limits, NEVER};
use crate::{CallErrorKind, ConnectErrorKind, Notification};

/// How long a server may take to begin its answer.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// How long it may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server has agreed to tell.
#[derive(Debug, Default)]
pub(super) struct Followed {
    agreed: watch::Sender<Agreed>,
    /// The request that is to be agreed to.
    asking: AtomicU64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Agreed {
    /// Whether there is a stream on which it could agree.
    open: bool,
    /// Whether nobody has been listening for a while.
    gap: bool,
    /// The request it agreed to last; what still comes of those before is no longer wanted.
    request: u64,
    /// How often it has been asked, and how often it has agreed.
    tries: u64,
    times: u64,
    /// What was asked for last.
    pending: Wanted,
    /// What was asked for when it last agreed, and what it agreed to.
    asked: Wanted,
    honoured: Wanted,
    /// After how many tries, and why, it is no longer asked.
    given_up: Option<(u64, String)>,
    /// Nobody listens any more, and nobody will.
    over: bool,
}

/// What we want to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wanted {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Wanted {
    /// What the server says it can tell of, and the resources the host wants.
    fn of(capabilities: &Json, resources: BTreeSet<String>) -> Self {
        let all = Fields::of(capabilities).ok();
        let tells = |kind: &str| {
            let one = all.as_ref().and_then(|all| all.object(kind).ok().flatten());
            one.is_some_and(|one| Fields::of(&one).ok().and_then(|one| one.flag("listChanged").ok()?).unwrap_or(false))
        };
        Self {
            tools_list_changed: tells("tools"),
            prompts_list_changed: tells("prompts"),
            resources_list_changed: tells("resources"),
            resource_subscriptions: resources,
        }
    }

    /// What the server says it will tell.
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

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Word of everything that may have changed.
    fn all(&self) -> Vec<Notification> {
        let lists = [
            (self.tools_list_changed, Notification::ToolsChanged),
            (self.prompts_list_changed, Notification::PromptsChanged),
            (self.resources_list_changed, Notification::ResourcesChanged),
        ];
        let lists = lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, notice)| notice);
        let resources =
            self.resource_subscriptions.iter().map(|uri| Notification::ResourceUpdated { uri: uri.clone() });
        lists.chain(resources).collect()
    }
}

impl Followed {
    /// The server agrees. What is returned is what the host may have missed before.
    pub(super) fn acknowledged(&self, request: Option<u64>, params: Option<&Json>) -> Vec<Notification> {
        let (honoured, mut missed) = (Wanted::read(params), Vec::new());
        self.agreed.send_if_modified(|agreed| {
            // Late word of a stream that has ended, or of one before it, says nothing about the next.
            let asking = self.asking.load(Ordering::Acquire);
            if !agreed.open || request.is_some_and(|request| request < asking) {
                return false;
            }
            if std::mem::take(&mut agreed.gap) {
                missed = honoured.all();
            }
            agreed.request = asking;
            agreed.times += 1;
            // Some agree twice.
            agreed.asked.clone_from(&agreed.pending);
            agreed.honoured = honoured;
            true
        });
        missed
    }

    /// Nobody is listening: whatever changes now is to be told when the server agrees again.
    pub(super) fn missed_something(&self) {
        self.agreed.send_modify(|agreed| (agreed.open, agreed.gap) = (false, true));
    }

    /// Whether what comes of this request was taken back meanwhile.
    pub(super) fn is_over(&self, request: u64) -> bool {
        request < self.agreed.borrow().request
    }

    /// How often the server has been asked until now.
    pub(super) fn tries(&self) -> u64 {
        self.agreed.borrow().tries
    }

    /// Waits until the server has agreed to tell of a resource, or has not, asked more often than so many times.
    pub(super) async fn covers(&self, uri: &str, tries: u64) -> Result<(), CallErrorKind> {
        let mut agreed = self.agreed.subscribe();
        let decided = agreed.wait_for(|agreed| {
            let refused = agreed.given_up.as_ref().is_some_and(|(at, _)| *at > tries);
            let answered = agreed.tries > tries && agreed.asked.resource_subscriptions.contains(uri);
            agreed.over || refused || answered
        });
        match decided.await {
            Ok(agreed) if !agreed.over && agreed.honoured.resource_subscriptions.contains(uri) => Ok(()),
            Ok(agreed) => Err(agreed.refusal(uri)),
            Err(_) => Err(CallErrorKind::Lost("is no longer listened to".to_owned())),
        }
    }

    /// Waits until the server has agreed to something without a resource, or is not listened to at all.
    pub(super) async fn spares(&self, uri: &str) {
        let spared = |agreed: &Agreed| {
            let told = agreed.open && agreed.honoured.resource_subscriptions.contains(uri);
            agreed.over || agreed.given_up.is_some() || !told
        };
        let _ = self.agreed.subscribe().wait_for(spared).await;
    }

    /// Nothing is wanted any more.
    fn stop(&self) {
        self.agreed.send_modify(|agreed| {
            // The next request has a higher number than any before it.
            agreed.request += u64::from(agreed.open);
            agreed.open = false;
            agreed.asked = Wanted::default();
            agreed.honoured = Wanted::default();
        });
    }

    fn ask(&self, wanted: &Wanted) -> u64 {
        let mut times = 0;
        self.agreed.send_modify(|agreed| {
            // Why resources are not told of stays true until they are asked for again.
            if !wanted.resource_subscriptions.is_empty() {
                agreed.given_up = None;
            }
            agreed.pending.clone_from(wanted);
            // What was agreed to before is no longer what is asked for.
            agreed.asked = Wanted::default();
            agreed.open = true;
            agreed.tries += 1;
            times = agreed.times;
        });
        times
    }

    async fn agreed_after(&self, times: u64) {
        let _ = self.agreed.subscribe().wait_for(|agreed| agreed.times > times).await;
    }

    fn give_up(&self, reason: String) {
        tracing::debug!(reason, "the server does not speak unasked");
        self.agreed.send_modify(|agreed| agreed.given_up = Some((agreed.tries, reason)));
    }
}

impl Agreed {
    /// Why a resource is not told of.
    fn refusal(&self, uri: &str) -> CallErrorKind {
        let reason = match &self.given_up {
            Some((_, reason)) => reason,
            None if self.over => return CallErrorKind::Lost("ended the connection".to_owned()),
            None => "it did not agree to",
        };
        CallErrorKind::Unsupported(format!("word of changes to {uri} ({reason})"))
    }
}

/// Tells those who wait that nobody listens any more, however that came about.
struct Over(Arc<Beliefs>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.followed.agreed.send_modify(|agreed| agreed.over = true);
    }
}

type Listening = BoxFuture<'static, Result<Json, CallErrorKind>>;

/// Listens for as long as the connection lives.
pub(super) async fn follow(speaker: Speaker, beliefs: Arc<Beliefs>, capabilities: Json) {
    let _over = Over(Arc::clone(&beliefs));
    let followed = &beliefs.followed;
    let mut resources = speaker.wishes.resources();
    let mut governor = Governor::tireless();
    // What is listened to while something else is being asked for.
    let mut before: Option<Listening> = None;
    // The resources that were refused: until others are wanted, the lists alone are listened to.
    let mut refused = None;
    loop {
        let resources_wanted = resources.borrow_and_update().clone();
        let shy = refused.as_ref() == Some(&resources_wanted);
        let wanted = Wanted::of(&capabilities, if shy { BTreeSet::new() } else { resources_wanted.clone() });
        if wanted.is_nothing() {
            before = None;
            followed.stop();
            if resources.changed().await.is_err() {
                return;
            }
            continue;
        }
        let (times, opened) = (followed.ask(&wanted), Instant::now());
        let mut listening = listen(speaker.clone(), Arc::clone(&beliefs), wanted);
        let ended = tokio::select! {
            biased;
            () = followed.agreed_after(times) => None,
            ended = &mut listening => Some(ended),
            // Something else is wanted before this was agreed to.
            changed = resources.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            () = tokio::time::sleep(PATIENCE) => Some(Err(CallErrorKind::Lost("did not agree in time".to_owned()))),
            () = hear_out(&mut before) => None,
        };
        before = None;
        let ended = if let Some(ended) = ended {
            ended
        } else {
            tokio::select! {
                ended = &mut listening => ended,
                changed = resources.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    before = Some(listening);
                    continue;
                }
            }
        };
        drop(listening);
        if speaker.line.ending().is_some() {
            return;
        }
        followed.missed_something();
        let pause = if may_work_later(&ended) { governor.ended(opened.elapsed(), false, None) } else { None };
        let changed = if let Some(pause) = pause {
            tokio::time::timeout(pause, resources.changed()).await.unwrap_or(Ok(()))
        } else {
            let for_good = matches!(ended, Err(CallErrorKind::Server { code: METHOD_NOT_FOUND, .. }));
            followed.give_up(ended.map_or_else(|error| error.to_string(), |_| String::new()));
            if for_good {
                return;
            }
            if !shy && !resources_wanted.is_empty() {
                refused = Some(resources_wanted);
                continue;
            }
            resources.changed().await
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Goes on listening to what is about to be replaced; it never returns.
async fn hear_out(before: &mut Option<Listening>) {
    if let Some(listening) = before {
        let _ = listening.await;
    }
    *before = None;
    std::future::pending::<()>().await;
}

fn listen(speaker: Speaker, beliefs: Arc<Beliefs>, wanted: Wanted) -> Listening {
    #[derive(Serialize)]
    struct Params {
        notifications: Wanted,
    }
    async move {
        let (params, limits) =
            (Params { notifications: wanted }, Limits { idle: NEVER, total: None, first_byte: FIRST_BYTE });
        let mut request = Request::new("subscriptions/listen", &params, limits);
        request.id = Some(&beliefs.followed.asking);
        speaker.send(&mut request, None).await
    }
    .boxed()
}

/// Whether a stream that ended so may live longer next time.
fn may_work_later(ended: &Result<Json, CallErrorKind>) -> bool {
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
