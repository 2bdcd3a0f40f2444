//! What a server is reached with: the environment, the network and the folders of the host.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wharf_auth::{AuthFailure, AuthFailureCache, TokenProvider};
use wharf_client::{HeaderCommand, Http, HttpSse, OpenError, RemoteOptions, Stdio, Transport, WebSocket};
use wharf_io::{ChildSpec, Environment, GroupWatcher, HttpSettings, ManagedSpec};
use wharf_protocol::Secret;

use wharf_config::{ManagedConfig, OAuthSettings, RemoteConfig, Server, StdioConfig, TransportConfig};

/// Tells how connections to an address are made, within a time.
pub type NetworkSettings = Arc<dyn Fn(&str, Duration) -> Result<HttpSettings, String> + Send + Sync>;

/// Tells who signs in to the server at an address, with what its entry says about that; `None` if nobody does.
pub type TokenProviders = Arc<dyn Fn(&str, &OAuthSettings) -> Option<Arc<dyn TokenProvider>> + Send + Sync>;

/// Everything servers get from the host.
#[derive(Clone)]
pub struct HostEnvironment {
    /// What the processes see besides what is configured for them.
    pub environment: Environment,
    /// Who hears of their groups.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
    /// How connections are made.
    pub network: NetworkSettings,
    /// Who signs in to servers at an address; nobody if absent.
    pub sign_ins: Option<TokenProviders>,
    /// Who was refused where a short while ago, and is not to try again so soon; nobody remembers if absent.
    pub refusals: Option<Arc<AuthFailureCache>>,
    /// Where processes run that are not told where.
    pub directory: Option<PathBuf>,
    /// Where the output of managed servers goes that is not told where.
    pub logs: PathBuf,
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
        }
    }
}

impl HostEnvironment {
    /// The way to a server. One that cannot be used as it is configured says so when it is opened.
    pub(super) fn transport(
        &self,
        server: &Server,
        connect: Duration,
        authority: Option<Arc<dyn TokenProvider>>,
    ) -> Arc<dyn Transport> {
        match self.try_transport(&server.reach, connect, authority) {
            Ok(transport) => transport,
            Err(reason) => Arc::new(move || {
                let reason = reason.clone();
                async move { Err(OpenError::Unusable(reason)) }
            }),
        }
    }

    fn try_transport(
        &self,
        reach: &TransportConfig,
        connect: Duration,
        authority: Option<Arc<dyn TokenProvider>>,
    ) -> Result<Arc<dyn Transport>, String> {
        let options =
            |remote: &RemoteConfig| Ok::<_, String>(RemoteOptions { authority, ..self.remote(remote, connect)? });
        Ok(match reach {
            TransportConfig::Stdio(launch) => Arc::new(self.stdio(launch)),
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
                Arc::new(Http::new(&remote.url, self.remote(&remote, connect)?).map_err(|error| error.to_string())?)
            }
            TransportConfig::Custom(_, transport) => Arc::clone(transport),
        })
    }

    fn stdio(&self, launch: &StdioConfig) -> Stdio {
        let mut stdio = Stdio::new(&launch.command, &launch.args, self.environment_of(launch));
        if let Some(watcher) = &self.watcher {
            stdio = stdio.watched_by(Arc::clone(watcher));
        }
        match launch.cwd.as_ref().or(self.directory.as_ref()) {
            Some(directory) => stdio.in_directory(directory),
            None => stdio,
        }
    }

    fn environment_of(&self, launch: &StdioConfig) -> Environment {
        let add = |environment: Environment, (name, value): (&String, &Secret)| environment.with(name, value.expose());
        launch.env.iter().fold(self.environment.clone(), add)
    }

    fn remote(&self, remote: &RemoteConfig, connect: Duration) -> Result<RemoteOptions, String> {
        let headers = remote.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
        let helper = remote.headers_helper.as_ref().and_then(|helper| {
            let (command, args) = helper.words.split_first()?;
            let environment = self.environment.clone();
            let directory = helper.cwd.clone().or_else(|| self.directory.clone());
            Some(HeaderCommand { command: command.clone(), args: args.to_vec(), environment, directory })
        });
        Ok(RemoteOptions {
            http: (self.network)(&remote.url, connect)?,
            headers: headers.collect(),
            helper,
            authority: None,
        })
    }

    /// Who signs in to a server, unless what is sent to it is settled already. Nobody does to what runs as a process of
    /// ours.
    pub(super) fn authority(&self, server: &Server) -> Option<Arc<dyn TokenProvider>> {
        let (TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote)) =
            &server.reach
        else {
            return None;
        };
        let settled = remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if settled || remote.headers_helper.is_some() {
            return None;
        }
        self.sign_ins.as_ref().and_then(|sign_ins| sign_ins(&remote.url, &remote.oauth))
    }

    /// What a server would refuse if it refused us now. Where a helper signs us in, nobody knows before.
    pub(super) async fn refusable(server: &Server, authority: Option<&dyn TokenProvider>) -> Option<AuthFailure> {
        let (TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote)) =
            &server.reach
        else {
            return None;
        };
        if remote.headers_helper.is_some() {
            return None;
        }
        let token = match authority {
            Some(authority) => authority.token().await.ok()?.0,
            None => None,
        };
        let shown = remote.headers.iter().map(|(name, value)| format!("{name}: {}", value.expose()));
        let shown: Vec<_> = shown.chain(token.map(|token| token.expose().to_owned())).collect();
        Some(AuthFailure { endpoint: remote.url.clone(), shown: shown.join("\n") })
    }

    /// What to start for a server that is managed.
    pub(super) fn managed(&self, name: &str, manage: &ManagedConfig) -> ManagedSpec {
        let launch = &manage.launch;
        let child = ChildSpec {
            command: launch.command.clone().into(),
            args: launch.args.iter().map(Into::into).collect(),
            environment: self.environment_of(launch),
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
