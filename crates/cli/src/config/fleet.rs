//! Opening a fleet: which servers it gets, with what the command line says about them.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use wharf::config::{ConfiguredServer, Eligibility, RemoteConfig};
use wharf::fleet::dispatch::{UserPrompt, host};
use wharf::fleet::{
    DisabledReason, Fleet, FleetOptions, HostEnvironment, Reconnection, Scope, Server, ServerSpec, TransportConfig,
};
use wharf::{
    GroupWatcher, Host, Http, HttpSse, ProtocolMode, RemoteOptions, Root, ServerName, SessionOptions, WebSocket,
};

use super::resolve::{find, usable_server};
use super::servers::{self, has_authorization, is_remote, remote_of};
use super::setup::{ServerSelection, Setup};
use super::{describe, network, sign_ins};
use crate::error::{UsageError, usage_error};
use crate::guard::Guard;
use crate::term::prompt::{DeclineAll, is_interactive};
use crate::{env, server_log, wire_trace};

/// What a fleet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FleetLifetime {
    /// One answer: nothing that failed is retried.
    OneShot,
    /// One look at the state of servers now: like `OneShot`, but servers that recently denied access are tried again.
    Recheck,
    /// A whole run: lost connections are made again.
    Session,
}

/// Why a server cannot be connected, known without trying.
pub(super) enum Unusable {
    /// The environment's network settings are wrong.
    Environment(UsageError),
    /// The server's own settings are wrong.
    Server(UsageError),
}

impl Unusable {
    pub(super) fn into_error(self) -> UsageError {
        match self {
            Self::Environment(error) | Self::Server(error) => error,
        }
    }
}

impl Setup {
    /// Opens a fleet of the selected servers. Those that may not be used are in it as well, with the reason.
    pub(crate) fn open(&self, selection: ServerSelection<'_>, lifetime: FleetLifetime) -> Result<Fleet, UsageError> {
        let specs = self.selected(selection)?;
        Ok(Fleet::open(self.checked(specs, selection)?, self.fleet_options(lifetime)?))
    }

    /// Opens a fleet that shows what servers offer. Some servers have tools for clients that answer questions only: they see
    /// the client that `call` is at a terminal, and their questions are declined.
    pub(crate) fn open_to_list(
        &self,
        selection: ServerSelection<'_>,
        lifetime: FleetLifetime,
    ) -> Result<Fleet, UsageError> {
        let prompt: Arc<dyn UserPrompt> = Arc::new(DeclineAll);
        let specs = self.selected(selection)?;
        let options = self.options_for_user(&specs, &prompt, lifetime)?;
        Ok(Fleet::open(self.checked(specs, selection)?, options))
    }

    /// Opens a fleet of one server. The server may ask the user.
    pub(crate) fn open_for_user(
        &self,
        name: &str,
        prompt: &Arc<dyn UserPrompt>,
        lifetime: FleetLifetime,
    ) -> Result<Fleet, UsageError> {
        let selection = ServerSelection::One(name);
        let specs = self.selected(selection)?;
        let options = self.options_for_user(&specs, prompt, lifetime)?;
        Ok(Fleet::open(self.checked(specs, selection)?, options))
    }

    /// Returns the options of a fleet whose tools are shown to a user: with whole descriptions. Local servers may ask for the
    /// directory of the project; a remote one could not use it.
    fn options_for_user(
        &self,
        specs: &[ServerSpec],
        prompt: &Arc<dyn UserPrompt>,
        lifetime: FleetLifetime,
    ) -> Result<FleetOptions, UsageError> {
        let local = specs.iter().filter(|spec| spec.server.transport.is_local());
        let local: BTreeSet<ServerName> = local.map(|spec| spec.server.name.clone()).collect();
        let root = Root::of_directory(&self.paths.project.root);
        let prompt = Arc::clone(prompt);
        let hosts = Arc::new(move |name: &ServerName| {
            let roots = if local.contains(name) { root.iter().cloned().collect() } else { Vec::new() };
            Arc::new(host(name.clone(), Arc::clone(&prompt), |_| ()).with_roots(roots)) as Arc<dyn Host>
        });
        let options = self.fleet_options(lifetime)?;
        let session = SessionOptions { max_description_chars: Some(usize::MAX), ..options.session };
        Ok(FleetOptions { hosts, session, ..options })
    }

    /// Opens a fleet of all servers, if any, which may ask the user.
    pub(crate) fn open_or_empty(
        &self,
        lifetime: FleetLifetime,
        prompt: &Arc<dyn UserPrompt>,
    ) -> Result<Fleet, UsageError> {
        let prompt = Arc::clone(prompt);
        let hosts = Arc::new(move |name: &ServerName| {
            Arc::new(host(name.clone(), Arc::clone(&prompt), |_| ())) as Arc<dyn Host>
        });
        let sign_in_prompt = is_interactive().then(|| self.sign_in_prompt());
        let options = FleetOptions { hosts, sign_in_prompt, ..self.fleet_options(lifetime)? };
        Ok(Fleet::open(self.checked(self.specs(), ServerSelection::All)?, options))
    }

    /// Opens a fleet of all servers without a user: nothing is asked.
    pub(crate) fn open_unattended(&self) -> Result<Fleet, UsageError> {
        let specs = self.checked(self.specs(), ServerSelection::All)?;
        Ok(Fleet::open(specs, self.fleet_options(FleetLifetime::Session)?))
    }

    /// Opens a fleet for diagnosis: servers with wrong settings are in it and fail. `None` without servers.
    pub(crate) fn open_unchecked(&self, selection: ServerSelection<'_>) -> Result<Option<Fleet>, UsageError> {
        let is_selected = |found: &&ConfiguredServer| match selection {
            ServerSelection::All => true,
            ServerSelection::One(name) => found.server.name.as_str() == name,
        };
        let specs: Vec<ServerSpec> = self.loaded.servers.iter().filter(is_selected).filter_map(spec).collect();
        if specs.is_empty() {
            return Ok(None);
        }
        self.check_headers(&specs, selection)?;
        let specs = self.apply_cli_overrides(specs, selection)?;
        Ok(Some(Fleet::open(specs, self.fleet_options(FleetLifetime::Recheck)?)))
    }

    /// Returns the server to sign in to, if it may be used and accepts a sign-in.
    pub(crate) fn sign_in_target(&self, name: &str) -> Result<RemoteConfig, UsageError> {
        let spec = ServerSpec { server: usable_server(&self.loaded, name)?, disabled: None };
        let specs = self.checked(vec![spec], ServerSelection::One(name))?;
        let Some(spec) = specs.first() else { return self.remote(name) };
        let remote = remote_of(name, &spec.server.transport)?;
        if has_authorization(&spec.server.transport) {
            let message =
                format!("server `{name}` has its own `Authorization` header, which a sign-in would not replace");
            let hint = "fix its `Authorization` header or its `headersHelper`, or remove it and sign in then";
            return Err(usage_error(message, Some(hint)));
        }
        Ok(remote)
    }

    /// Returns a remote server's settings, whether or not it may be used.
    pub(crate) fn remote(&self, name: &str) -> Result<RemoteConfig, UsageError> {
        remote_of(name, &find(&self.loaded, name)?.server.transport)
    }

    /// Returns the selected servers for a fleet, at least one.
    fn selected(&self, selection: ServerSelection<'_>) -> Result<Vec<ServerSpec>, UsageError> {
        let specs = match selection {
            ServerSelection::One(name) => {
                vec![ServerSpec { server: usable_server(&self.loaded, name)?, disabled: None }]
            }
            ServerSelection::All => self.specs(),
        };
        if specs.is_empty() && self.loaded.errors().next().is_some() {
            let message = "no server can be used until the configuration is fixed";
            return Err(usage_error(message.to_owned(), Some("show its problems: wharf doctor")));
        }
        if specs.is_empty() {
            let hint = "add one: wharf add NAME URL|COMMAND, or pass one: --mcp 'time=uvx mcp-server-time'";
            return Err(usage_error("no servers configured".to_owned(), Some(hint)));
        }
        Ok(specs)
    }

    /// Returns all servers for a fleet, without those that another one replaces.
    pub(super) fn specs(&self) -> Vec<ServerSpec> {
        self.loaded.servers.iter().filter_map(spec).collect()
    }

    /// Applies the command line and checks the network settings. A mistake on the command line or in the environment is a
    /// usage error; one in the entry of a configured server disables that server.
    fn checked(&self, specs: Vec<ServerSpec>, selection: ServerSelection<'_>) -> Result<Vec<ServerSpec>, UsageError> {
        self.check_headers(&specs, selection)?;
        let mut specs = self.apply_cli_overrides(specs, selection)?;
        for spec in specs.iter_mut().filter(|spec| spec.disabled.is_none()) {
            match self.check_network(&spec.server) {
                Ok(()) => {}
                Err(Unusable::Server(error))
                    if selection == ServerSelection::All && spec.server.scope != Scope::Dynamic =>
                {
                    spec.disabled = Some(DisabledReason::Refused(error.message));
                }
                Err(unusable) => return Err(unusable.into_error()),
            }
        }
        Ok(specs)
    }

    /// Checks that `--header` is for exactly one server, and that this server is used.
    fn check_headers(&self, specs: &[ServerSpec], selection: ServerSelection<'_>) -> Result<(), UsageError> {
        if servers::headers(&self.globals)?.is_empty() {
            return Ok(());
        }
        let accepts = |server: &Server| selection.names(server) && is_remote(&server.transport);
        // Two names for one URL are two servers here: which of them was meant is unknown.
        let count = match selection {
            ServerSelection::One(_) => specs.iter().filter(|spec| accepts(&spec.server)).count(),
            ServerSelection::All => self.loaded.servers.iter().filter(|found| accepts(&found.server)).count(),
        };
        if count != 1 {
            let message = format!("--header needs exactly one remote server, found {count}");
            return Err(usage_error(message, Some("name one with --mcp NAME=URL, or run the command once per server")));
        }
        if !specs.iter().any(|spec| accepts(&spec.server)) {
            let message = "--header is for a server that is not used: another one is configured at the same URL";
            return Err(usage_error(message.to_owned(), Some("ignore configured servers with --only-mcp")));
        }
        Ok(())
    }

    /// Applies the options of the command line. Headers and variables may be secret, so only servers that the command line
    /// names get them.
    pub(super) fn apply_cli_overrides(
        &self,
        mut specs: Vec<ServerSpec>,
        selection: ServerSelection<'_>,
    ) -> Result<Vec<ServerSpec>, UsageError> {
        let headers = servers::headers(&self.globals)?;
        let variables = servers::variables(&self.globals)?;
        for ServerSpec { server, .. } in &mut specs {
            server.settings.protocol = self.protocols.of(&server.name).unwrap_or(server.settings.protocol);
            // Options win over the configuration.
            if self.globals.timeout.is_some() {
                server.settings.timeout = self.session.deadlines.total;
            }
            if self.globals.connect_timeout.is_some() {
                server.settings.connect_timeout = Some(self.session.deadlines.connect);
            }
            if !selection.names(server) {
                continue;
            }
            server.settings.required = true;
            match &mut server.transport {
                TransportConfig::Stdio(stdio) => stdio.env.extend(variables.clone()),
                TransportConfig::Managed(managed) => managed.launch.env.extend(variables.clone()),
                TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
                    remote
                        .headers
                        .retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
                    remote.headers.extend(headers.clone());
                }
                TransportConfig::Custom(..) => {}
            }
        }
        Ok(specs)
    }

    /// Checks a remote server's URL, headers and network settings, without connecting.
    pub(super) fn check_network(&self, server: &Server) -> Result<(), Unusable> {
        let connect = server.settings.connect_timeout.unwrap_or(self.session.deadlines.connect);
        let options = |remote: &RemoteConfig| {
            let headers =
                remote.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
            let http = network::settings(connect, &remote.url).map_err(Unusable::Environment)?;
            Ok::<_, Unusable>(RemoteOptions { http, headers, ..RemoteOptions::default() })
        };
        let checked = match &server.transport {
            TransportConfig::Http(remote) => Http::new(&remote.url, options(remote)?).map(drop),
            TransportConfig::Sse(remote) => HttpSse::new(&remote.url, options(remote)?).map(drop),
            TransportConfig::WebSocket(remote) => WebSocket::new(&remote.url, options(remote)?).map(drop),
            TransportConfig::Stdio(_) | TransportConfig::Managed(_) | TransportConfig::Custom(..) => Ok(()),
        };
        checked.map_err(|error| Unusable::Server(usage_error(format!("{}: {error}", server.name), None)))
    }

    fn fleet_options(&self, lifetime: FleetLifetime) -> Result<FleetOptions, UsageError> {
        let watcher: Arc<dyn GroupWatcher> = Guard::start();
        let host_environment = HostEnvironment {
            environment: env::for_servers(),
            watcher: Some(watcher),
            network: Arc::new(|url, connect| network::settings(connect, url).map_err(|error| error.message)),
            sign_ins: sign_ins::token_providers(&self.paths, self.session.deadlines.connect),
            refusals: self.auth_failures().map(Arc::new),
            // Explicit, because caches identify a relative command by its directory.
            directory: std::env::current_dir().ok(),
            logs: self.paths.cache.as_ref().map_or_else(std::env::temp_dir, |cache| cache.join("logs")),
            redactor: Some(self.redactor.clone()),
            log: server_log::open(self.paths.logs.clone(), &self.redactor),
        };
        let trace = self.globals.trace.as_deref();
        let observer = trace.map(|file| wire_trace::observer(file, &self.redactor)).transpose()?;
        let rules = Arc::clone(&self.rules);
        Ok(FleetOptions {
            local_gate: self.gates.local,
            remote_gate: self.gates.remote,
            host_environment,
            // Each server has its protocol mode already.
            session: SessionOptions { protocol: ProtocolMode::Auto, observer, ..self.session.clone() },
            reconnection: match lifetime {
                FleetLifetime::OneShot | FleetLifetime::Recheck => Reconnection::NONE,
                FleetLifetime::Session => Reconnection::default(),
            },
            ignore_auth_failure_cache: lifetime == FleetLifetime::Recheck,
            server_filter: Arc::new(move |server| rules.read().unwrap_or_else(PoisonError::into_inner).permits(server)),
            ..FleetOptions::default()
        })
    }
}

/// Returns a server as the fleet gets it; `None` if another server replaces it.
fn spec(found: &ConfiguredServer) -> Option<ServerSpec> {
    let reason = describe::reason(found).unwrap_or_default();
    let disabled = match &found.eligibility {
        Eligibility::Ready => None,
        Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_) => Some(DisabledReason::Approval(reason)),
        Eligibility::Disabled(_) => Some(match found.lock {
            Some(lock) => DisabledReason::Locked(format!("{reason}, and {lock}")),
            None => DisabledReason::SwitchedOff(reason),
        }),
        Eligibility::Refused(_) => Some(DisabledReason::Refused(reason)),
        Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. } => return None,
    };
    Some(ServerSpec { server: found.server.clone(), disabled })
}
