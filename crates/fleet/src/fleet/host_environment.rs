//! What the host provides to servers: environment, network and directories.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wharf_auth::{AuthFailure, AuthFailureCache, TokenProvider};
use wharf_client::{HeaderCommand, Http, HttpSse, OpenError, RemoteOptions, Stdio, Transport, WebSocket};
use wharf_io::{ChildSpec, Environment, GroupWatcher, HttpSettings, ManagedSpec};
use wharf_protocol::{Redactor, Secret};

use super::redacted_tokens::RedactedTokens;
use super::server_log::{ServerLog, stderr_observer};
use wharf_config::{
    ManagedConfig, OAuthSettings, RemoteConfig, Scope, Server, StdioConfig, TransportConfig, imports_from_directory,
};

/// Returns the HTTP settings for a URL and a connect timeout.
pub type NetworkSettings = Arc<dyn Fn(&str, Duration) -> Result<HttpSettings, String> + Send + Sync>;

/// Returns the token provider for a URL and the OAuth settings of its entry; `None` if it needs none.
pub type TokenProviders = Arc<dyn Fn(&str, &OAuthSettings) -> Option<Arc<dyn TokenProvider>> + Send + Sync>;

/// What the host provides to servers.
#[derive(Clone)]
pub struct HostEnvironment {
    /// The environment variables of processes, besides the configured ones.
    pub environment: Environment,
    /// Receives the process groups.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
    /// The network settings.
    pub network: NetworkSettings,
    /// The token providers of remote servers; none if absent.
    pub sign_ins: Option<TokenProviders>,
    /// The cache of recent authorization failures, which delays the next attempt; no cache if absent.
    pub refusals: Option<Arc<AuthFailureCache>>,
    /// The working directory of processes without a configured one.
    pub directory: Option<PathBuf>,
    /// The directory for the logs of managed servers without a configured one.
    pub logs: PathBuf,
    /// Receives the secrets of servers: values of their entries, tokens and printed headers. None if nothing is stored.
    pub redactor: Option<Redactor>,
    /// Receives the states of servers and their stderr. None if absent.
    pub log: Option<Arc<dyn ServerLog>>,
}

impl Default for HostEnvironment {
    fn default() -> Self {
        Self {
            environment: Environment::default(),
            watcher: None,
            network: Arc::new(|_, connect| Ok(HttpSettings { connect, ..HttpSettings::default() })),
            sign_ins: None,
            refusals: None,
            directory: None,
            logs: PathBuf::from("."),
            redactor: None,
            log: None,
        }
    }
}

impl HostEnvironment {
    /// Creates the transport of a server. An invalid configuration becomes an error when the transport is opened.
    pub(super) fn transport(
        &self,
        server: &Server,
        connect: Duration,
        token_provider: Option<Arc<dyn TokenProvider>>,
    ) -> Arc<dyn Transport> {
        if let Some(redactor) = &self.redactor {
            for secret in server.secrets() {
                redactor.add(&secret);
            }
        }
        match self.try_transport(server, connect, token_provider) {
            Ok(transport) => transport,
            Err(reason) => Arc::new(move || {
                let reason = reason.clone();
                async move { Err(OpenError::Unusable(reason)) }
            }),
        }
    }

    fn try_transport(
        &self,
        server: &Server,
        connect: Duration,
        token_provider: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Arc<dyn Transport>, String> {
        let scope = server.scope;
        let options = |remote: &RemoteConfig| {
            Ok::<_, String>(RemoteOptions { token_provider, ..self.remote_options(remote, scope, connect)? })
        };
        Ok(match &server.transport {
            TransportConfig::Stdio(launch) => Arc::new(self.stdio(server, launch)),
            TransportConfig::Http(remote) => {
                Arc::new(Http::new(&remote.url, options(remote)?).map_err(|error| error.to_string())?)
            }
            TransportConfig::Sse(remote) => {
                Arc::new(HttpSse::new(&remote.url, options(remote)?).map_err(|error| error.to_string())?)
            }
            TransportConfig::WebSocket(remote) => {
                Arc::new(WebSocket::new(&remote.url, options(remote)?).map_err(|error| error.to_string())?)
            }
            TransportConfig::Managed(manage) => {
                let oauth = OAuthSettings::default();
                let headers = manage.headers.clone();
                let remote = RemoteConfig { url: url(manage), headers, headers_helper: None, oauth };
                Arc::new(
                    Http::new(&remote.url, self.remote_options(&remote, scope, connect)?)
                        .map_err(|error| error.to_string())?,
                )
            }
            TransportConfig::Custom(_, transport) => Arc::clone(transport),
        })
    }

    fn stdio(&self, server: &Server, launch: &StdioConfig) -> Stdio {
        let mut stdio = Stdio::new(&launch.command, &launch.args, self.environment_of(launch, server.scope));
        if let Some(log) = &self.log {
            stdio = stdio.with_stderr(stderr_observer(log, &server.name));
        }
        if let Some(watcher) = &self.watcher {
            stdio = stdio.watched_by(Arc::clone(watcher));
        }
        match launch.cwd.as_ref().or(self.directory.as_ref()) {
            Some(directory) => stdio.in_directory(directory),
            None => stdio,
        }
    }

    fn environment_of(&self, launch: &StdioConfig, scope: Scope) -> Environment {
        let add = |environment: Environment, (name, value): (&String, &Secret)| environment.with(name, value.expose());
        launch.env.iter().fold(self.base_environment(&launch.command, &launch.args, scope), add)
    }

    /// Returns the environment of a command, without the configured variables.
    ///
    /// The working directory is often a repository that the user did not write. A Python with `-m` or `-c` would import
    /// its files in place of installed modules. Entries of the user and the enterprise are for every directory, so they
    /// cannot mean those files; a project's entry is approved, and a local one is written for its directory.
    fn base_environment(&self, command: &str, args: &[String], scope: Scope) -> Environment {
        let environment = self.environment.clone().for_command(command);
        let is_for_all_directories = matches!(scope, Scope::Enterprise | Scope::User);
        if is_for_all_directories && imports_from_directory(command, args) {
            return environment.with("PYTHONSAFEPATH", "1");
        }
        environment
    }

    fn remote_options(&self, remote: &RemoteConfig, scope: Scope, connect: Duration) -> Result<RemoteOptions, String> {
        let headers = remote.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
        let helper = remote.headers_helper.as_ref().and_then(|helper| {
            let (command, args) = helper.words.split_first()?;
            let environment = self.base_environment(command, args, scope);
            let directory = helper.cwd.clone().or_else(|| self.directory.clone());
            let redactor = self.redactor.clone();
            Some(HeaderCommand { command: command.clone(), args: args.to_vec(), environment, directory, redactor })
        });
        Ok(RemoteOptions {
            http: (self.network)(&remote.url, connect)?,
            headers: headers.collect(),
            header_command: helper,
            token_provider: None,
        })
    }

    /// Returns the token provider of a remote server, unless its configuration already determines its authorization.
    pub(super) fn token_provider(&self, server: &Server) -> Option<Arc<dyn TokenProvider>> {
        let (TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote)) =
            &server.transport
        else {
            return None;
        };
        let is_configured = remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if is_configured || remote.headers_helper.is_some() {
            return None;
        }
        let provider = self.sign_ins.as_ref().and_then(|sign_ins| sign_ins(&remote.url, &remote.oauth))?;
        Some(match &self.redactor {
            Some(redactor) => Arc::new(RedactedTokens { inner: provider, redactor: redactor.clone() }),
            None => provider,
        })
    }

    /// Returns the cache key of an authorization failure of the next attempt. With a header command it is unknown in
    /// advance.
    pub(super) async fn auth_failure_key(
        server: &Server,
        token_provider: Option<&dyn TokenProvider>,
    ) -> Option<AuthFailure> {
        let (TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote)) =
            &server.transport
        else {
            return None;
        };
        if remote.headers_helper.is_some() {
            return None;
        }
        let token = match token_provider {
            Some(provider) => provider.token().await.ok()?.0,
            None => None,
        };
        let credentials = remote.headers.iter().map(|(name, value)| format!("{name}: {}", value.expose()));
        let credentials: Vec<_> = credentials.chain(token.map(|token| token.expose().to_owned())).collect();
        Some(AuthFailure { endpoint: remote.url.clone(), shown: credentials.join("\n") })
    }

    /// Returns the process of a managed server.
    pub(super) fn managed_spec(&self, server: &Server, manage: &ManagedConfig) -> ManagedSpec {
        let name = server.name.as_str();
        let launch = &manage.launch;
        let child = ChildSpec {
            command: launch.command.clone().into(),
            args: launch.args.iter().map(Into::into).collect(),
            environment: self.environment_of(launch, server.scope),
            cwd: launch.cwd.clone().or_else(|| self.directory.clone()),
            watcher: self.watcher.clone(),
        };
        let log_path = manage.log_path.clone().unwrap_or_else(|| self.logs.join(format!("{name}.log")));
        ManagedSpec {
            host: manage.host,
            port: manage.port,
            path: manage.path.clone(),
            startup_timeout: manage.startup_timeout,
            shutdown_timeout: manage.shutdown_timeout,
            ..ManagedSpec::new(name, child, log_path)
        }
    }
}

fn url(manage: &ManagedConfig) -> String {
    let address = std::net::SocketAddr::new(manage.host, manage.port);
    format!("http://{address}{}", manage.path)
}
