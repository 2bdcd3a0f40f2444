//! The state of one server's sign-in, shared by all requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_io::HttpClient;

use crate::discovery::{MetadataDiscovery, origin};
use crate::dpop::{DpopKey, Nonces};
use crate::error::OAuthError;
use crate::network_zone::{NetworkZone, judge, restrict};
use crate::options::OAuthOptions;
use crate::store::{Account, SignIn};
use crate::token::TokenClient;

/// How often in a row more scopes are requested because a server requires them.
const MAX_STEP_UPS: u32 = 2;
/// Step-ups that are further apart than this are not in a row.
const STEP_UP_WINDOW: Duration = Duration::from_secs(60);

/// What all clones of an [`OAuth`](crate::OAuth) share.
pub(super) struct Shared {
    endpoint: Uri,
    pub(super) account: Account,
    pub(super) options: OAuthOptions,
    /// The HTTP client for URLs in the server's metadata, while the server's address is unknown.
    metadata_client: OnceCell<(HttpClient, NetworkZone)>,
    /// The zone of the addresses that the server responded from, and the HTTP client for it.
    observed: Mutex<Option<Observed>>,
    current: Mutex<Current>,
    /// Held while a token is obtained, so that all waiting requests share it.
    pub(super) turn: Arc<Semaphore>,
    /// The latest nonces of the server and of its authorization server.
    pub(super) nonces: Nonces,
    /// The key of the current credentials, parsed.
    pub(super) dpop_key: Mutex<Option<Arc<DpopKey>>>,
    /// Work that must complete even if its caller is gone.
    pub(super) tasks: Mutex<JoinSet<()>>,
}

/// The farthest zone that the server responded from.
struct Observed {
    zone: NetworkZone,
    client: Option<HttpClient>,
}

/// The current credentials.
#[derive(Clone, Default)]
pub(super) struct Current {
    /// The number of the token; incremented with every change.
    pub(super) number: u64,
    pub(super) is_loaded: bool,
    pub(super) sign_in: Option<SignIn>,
    /// The outdated credentials in the store, if the current ones could not be stored.
    pub(super) outdated: Option<SignIn>,
    /// Why the last authorization failed.
    pub(super) failure: Option<OAuthError>,
    /// The number of step-ups in a row, and the time of the last one.
    step_ups: u32,
    last_step_up: Option<Instant>,
}

impl Current {
    /// Returns the result for a request that used earlier credentials; `None` if it is not known yet.
    pub(super) fn result(&self) -> Option<Result<bool, OAuthError>> {
        match &self.failure {
            // The user is prompted once for all waiting requests.
            Some(error) => Some(Err(error.clone())),
            None => self.sign_in.is_some().then_some(Ok(true)),
        }
    }
}

impl Shared {
    pub(super) fn new(endpoint: Uri, options: OAuthOptions) -> Self {
        let account = Account { endpoint: canonical(&endpoint), profile: options.profile.clone() };
        Self {
            endpoint,
            account,
            options,
            metadata_client: OnceCell::new(),
            observed: Mutex::default(),
            current: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
            nonces: Nonces::default(),
            dpop_key: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    pub(super) fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> Current {
        self.current().clone()
    }

    /// Replaces the current credentials.
    pub(super) fn adopt(&self, sign_in: Option<SignIn>) {
        let mut current = self.current();
        current.number += 1;
        current.is_loaded = true;
        current.sign_in = sign_in;
        current.outdated = None;
        current.failure = None;
    }

    /// Counts a step-up. Returns whether it is allowed.
    pub(super) fn try_step_up(&self) -> bool {
        let mut current = self.current();
        if current.last_step_up.is_none_or(|last| last.elapsed() > STEP_UP_WINDOW) {
            current.step_ups = 0;
        }
        current.last_step_up = Some(Instant::now());
        current.step_ups += 1;
        current.step_ups <= MAX_STEP_UPS
    }

    /// Loads the credentials from the store, once.
    pub(super) async fn load(&self) -> Result<(), OAuthError> {
        if !self.current().is_loaded {
            let stored = self.options.store.sign_in(&self.account).await?;
            self.adopt(stored);
        }
        Ok(())
    }

    /// Records the zone that the server responded from. A name may resolve to another address each time, so the server
    /// is judged by the connection that carried its response.
    pub(super) fn observe(&self, zone: Option<NetworkZone>) {
        let Some(zone) = zone else { return };
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that was once farther away stays there.
        if observed.as_ref().is_none_or(|observed| zone < observed.zone) {
            *observed = Some(Observed { zone, client: None });
        }
    }

    /// Returns the HTTP client for URLs in the server's metadata, and the nearest zone that it reaches.
    pub(super) async fn metadata_client(&self) -> Result<(HttpClient, NetworkZone), OAuthError> {
        let unusable = |reason: String| OAuthError::Unreachable { url: self.account.endpoint.clone(), reason };
        if let Some(observed) = &mut *self.observed.lock().unwrap_or_else(PoisonError::into_inner) {
            let client = match &observed.client {
                Some(client) => client.clone(),
                None => HttpClient::new(restrict(&self.options.http, observed.zone, None))
                    .map_err(|error| unusable(error.to_string()))?,
            };
            observed.client = Some(client.clone());
            return Ok((client, observed.zone));
        }
        let client = self.metadata_client.get_or_try_init(|| async {
            let judged =
                judge(&self.options.http, &self.endpoint).await.map_err(|error| unusable(error.to_string()))?;
            let nearest = judged.zone;
            let client = HttpClient::new(restrict(&self.options.http, nearest, Some(judged)));
            client.map(|client| (client, nearest)).map_err(|error| unusable(error.to_string()))
        });
        client.await.cloned()
    }

    pub(super) fn discovery<'a>(&'a self, http: &'a HttpClient, nearest: NetworkZone) -> MetadataDiscovery<'a> {
        let issuer_metadata_url = self.options.issuer_metadata_url.as_deref();
        MetadataDiscovery { http, endpoint: &self.endpoint, nearest, issuer_metadata_url }
    }

    pub(super) fn token_client<'a>(
        &'a self,
        http: &'a HttpClient,
        nearest: NetworkZone,
        issuer: &'a str,
    ) -> TokenClient<'a> {
        let server = &self.account.endpoint;
        TokenClient { http, nearest, server, key: self.options.key.as_deref(), issuer, binding: None }
    }
}

/// Returns the canonical form of a server's URL.
fn canonical(uri: &Uri) -> String {
    let rest = uri.path_and_query().map_or("", |rest| rest.as_str());
    format!("{}{}", origin(uri), if rest == "/" { "" } else { rest })
}
