//! One server's sign-in: found in the store, made anew with a person's help, renewed before it ends, by one at a time.

mod renewing;
mod signing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_io::{HttpClient, HttpSettings, unix_now};
use wharf_protocol::Secret;

use super::OAuthError;
use super::assertion::SigningKey;
use super::authority::TokenProvider;
use super::challenge::Challenge;
use super::discovery::{Explorer, origin};
use super::grant::Grant;
use super::reach::{Nearness, guarded, nearness};
use super::store::{Account, RegisteredClient, SignIn, Store};
use super::token::Posts;
use super::visit::AuthorizationUi;
use crate::AuthRequired;

/// A token is renewed so long before it ends.
const EARLY: Duration = Duration::from_secs(30);
/// What an authorization server says of a sign-in that is over; the last is GitHub's word for the first.
const ENDED: [&str; 4] = ["invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"];
/// How often in a row more is asked for because a server wants more.
const MOST_STEPS: u32 = 2;
/// Wishes that are further apart than this are not in a row.
const A_ROW: Duration = Duration::from_secs(60);

/// How one signs in to a server.
#[derive(Clone)]
pub struct OAuthOptions {
    /// Where sign-ins are kept.
    pub store: Arc<dyn Store>,
    /// Whose they are, where one person is several.
    pub profile: String,
    /// What we call ourselves where we register.
    pub client_name: String,
    /// The client that the authorization server knows already.
    pub client: Option<RegisteredClient>,
    /// Where we describe ourselves, for authorization servers that look there.
    pub metadata_url: Option<String>,
    /// Where the authorization server describes itself, where that is known better than the server tells it.
    pub issuer_metadata_url: Option<String>,
    /// What the token is to be good for, whatever the server says.
    pub scopes: Option<Vec<String>>,
    /// With what we prove who we are, where that is a key (`private_key_jwt`).
    pub key: Option<Arc<SigningKey>>,
    /// What tokens are given for.
    pub grant: Grant,
    /// Who brings a person to the page to sign in on; without it, nobody signs in here.
    pub visitor: Option<Arc<dyn AuthorizationUi>>,
    /// How connections are made.
    pub http: HttpSettings,
}

impl OAuthOptions {
    /// Nothing but a store: sign-ins are used and renewed, and nobody signs in.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            profile: "default".to_owned(),
            client_name: "Wharf".to_owned(),
            client: None,
            metadata_url: None,
            issuer_metadata_url: None,
            scopes: None,
            key: None,
            grant: Grant::Person,
            visitor: None,
            http: HttpSettings::default(),
        }
    }
}

/// The sign-in of one server.
#[derive(Clone)]
pub struct OAuth {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Uri,
    account: Account,
    options: OAuthOptions,
    /// How to reach what the server names.
    reach: OnceCell<(HttpClient, Nearness)>,
    current: Mutex<Current>,
    /// One at a time gets a token, for all who wait.
    turn: Arc<Semaphore>,
    /// What must not end half-way because nobody waits for it any more.
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone, Default)]
struct Current {
    /// Counts the changes.
    number: u64,
    loaded: bool,
    sign_in: Option<SignIn>,
    /// What is in the store in its place, where it could not be kept.
    unkept: Option<SignIn>,
    /// Why a person who was asked last did not sign in.
    failed: Option<OAuthError>,
    /// How often in a row the server wanted more, and when it did last.
    steps: u32,
    stepped: Option<Instant>,
}

impl OAuth {
    /// For the server at `endpoint`.
    pub fn new(endpoint: &str, options: OAuthOptions) -> Result<Self, OAuthError> {
        let unusable = || OAuthError::Endpoint(endpoint.to_owned());
        let parsed: Uri = endpoint.parse().map_err(|_| unusable())?;
        if parsed.host().is_none_or(str::is_empty) {
            return Err(unusable());
        }
        let account = Account { endpoint: canonical(&parsed), profile: options.profile.clone() };
        let inner = Inner {
            endpoint: parsed,
            account,
            options,
            reach: OnceCell::new(),
            current: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
            tasks: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Signs in with a person's help, whether or not there is a sign-in. The challenge is what the server said, if it did.
    pub async fn sign_in(&self, challenge: Option<&str>) -> Result<(), OAuthError> {
        let challenge = challenge.map(Challenge::read).unwrap_or_default();
        let _turn = self.inner.turn.acquire().await;
        self.inner.load().await?;
        self.ask(&challenge).await
    }

    /// Takes the tokens back and forgets them; `false` if there were none. What cannot be taken back is forgotten all the
    /// same, and the error says so.
    pub async fn sign_out(&self) -> Result<bool, OAuthError> {
        let inner = &self.inner;
        let _turn = inner.turn.acquire().await;
        // Whoever renews it just now would keep it again.
        let _turn_of_all = inner.options.store.turn(&inner.account).await?;
        let kept = inner.options.store.remove(&inner.account).await?;
        inner.adopt(None);
        let Some(sign_in) = kept else { return Ok(false) };
        if let Some(endpoint) = &sign_in.revocation_endpoint {
            let (http, nearest) = inner.reach().await?;
            let posts = inner.posts(&http, nearest, &sign_in.issuer);
            let token = sign_in.refresh.as_ref().unwrap_or(&sign_in.access);
            posts.revoke(endpoint, &sign_in.client, token).await?;
        }
        Ok(true)
    }
}

impl TokenProvider for OAuth {
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>> {
        Box::pin(async move {
            let inner = &self.inner;
            if !inner.current().loaded {
                let _turn = inner.turn.acquire().await;
                inner.load().await?;
            }
            if inner.current().unkept.is_some() {
                inner.keep_again().await;
            }
            let current = inner.snapshot();
            let Some(sign_in) = &current.sign_in else { return Ok((None, current.number)) };
            let left = sign_in.expires_at.map(|at| at.saturating_sub(unix_now()));
            let renewable = sign_in.refresh.is_some() || !inner.options.grant.needs_person();
            if left.is_none_or(|left| left > EARLY.as_secs()) || !renewable {
                return Ok((Some(sign_in.access.clone()), current.number));
            }
            match self.renewed(current.number).await {
                // It is good for a while yet.
                Err(error) if error.may_pass() && left.is_some_and(|left| left > 0) => {
                    tracing::debug!(%error, "a token could not be renewed before it ends");
                }
                renewed => renewed?,
            }
            let current = inner.snapshot();
            Ok((current.sign_in.map(|sign_in| sign_in.access), current.number))
        })
    }

    fn refused<'a>(&'a self, number: u64, required: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let challenge = required.challenge.as_deref().map(Challenge::read).unwrap_or_default();
            let wants_more = required.status == 403 || challenge.wants_more();
            let current = inner.snapshot();
            if current.number != number
                && let Some(decided) = current.since()
            {
                return decided;
            }
            if let Some(sign_in) = current.sign_in.as_ref().filter(|_| !wants_more) {
                let (http, nearest) = inner.reach().await?;
                let explorer = inner.explorer(&http, nearest);
                // What one authorization server gave out is never shown to another.
                let same = explorer.still_names(&challenge, &sign_in.issuer).await?;
                if same && sign_in.refresh.is_some() {
                    self.renewed(number).await?;
                    if inner.current().sign_in.is_some() {
                        return Ok(true);
                    }
                }
            }
            let turn = Arc::clone(&inner.turn).acquire_owned().await;
            let waited = inner.snapshot();
            if waited.number != current.number
                && let Some(decided) = waited.since()
            {
                return decided;
            }
            if inner.finds_another().await? {
                return Ok(true);
            }
            let nobody = inner.options.visitor.is_none() && inner.options.grant.needs_person();
            if nobody || (wants_more && !inner.may_step_up()) {
                return Ok(false);
            }
            // People take longer than calls wait. Who comes later finds that somebody is asked already, and what came of it.
            let this = self.clone();
            let asking = async move {
                let _turn = turn;
                this.ask(&challenge).await
            };
            self.to_its_end(asking).await?;
            Ok(true)
        })
    }

    fn number(&self) -> u64 {
        self.inner.current().number
    }

    fn has_newer_token(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            // Whoever has the turn will see for themselves.
            let Ok(_turn) = self.inner.turn.try_acquire() else { return false };
            self.inner.finds_another().await.unwrap_or(false)
        })
    }
}

impl OAuth {
    /// Renews the sign-in of that number, once for all who ask.
    async fn renewed(&self, number: u64) -> Result<(), OAuthError> {
        let inner = Arc::clone(&self.inner);
        self.to_its_end(async move { inner.renew(number).await }).await
    }

    /// Signs in, with a person's help or without, and remembers if that failed: for all who wait.
    async fn ask(&self, challenge: &Challenge) -> Result<(), OAuthError> {
        let inner = Arc::clone(&self.inner);
        let asking = async {
            if !inner.options.grant.needs_person() {
                let challenge = challenge.clone();
                return self.to_its_end(async move { inner.by_itself(&challenge).await }).await;
            }
            let permit = self.inner.visit(challenge).await?;
            self.to_its_end(async move { inner.redeem(permit).await }).await
        };
        let result = asking.await;
        if let Err(error) = &result {
            let mut current = self.inner.current();
            current.number += 1;
            current.failed = Some(error.clone());
        }
        result
    }

    /// Does something that goes on when nobody waits for it any more: what is good for one use may be used up as soon as
    /// it is on its way, and what comes in its place must be kept.
    async fn to_its_end(
        &self,
        work: impl Future<Output = Result<(), OAuthError>> + Send + 'static,
    ) -> Result<(), OAuthError> {
        let (told, hears) = tokio::sync::oneshot::channel();
        {
            let mut tasks = self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let _ = told.send(work.await);
            });
        }
        hears.await.unwrap_or_else(|_| Err(OAuthError::Nobody("it was given up".to_owned())))
    }
}

impl Current {
    /// What whoever did not get on with the sign-in before this one can be told, if that is known yet.
    fn since(&self) -> Option<Result<bool, OAuthError>> {
        match &self.failed {
            // A person is not asked once for each who waits.
            Some(error) => Some(Err(error.clone())),
            None => self.sign_in.is_some().then_some(Ok(true)),
        }
    }
}

impl Inner {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Current {
        self.current().clone()
    }

    fn adopt(&self, sign_in: Option<SignIn>) {
        let mut current = self.current();
        current.number += 1;
        current.loaded = true;
        current.sign_in = sign_in;
        (current.unkept, current.failed) = (None, None);
    }

    /// More may be asked for a few times in a row.
    fn may_step_up(&self) -> bool {
        let mut current = self.current();
        if current.stepped.is_none_or(|stepped| stepped.elapsed() > A_ROW) {
            current.steps = 0;
        }
        current.stepped = Some(Instant::now());
        current.steps += 1;
        current.steps <= MOST_STEPS
    }

    async fn load(&self) -> Result<(), OAuthError> {
        if !self.current().loaded {
            let kept = self.options.store.sign_in(&self.account).await?;
            self.adopt(kept);
        }
        Ok(())
    }

    async fn reach(&self) -> Result<(HttpClient, Nearness), OAuthError> {
        let unusable = |reason: String| OAuthError::Unreachable { url: self.account.endpoint.clone(), reason };
        let reach = self.reach.get_or_try_init(|| async {
            let host = self.endpoint.host().unwrap_or_default();
            let nearest = nearness(&self.options.http, host).await.map_err(|error| unusable(error.to_string()))?;
            let client = HttpClient::new(guarded(&self.options.http, nearest));
            client.map(|client| (client, nearest)).map_err(|error| unusable(error.to_string()))
        });
        reach.await.cloned()
    }

    fn explorer<'a>(&'a self, http: &'a HttpClient, nearest: Nearness) -> Explorer<'a> {
        let described_at = self.options.issuer_metadata_url.as_deref();
        Explorer { http, endpoint: &self.endpoint, nearest, described_at }
    }

    fn posts<'a>(&'a self, http: &'a HttpClient, nearest: Nearness, issuer: &'a str) -> Posts<'a> {
        Posts { http, nearest, server: &self.account.endpoint, key: self.options.key.as_deref(), issuer }
    }
}

/// A server's address as all who mean it write it.
fn canonical(uri: &Uri) -> String {
    let rest = uri.path_and_query().map_or("", |rest| rest.as_str());
    format!("{}{}", origin(uri), if rest == "/" { "" } else { rest })
}
