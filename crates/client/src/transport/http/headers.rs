//! The headers of requests: those that never change, those a helper command tells, the token of a sign-in, and those of one
//! call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use wharf_io::{Child, ChildSpec, Environment, Exit, Grace};
use wharf_protocol::Secret;

use super::{InvalidRemote, header};
use crate::AuthRequired;
use crate::transport::{OpenError, PostError};
use wharf_auth::{OAuthError, TokenProvider};

/// How long the helper may take.
const HELPER_LIMIT: Duration = Duration::from_secs(10);
/// How often one request is sent with another token: signed in, then good for more, and more.
const MOST_TOKENS: u32 = 5;
/// The most it may say.
const MOST_SAID: u64 = 64 * 1024;

/// What only the client itself may set.
pub(super) const OURS: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// A command that prints headers as one JSON object, for tokens that do not live long. It is run before the first request
/// and again when the server answers 401 or 403. Nothing goes through a shell.
#[derive(Clone, Debug)]
pub struct HeaderCommand {
    /// The command.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it may see of the environment.
    pub environment: Environment,
    /// Where it runs; where the host runs if absent.
    pub directory: Option<std::path::PathBuf>,
}

#[derive(Clone)]
pub(in crate::transport) struct Headers {
    fixed: Arc<HeaderMap>,
    helped: Option<Arc<Helped>>,
    authority: Option<Arc<dyn TokenProvider>>,
}

/// Which headers a request had, for [`Headers::refresh`].
#[derive(Clone, Copy, Default)]
pub(in crate::transport) struct Said {
    /// The number of the helper's saying they come from.
    helper: u64,
    token: u64,
}

/// How often other headers were got for one request.
#[derive(Default)]
pub(in crate::transport) struct Tried {
    helper: bool,
    tokens: u32,
}

/// Why there are no headers.
pub(in crate::transport) enum NoHeaders {
    /// There never will be.
    Unusable(String),
    /// Whoever gives them cannot be reached now.
    Away(String),
    /// Somebody has to sign in.
    Auth(AuthRequired),
}

impl NoHeaders {
    /// By why there is no token; `lasting` if that will not pass by itself.
    fn new(error: &OAuthError, lasting: Self) -> Self {
        if error.is_transient() { Self::Away(error.to_string()) } else { lasting }
    }
}

impl From<NoHeaders> for PostError {
    fn from(none: NoHeaders) -> Self {
        match none {
            NoHeaders::Unusable(reason) => Self::Unusable(reason),
            NoHeaders::Away(reason) => Self::NotSent(reason),
            NoHeaders::Auth(required) => Self::Auth(required),
        }
    }
}

impl From<NoHeaders> for OpenError {
    fn from(none: NoHeaders) -> Self {
        match none {
            NoHeaders::Unusable(reason) => Self::Unusable(reason),
            NoHeaders::Away(reason) => Self::Other(reason),
            NoHeaders::Auth(required) => Self::Auth(required),
        }
    }
}

struct Helped {
    helper: HeaderCommand,
    /// What it said last, and how often it has been asked.
    said: Mutex<(u64, Option<Arc<HeaderMap>>)>,
    turn: Semaphore,
}

impl Headers {
    pub(super) fn new(
        fixed: &[(String, String)],
        helper: Option<HeaderCommand>,
        authority: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Self, InvalidRemote> {
        let asked = |helper| Arc::new(Helped { helper, said: Mutex::default(), turn: Semaphore::new(1) });
        let fixed = parse(fixed)?;
        // Whoever writes the header means it.
        let authority = authority.filter(|_| !fixed.contains_key(AUTHORIZATION));
        Ok(Self { fixed: Arc::new(fixed), helped: helper.map(asked), authority })
    }

    /// What tells these headers from others; the values are in it.
    pub(super) fn fingerprint(&self) -> String {
        let said = self.helped.as_ref().map(|helped| helped.said());
        // Who the helper signs in may be another one each time it is asked.
        let said = said.map(|(number, said)| format!("{number} {:?}", said.as_deref().map(pairs)));
        let signed_in = self.authority.as_ref().map(|authority| authority.number());
        format!("{:?} {said:?} {signed_in:?}", pairs(&self.fixed))
    }

    /// All of them, and which they are.
    pub(in crate::transport) async fn get(&self) -> Result<(HeaderMap, Said), NoHeaders> {
        let (mut all, mut which) = ((*self.fixed).clone(), Said::default());
        if let Some(authority) = &self.authority {
            let none = |error: OAuthError| NoHeaders::new(&error, NoHeaders::Unusable(error.to_string()));
            let (token, number) = authority.token().await.map_err(none)?;
            which.token = number;
            if let Some(mut bearer) = token.and_then(|token| bearer(&token)) {
                bearer.set_sensitive(true);
                all.insert(AUTHORIZATION, bearer);
            }
        }
        if let Some(helped) = &self.helped {
            let (number, said) = helped.said();
            let (number, said) = match said {
                Some(said) => (number, said),
                None => helped.ask(number).await.map_err(NoHeaders::Unusable)?,
            };
            which.helper = number;
            all.extend((*said).clone());
        }
        Ok((all, which))
    }

    /// Gets others than those, unless somebody has meanwhile: the helper is asked again, and the server's question who we
    /// are is put to whoever signs us in. `false` if that is nobody.
    pub(in crate::transport) async fn refresh(
        &self,
        said: Said,
        tried: &mut Tried,
        required: Option<&AuthRequired>,
    ) -> Result<bool, NoHeaders> {
        if let Some(helped) = self.helped.as_ref().filter(|_| !tried.helper) {
            tried.helper = true;
            helped.ask(said.helper).await.map_err(NoHeaders::Unusable)?;
            return Ok(true);
        }
        let (Some(authority), Some(required)) = (&self.authority, required) else { return Ok(false) };
        tried.tokens += 1;
        if tried.tokens > MOST_TOKENS {
            return Ok(false);
        }
        authority.refused(said.token, required).await.map_err(|error| {
            let reason = Some(error.to_string().into());
            NoHeaders::new(&error, NoHeaders::Auth(AuthRequired { reason, ..required.clone() }))
        })
    }
}

impl Helped {
    fn said(&self) -> (u64, Option<Arc<HeaderMap>>) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the helper, once for all who wait.
    async fn ask(&self, seen: u64) -> Result<(u64, Arc<HeaderMap>), String> {
        let _turn = self.turn.acquire().await;
        if let (number, Some(said)) = self.said()
            && number != seen
        {
            return Ok((number, said));
        }
        let command = &self.helper.command;
        let told = tokio::time::timeout(HELPER_LIMIT, self.run()).await;
        let told = told.unwrap_or_else(|_| Err(format!("did not end within {} s", HELPER_LIMIT.as_secs())));
        let headers = told.map_err(|reason| format!("the header helper `{command}` {reason}"))?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        *said = (said.0 + 1, Some(Arc::new(headers)));
        Ok((said.0, said.1.clone().unwrap_or_default()))
    }

    async fn run(&self) -> Result<HeaderMap, String> {
        let HeaderCommand { command, args, environment, directory } = self.helper.clone();
        let args = args.into_iter().map(Into::into).collect();
        let spec = ChildSpec { command: command.into(), args, environment, cwd: directory, watcher: None };
        let (child, pipes) = Child::spawn(&spec).await.map_err(|error| format!("cannot be run: {error}"))?;
        drop(pipes.stdin);
        let mut said = String::new();
        let read = pipes.stdout.take(MOST_SAID).read_to_string(&mut said).await;
        read.map_err(|error| format!("said something that cannot be read: {error}"))?;
        let exit = child.exited().await;
        child.stop(Grace::default()).await;
        if exit != Exit::Status(0) {
            // Its stderr may hold what nobody should see.
            return Err(format!("{exit}; run it by hand to see why"));
        }
        // What it said is secret, so errors do not quote it.
        let pairs: std::collections::BTreeMap<String, String> =
            serde_json::from_str(&said).map_err(|_| "did not print one JSON object with texts in it".to_owned())?;
        parse(&pairs.into_iter().collect::<Vec<_>>()).map_err(|error| format!("said too much: {error}"))
    }
}

fn bearer(token: &Secret) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()
}

/// Names and values, the secret ones too.
fn pairs(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

/// Headers from texts.
pub(crate) fn parse(pairs: &[(String, String)]) -> Result<HeaderMap, InvalidRemote> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let (name, value) = header(name, value)?;
        headers.append(name, value);
    }
    Ok(headers)
}
