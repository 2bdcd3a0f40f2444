//! The configured headers of a remote server: fixed ones, those that a command prints, and the token of a sign-in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use wharf_auth::{AuthRequired, OAuthError, RequestAuth, RequestTarget, TokenProvider, TokenVersion};
use wharf_io::{Child, ChildSpec, Environment, Exit, Grace};
use wharf_protocol::{Redactor, Secret};

use crate::remote::{InvalidRemote, parse_headers};
use crate::transport::{OpenError, PostError};

/// The header with the proof that the client has the key of its token.
const DPOP: HeaderName = HeaderName::from_static("dpop");
/// Time for the header command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of its output.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// How often one request is sent with another token: after a sign-in, and after each additional scope.
const MAX_TOKEN_RETRIES: u32 = 5;

/// A command that prints request headers, for short-lived tokens.
///
/// It prints one JSON object that maps header names to values. It runs before the first request, and again when the
/// server answers 401 or 403. No shell is involved.
#[derive(Clone, Debug)]
pub struct HeaderCommand {
    /// The program to run.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// The whole environment of the command.
    pub environment: Environment,
    /// The working directory. Default: that of the host.
    pub directory: Option<std::path::PathBuf>,
    /// Receives the printed values, which are usually secret.
    pub redactor: Option<Redactor>,
}

/// The configured headers of a remote server.
#[derive(Clone)]
pub(in crate::transport) struct Headers {
    fixed: Arc<HeaderMap>,
    command: Option<Arc<CommandHeaders>>,
    token_provider: Option<Arc<dyn TokenProvider>>,
}

/// The version of the headers that a request was sent with, for [`Headers::refresh`].
#[derive(Clone, Copy, Default)]
pub(in crate::transport) struct HeaderVersion {
    /// How often the command had run.
    command: u64,
    /// The token and its nonce.
    token: TokenVersion,
}

/// How often the headers of one request were refreshed.
#[derive(Default)]
pub(in crate::transport) struct HeaderRetries {
    command: bool,
    tokens: u32,
}

/// Why no headers are available.
pub(in crate::transport) enum HeaderError {
    /// The configuration is unusable.
    Unusable(String),
    /// The authorization server is unreachable.
    Unreachable(String),
    /// The user must sign in.
    Auth(AuthRequired),
}

impl HeaderError {
    /// Returns `Unreachable` for a transient error, and `permanent` otherwise.
    fn new(error: &OAuthError, permanent: Self) -> Self {
        if error.is_transient() { Self::Unreachable(error.to_string()) } else { permanent }
    }
}

impl From<HeaderError> for PostError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Unusable(reason) => Self::Unusable(reason),
            HeaderError::Unreachable(reason) => Self::NotSent(reason),
            HeaderError::Auth(required) => Self::Auth(required),
        }
    }
}

impl From<HeaderError> for OpenError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Unusable(reason) => Self::Unusable(reason),
            HeaderError::Unreachable(reason) => Self::Other(reason),
            HeaderError::Auth(required) => Self::Auth(required),
        }
    }
}

/// The headers that a command prints.
struct CommandHeaders {
    command: HeaderCommand,
    output: Mutex<CommandOutput>,
    /// Serializes the runs.
    running: Semaphore,
}

/// The last output of a header command.
#[derive(Clone, Default)]
struct CommandOutput {
    /// How often the command has run.
    runs: u64,
    /// `None` before the first run.
    headers: Option<Arc<HeaderMap>>,
}

impl Headers {
    pub(super) fn new(
        fixed: &[(String, String)],
        command: Option<HeaderCommand>,
        token_provider: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Self, InvalidRemote> {
        let fixed = parse_headers(fixed)?;
        let command_headers =
            |command| Arc::new(CommandHeaders { command, output: Mutex::default(), running: Semaphore::new(1) });
        // A configured `Authorization` header takes precedence over signing in.
        let token_provider = if fixed.contains_key(AUTHORIZATION) { None } else { token_provider };
        Ok(Self { fixed: Arc::new(fixed), command: command.map(command_headers), token_provider })
    }

    /// Returns a string that identifies these headers. It contains the values.
    pub(super) fn fingerprint(&self) -> String {
        // Each run of the command may authenticate another user.
        let printed = self.command.as_ref().map(|command| command.output());
        let printed =
            printed.map(|output| format!("{} {:?}", output.runs, output.headers.as_deref().map(name_value_pairs)));
        let token = self.token_provider.as_ref().map(|provider| provider.number());
        format!("{:?} {printed:?} {token:?}", name_value_pairs(&self.fixed))
    }

    /// Returns all headers of one request, and their version.
    pub(in crate::transport) async fn get(
        &self,
        request: RequestTarget<'_>,
    ) -> Result<(HeaderMap, HeaderVersion), HeaderError> {
        let mut headers = (*self.fixed).clone();
        let mut version = HeaderVersion::default();
        if let Some(provider) = &self.token_provider {
            let failed = |error: OAuthError| HeaderError::new(&error, HeaderError::Unusable(error.to_string()));
            let auth = provider.authorize(request).await.map_err(failed)?;
            let RequestAuth { authorization, proof, version: token } = auth;
            version.token = token;
            if let Some(authorization) = authorization {
                headers.insert(AUTHORIZATION, authorization);
            }
            if let Some(proof) = proof {
                headers.insert(DPOP, proof);
            }
        }
        if let Some(command) = &self.command {
            let (printed, runs) = command.get().await.map_err(HeaderError::Unusable)?;
            version.command = runs;
            headers.extend((*printed).clone());
        }
        Ok((headers, version))
    }

    /// Passes the headers of a response to the token provider.
    pub(in crate::transport) fn responded(&self, headers: &HeaderMap) {
        if let Some(provider) = &self.token_provider {
            provider.responded(headers);
        }
    }

    /// Gets newer headers than `version`, unless another request has done so: runs the command again, and passes the
    /// server's challenge to the token provider. Returns `false` if no newer headers are available.
    pub(in crate::transport) async fn refresh(
        &self,
        version: HeaderVersion,
        retries: &mut HeaderRetries,
        required: Option<&AuthRequired>,
    ) -> Result<bool, HeaderError> {
        if !retries.command
            && let Some(command) = &self.command
        {
            retries.command = true;
            command.run_after(version.command).await.map_err(HeaderError::Unusable)?;
            return Ok(true);
        }
        let (Some(provider), Some(required)) = (&self.token_provider, required) else { return Ok(false) };
        retries.tokens += 1;
        if retries.tokens > MAX_TOKEN_RETRIES {
            return Ok(false);
        }
        provider.refused(version.token, required).await.map_err(|error| {
            let reason = Some(error.to_string().into());
            HeaderError::new(&error, HeaderError::Auth(AuthRequired { reason, ..required.clone() }))
        })
    }
}

impl CommandHeaders {
    fn output(&self) -> CommandOutput {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the last headers, and how often the command has run.
    async fn get(&self) -> Result<(Arc<HeaderMap>, u64), String> {
        match self.output() {
            CommandOutput { runs, headers: Some(headers) } => Ok((headers, runs)),
            CommandOutput { runs, headers: None } => self.run_after(runs).await,
        }
    }

    /// Runs the command, unless it has run more than `runs` times. Concurrent callers share one run.
    async fn run_after(&self, runs: u64) -> Result<(Arc<HeaderMap>, u64), String> {
        let _turn = self.running.acquire().await;
        if let CommandOutput { runs: now, headers: Some(headers) } = self.output()
            && now != runs
        {
            return Ok((headers, now));
        }
        let printed = tokio::time::timeout(COMMAND_TIMEOUT, self.run()).await;
        let printed = printed.unwrap_or_else(|_| Err(format!("timed out after {} s", COMMAND_TIMEOUT.as_secs())));
        let headers = printed.map_err(|reason| format!("header command `{}` {reason}", self.command.command))?;
        let headers = Arc::new(headers);
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        *output = CommandOutput { runs: output.runs + 1, headers: Some(Arc::clone(&headers)) };
        Ok((headers, output.runs))
    }

    async fn run(&self) -> Result<HeaderMap, String> {
        let HeaderCommand { command, args, environment, directory, redactor } = self.command.clone();
        let args = args.into_iter().map(Into::into).collect();
        let spec = ChildSpec { command: command.into(), args, environment, cwd: directory, watcher: None };
        let (child, pipes) = Child::spawn(&spec).await.map_err(|error| format!("cannot be run: {error}"))?;
        drop(pipes.stdin);
        let mut output = String::new();
        let read = pipes.stdout.take(MAX_OUTPUT_BYTES).read_to_string(&mut output).await;
        read.map_err(|error| format!("printed unreadable output: {error}"))?;
        let exit = child.exited().await;
        child.stop(Grace::default()).await;
        if exit != Exit::Status(0) {
            // Its stderr may contain secrets.
            return Err(format!("{exit}; run it manually to see why"));
        }
        // Errors do not quote the output, which contains secrets.
        let pairs: std::collections::BTreeMap<String, String> =
            serde_json::from_str(&output).map_err(|_| "did not print a JSON object of strings".to_owned())?;
        if let Some(redactor) = redactor {
            for value in pairs.values() {
                redactor.add(&Secret::new(value.as_str()));
            }
        }
        parse_headers(&pairs.into_iter().collect::<Vec<_>>()).map_err(|error| format!("printed an {error}"))
    }
}

/// Returns names and values, including secret ones.
fn name_value_pairs(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}
