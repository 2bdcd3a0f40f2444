//! From the command line, the environment and the files to a fleet.
//!
//! [`Setup::load`] reads every scope and tells what is wrong with them; [`Setup::open`] makes a fleet of all servers or
//! of one. Commands that only look at the configuration, or change it, use [`Setup::read`], which asks nobody.

mod cloud;
mod follow;
mod signed;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use wharf::config::{
    Approvals, ApprovalsError, ConfiguredServer, DisabledBy, Eligibility, InvalidEntry, Loaded, Problem, RemoteConfig,
    Rules, Severity, Sources, Variables, WatchedFiles, load,
};
use wharf::fleet::dispatch::{UserPrompt, host};
use wharf::fleet::{
    DisabledReason, Fleet, FleetOptions, HostEnvironment, Reconnection, Scope, Server, ServerSpec, TransportConfig,
};
use wharf::{GroupWatcher, Host, Http, HttpSse, ProtocolMode, RemoteOptions, ServerName, SessionOptions, WebSocket};

use crate::args::Globals;
use crate::asker::is_anybody_there;
use crate::guard::Guard;
use crate::limits::{self, Gates};
use crate::places::Places;
use crate::servers::{self, Misuse, Protocols, instead_of, is_remote, misuse};
use crate::{describe, dispatcher, network, render, sign_ins, surroundings};

/// How long is waited for servers in all. Each has deadlines of its own; this only says that there is an end.
pub(crate) const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Everything that is configured, and what was said on the command line.
pub(crate) struct Setup {
    pub(crate) places: Places,
    pub(crate) loaded: Loaded,
    pub(crate) variables: Variables,
    pub(crate) session: SessionOptions,
    /// Where all this was found.
    sources: Sources,
    /// The same files, as they were before they were read.
    watched: WatchedFiles,
    /// The rules as they were last read, for servers that are added while running.
    rules: Arc<RwLock<Rules>>,
    globals: Globals,
    protocols: Protocols,
    gates: Gates,
}

/// Why a server cannot be reached, which is known without trying.
enum Unusable {
    /// What the environment says about the network makes no sense.
    Surroundings(Misuse),
    /// What is said about the server makes no sense.
    Server(Misuse),
}

/// Which servers are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which<'a> {
    All,
    One(&'a str),
}

/// What a fleet is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// One answer, and then it is closed: nothing that failed is tried again.
    Once,
    /// The same for somebody who wants to know how a server is doing now: whoever refused us is asked again.
    Anew,
    /// As long as somebody needs it.
    Lasting,
}

impl Setup {
    /// Reads every scope, a provider's too, and tells on stderr what is wrong with them.
    pub(crate) async fn load(globals: &Globals) -> Result<Self, Misuse> {
        Self::load_for(globals, Which::All).await
    }

    /// The same with servers beside those of the command line, which need no other name than they have.
    pub(crate) async fn load_beside(globals: &Globals, servers: Vec<Server>) -> Result<Self, Misuse> {
        let mut setup = Self::from_files_beside(globals, servers)?;
        if !globals.only_mcp {
            setup.ask_provider().await;
        }
        setup.check()?;
        setup.tell(Which::All);
        Ok(setup)
    }

    /// The same for a command that needs only some servers: what is wrong with the others is not told, and a provider is
    /// not asked for what is known already.
    pub(crate) async fn load_for(globals: &Globals, which: Which<'_>) -> Result<Self, Misuse> {
        let setup = Self::assemble(globals, which).await?;
        setup.check()?;
        setup.tell(which);
        Ok(setup)
    }

    /// Reads every scope and says nothing about what is wrong with them. A provider is asked, too.
    pub(crate) async fn load_quietly(globals: &Globals) -> Result<Self, Misuse> {
        let setup = Self::assemble(globals, Which::All).await?;
        setup.check()?;
        Ok(setup)
    }

    /// Reads the files and says nothing.
    pub(crate) fn read(globals: &Globals) -> Result<Self, Misuse> {
        Self::from_files(globals)
    }

    async fn assemble(globals: &Globals, which: Which<'_>) -> Result<Self, Misuse> {
        let mut setup = Self::from_files(globals)?;
        let known = matches!(which, Which::One(name) if setup.names().contains(&name));
        if !known && !globals.only_mcp {
            setup.ask_provider().await;
        }
        Ok(setup)
    }

    fn from_files(globals: &Globals) -> Result<Self, Misuse> {
        Self::from_files_beside(globals, Vec::new())
    }

    fn from_files_beside(globals: &Globals, beside: Vec<Server>) -> Result<Self, Misuse> {
        let places = Places::find(globals)?;
        let (protocols, gates) = (Protocols::read(globals)?, Gates::read());
        let (session, odd) = limits::session(globals, &places)?;
        let dynamic = servers::dynamic(globals, beside)?;
        let sources = sources(&places, dynamic, globals.only_mcp);
        // Before they are read: what is changed from now on is noticed.
        let watched = WatchedFiles::new(follow::files(&sources, &places));
        let variables = surroundings::variables();
        let (approvals, problem) = approvals(&places);
        let mut loaded = load(&sources, &variables, &approvals);
        loaded.problems.extend(problem);
        let warnings: Vec<String> = gates.warnings.iter().cloned().chain(odd).collect();
        let gates = Gates { warnings, ..gates };
        let globals = globals.clone();
        let rules = Arc::new(RwLock::new(loaded.rules.clone()));
        Ok(Self { places, loaded, variables, session, sources, watched, rules, globals, protocols, gates })
    }

    /// The names of all servers that can be asked for.
    pub(crate) fn names(&self) -> Vec<&str> {
        let servers =
            self.loaded.servers.iter().filter(|found| !matches!(found.standing, Eligibility::Shadowed { .. }));
        let names = servers.map(|found| found.server.name.as_str());
        let mut names: Vec<&str> = names.chain(self.loaded.broken.iter().map(|broken| broken.name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What was said on the command line has to fit what is configured.
    fn check(&self) -> Result<(), Misuse> {
        let Loaded { servers, broken, .. } = &self.loaded;
        for ConfiguredServer { server, standing, .. } in
            servers.iter().filter(|found| found.server.scope == Scope::Dynamic)
        {
            let configured = |found: &&ConfiguredServer| {
                found.server.name == server.name && !matches!(found.server.scope, Scope::Dynamic | Scope::Cloud)
            };
            let origin = servers.iter().find(configured).map(|found| found.server.origin.as_ref());
            let broken =
                broken.iter().find(|broken| broken.name == server.name.as_str() && broken.scope != Scope::Cloud);
            if let Some(origin) = origin.or_else(|| broken.map(|broken| Some(&broken.origin))) {
                let place = origin.map(|origin| format!(", in {}:{}", origin.file.display(), origin.line));
                let what = format!("--mcp {}: it is configured already{}", server.name, place.unwrap_or_default());
                return Err(misuse(what, Some("take another name, or leave the configured ones out with --only-mcp")));
            }
            if let Eligibility::Refused(reason) = standing {
                return Err(misuse(format!("the server `{}` may not be used: {reason}", server.name), None));
            }
        }
        self.protocols.check(&self.names())
    }

    /// Tells what is wrong with the configuration, as far as it concerns the servers that are wanted.
    fn tell(&self, which: Which<'_>) {
        self.tell_those(|problem| match (which, &problem.server) {
            (Which::One(wanted), Some(server)) => server == wanted,
            _ => true,
        });
    }

    /// Tells some of what is wrong: errors always, warnings unless they are not wanted, and notes to those who ask.
    pub(crate) fn tell_those(&self, concerns: impl Fn(&Problem) -> bool) {
        let Globals { quiet, verbose, .. } = self.globals;
        for warning in self.gates.warnings.iter().filter(|_| !quiet) {
            render::warning(warning);
        }
        for problem in self.loaded.problems.iter().filter(|problem| concerns(problem)) {
            match problem.severity {
                Severity::Warning if quiet => {}
                Severity::Note if !verbose => {}
                _ => render::problem(problem),
            }
        }
    }

    /// What was said on the command line.
    pub(crate) fn globals(&self) -> &Globals {
        &self.globals
    }

    /// Whether somebody wants to know more.
    pub(crate) fn is_verbose(&self) -> bool {
        self.globals.verbose
    }

    /// Whether the configured servers were left out.
    pub(crate) fn is_partial(&self) -> bool {
        self.globals.only_mcp
    }

    /// Tells what is wrong with rules and hooks, for commands that do without them.
    pub(crate) fn tell_rules(&self) {
        let wanted = |problem: &&Problem| problem.is_error() || self.globals.verbose;
        dispatcher::problems(self).iter().filter(wanted).for_each(render::problem);
    }

    /// What is needed and cannot be had, since it cannot even be understood: entries that say so themselves; if it is
    /// `strict`, every entry and every file.
    pub(crate) fn missing(&self, strict: bool) -> Vec<Misuse> {
        let needed = |broken: &&InvalidEntry| {
            let decides = self.loaded.find_broken(&broken.name) == Some(*broken);
            decides && broken.disabled.is_none() && (strict || broken.required)
        };
        let entries = self.loaded.broken.iter().filter(needed).map(unusable);
        let files = self.loaded.lost.iter().filter(|_| strict).map(|(scope, file)| {
            misuse(format!("{}: the servers of the {scope} scope cannot be read", file.display()), None)
        });
        entries.chain(files).collect()
    }

    /// A fleet of all servers that may be connected, or of the one that is wanted. Those that may not are in it too, and
    /// say why.
    pub(crate) fn open(&self, which: Which<'_>, how: How) -> Result<Fleet, Misuse> {
        let enlisted = match which {
            Which::One(name) => vec![ServerSpec { server: self.wanted(name)?, hold: None }],
            Which::All => self.loaded.servers.iter().filter_map(enlist).collect(),
        };
        if enlisted.is_empty() {
            let hint =
                "add one: wharf add NAME URL|COMMAND, or name one for this call: --mcp 'time=uvx mcp-server-time'";
            return Err(misuse("there are no servers".to_owned(), Some(hint)));
        }
        Ok(Fleet::open(self.checked(enlisted, which)?, self.fleet_options(how)))
    }

    /// A fleet of all servers for somebody who can do without any, and whom servers may ask.
    pub(crate) fn open_or_empty(&self, how: How, asker: &Arc<dyn UserPrompt>) -> Result<Fleet, Misuse> {
        let enlisted = self.loaded.servers.iter().filter_map(enlist).collect();
        let asker = Arc::clone(asker);
        let hosts = Arc::new(move |name: &ServerName| {
            Arc::new(host(name.clone(), Arc::clone(&asker), |_| ())) as Arc<dyn Host>
        });
        let signs_in = is_anybody_there().then(|| self.signs_in());
        let options = FleetOptions { hosts, sign_in_prompt: signs_in, ..self.fleet_options(how) };
        Ok(Fleet::open(self.checked(enlisted, Which::All)?, options))
    }

    /// The servers with what the command line says about them. What is wrong with the command line or the environment is
    /// wrong usage; what is wrong with a server that is only configured costs that server.
    fn checked(&self, mut enlisted: Vec<ServerSpec>, which: Which<'_>) -> Result<Vec<ServerSpec>, Misuse> {
        self.check_headers(&enlisted, which)?;
        self.dress(&mut enlisted, which)?;
        for one in enlisted.iter_mut().filter(|one| one.hold.is_none()) {
            match self.check_network(&one.server) {
                Ok(()) => {}
                Err(Unusable::Server(misuse)) if which == Which::All && one.server.scope != Scope::Dynamic => {
                    one.hold = Some(DisabledReason::Refused(misuse.what));
                }
                Err(Unusable::Server(misuse) | Unusable::Surroundings(misuse)) => return Err(misuse),
            }
        }
        Ok(enlisted)
    }

    /// A fleet to be looked at: what cannot be used as it is says so itself. `None` if there is nothing to connect.
    pub(crate) fn open_as_is(&self, which: Which<'_>) -> Result<Option<Fleet>, Misuse> {
        let is_wanted = |found: &&ConfiguredServer| match which {
            Which::All => true,
            Which::One(name) => found.server.name.as_str() == name,
        };
        let mut enlisted: Vec<ServerSpec> = self.loaded.servers.iter().filter(is_wanted).filter_map(enlist).collect();
        if enlisted.is_empty() {
            return Ok(None);
        }
        self.check_headers(&enlisted, which)?;
        self.dress(&mut enlisted, which)?;
        Ok(Some(Fleet::open(enlisted, self.fleet_options(How::Anew))))
    }

    /// The server a name stands for, if it can be used; if not, why not, and what to do.
    fn wanted(&self, name: &str) -> Result<Server, Misuse> {
        if let Some(broken) = self.loaded.find_broken(name) {
            let off = |by| misuse(format!("the server `{name}` is switched off, {}", switched_off(by)), None);
            return Err(broken.disabled.map_or_else(|| unusable(broken), off));
        }
        let Some(found) = self.loaded.find(name) else {
            return Err(misuse(format!("there is no server `{name}`"), Some(&instead_of(name, &self.names()))));
        };
        let approve = format!("look at what it runs, and approve it: wharf approve {name}");
        match &found.standing {
            Eligibility::Ready => Ok(found.server.clone()),
            Eligibility::NeedsApproval(_) => {
                Err(misuse(format!("the server `{name}` of this project needs your approval first"), Some(&approve)))
            }
            Eligibility::ApprovalChanged(_) => {
                Err(misuse(format!("the server `{name}` has changed since you approved it"), Some(&approve)))
            }
            Eligibility::Disabled(by) => {
                let hint = format!("switch it on: wharf enable {name}");
                let hint = can_be_switched_on(found).then_some(hint);
                Err(misuse(format!("the server `{name}` is switched off, {}", switched_off(*by)), hint.as_deref()))
            }
            Eligibility::Refused(reason) => Err(misuse(format!("the server `{name}` may not be used: {reason}"), None)),
            Eligibility::Duplicate { of } => {
                let what = format!("the server `{name}` is the same as `{of}`, which is used in its place");
                Err(misuse(what, Some(&format!("use `{of}`"))))
            }
            Eligibility::Shadowed { by } => {
                Err(misuse(format!("the server `{name}` is hidden by one of the {by} scope"), None))
            }
        }
    }

    /// Headers are for one server, and it has to be there to get them.
    fn check_headers(&self, enlisted: &[ServerSpec], which: Which<'_>) -> Result<(), Misuse> {
        if servers::headers(&self.globals)?.is_empty() {
            return Ok(());
        }
        let takes = |server: &Server| is_named(server, which) && is_remote(&server.reach);
        // Two names of one address are two servers here: which of them was meant is not known.
        let remote = match which {
            Which::One(_) => enlisted.iter().filter(|one| takes(&one.server)).count(),
            Which::All => self.loaded.servers.iter().filter(|found| takes(&found.server)).count(),
        };
        if remote != 1 {
            let what = format!("--header is for one server at a URL, and there are {remote}");
            return Err(misuse(what, Some("name one server with --mcp NAME=URL, or call them one after the other")));
        }
        if !enlisted.iter().any(|one| takes(&one.server)) {
            let what = "--header is for a server that is not used: another one is configured at the same address";
            return Err(misuse(what.to_owned(), Some("leave the configured ones out with --only-mcp")));
        }
        Ok(())
    }

    /// Gives the servers what the command line says about them. Headers and variables may be secret, so they go only to
    /// servers that are named on it.
    fn dress(&self, enlisted: &mut [ServerSpec], which: Which<'_>) -> Result<(), Misuse> {
        let (headers, variables) = (servers::headers(&self.globals)?, servers::variables(&self.globals)?);
        for ServerSpec { server, .. } in enlisted {
            server.settings.protocol = self.protocols.of(&server.name).unwrap_or(server.settings.protocol);
            // What is said for this call counts more than what is written down.
            if self.globals.timeout.is_some() {
                server.settings.timeout = self.session.deadlines.total;
            }
            if self.globals.connect_timeout.is_some() {
                server.settings.connect_timeout = Some(self.session.deadlines.connect);
            }
            if !is_named(server, which) {
                continue;
            }
            server.settings.required = true;
            match &mut server.reach {
                TransportConfig::Stdio(launch) => launch.env.extend(variables.clone()),
                TransportConfig::Managed(manage) => manage.launch.env.extend(variables.clone()),
                TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
                    remote
                        .headers
                        .retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
                    remote.headers.extend(headers.clone());
                }
                TransportConfig::Custom(..) => {}
            }
        }
        Ok(())
    }

    /// Whether a server can be reached as it is written, as far as that can be said without trying: what is wrong in the
    /// environment or on the command line is wrong usage, and not a server's failure.
    fn check_network(&self, server: &Server) -> Result<(), Unusable> {
        let connect = server.settings.connect_timeout.unwrap_or(self.session.deadlines.connect);
        let options = |remote: &RemoteConfig| {
            let headers =
                remote.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
            let http = network::settings(connect, &remote.url).map_err(Unusable::Surroundings)?;
            Ok::<_, Unusable>(RemoteOptions { http, headers, ..RemoteOptions::default() })
        };
        let checked = match &server.reach {
            TransportConfig::Http(remote) => Http::new(&remote.url, options(remote)?).map(drop),
            TransportConfig::Sse(remote) => HttpSse::new(&remote.url, options(remote)?).map(drop),
            TransportConfig::WebSocket(remote) => WebSocket::new(&remote.url, options(remote)?).map(drop),
            TransportConfig::Stdio(_) | TransportConfig::Managed(_) | TransportConfig::Custom(..) => Ok(()),
        };
        checked.map_err(|error| Unusable::Server(misuse(format!("{}: {error}", server.name), None)))
    }

    fn fleet_options(&self, how: How) -> FleetOptions {
        let watcher: Arc<dyn GroupWatcher> = Guard::start();
        let host_environment = HostEnvironment {
            environment: surroundings::shared(),
            watcher: Some(watcher),
            network: Arc::new(|url, connect| network::settings(connect, url).map_err(|misuse| misuse.what)),
            sign_ins: sign_ins::quietly(&self.places, self.session.deadlines.connect),
            refusals: self.refusals().map(Arc::new),
            // Said, so that what is remembered of a relative command is remembered of it here.
            directory: std::env::current_dir().ok(),
            logs: self.places.cache.as_ref().map_or_else(std::env::temp_dir, |cache| cache.join("logs")),
        };
        let rules = Arc::clone(&self.rules);
        FleetOptions {
            local_gate: self.gates.local,
            remote_gate: self.gates.remote,
            host_environment,
            // What is said about the protocol is said of each server already.
            session: SessionOptions { protocol: ProtocolMode::Auto, ..self.session.clone() },
            reconnection: match how {
                How::Once | How::Anew => Reconnection::NONE,
                How::Lasting => Reconnection::default(),
            },
            ignore_auth_failure_cache: how == How::Anew,
            server_filter: Arc::new(move |server| rules.read().unwrap_or_else(PoisonError::into_inner).permits(server)),
            ..FleetOptions::default()
        }
    }
}

fn sources(places: &Places, dynamic: Vec<Server>, only_dynamic: bool) -> Sources {
    let enterprise = vec![places.enterprise.clone()];
    let named_enterprise = places.named_enterprise.clone();
    if only_dynamic {
        // What the organisation says about them still holds.
        return Sources { enterprise, named_enterprise, dynamic, only_dynamic, ..Sources::default() };
    }
    Sources {
        enterprise,
        named_enterprise,
        local: places.local.clone(),
        user: places.user.clone(),
        project: Some(places.project.clone()),
        dynamic,
        ..Sources::default()
    }
}

/// What has been approved; where that cannot be read nothing has, and it is said.
fn approvals(places: &Places) -> (Approvals, Option<Problem>) {
    let Some(file) = &places.approvals else { return (Approvals::nothing(), None) };
    match Approvals::load(file) {
        Ok(approvals) => (approvals, None),
        Err(ApprovalsError::Corrupt(problem)) => (Approvals::nothing(), Some(*problem)),
        Err(error) => {
            let problem = Problem::of_file(Severity::Error, file, format!("nothing counts as approved: {error}"));
            (Approvals::nothing(), Some(problem))
        }
    }
}

/// A server as the fleet gets it; none that is not used because another one is.
fn enlist(found: &ConfiguredServer) -> Option<ServerSpec> {
    let reason = describe::reason(found).unwrap_or_default();
    let hold = match &found.standing {
        Eligibility::Ready => None,
        Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_) => Some(DisabledReason::Approval(reason)),
        Eligibility::Disabled(_) => Some(match found.lock {
            Some(lock) => DisabledReason::Locked(format!("{reason}, and {lock}")),
            None => DisabledReason::SwitchedOff(reason),
        }),
        Eligibility::Refused(_) => Some(DisabledReason::Refused(reason)),
        Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. } => return None,
    };
    Some(ServerSpec { server: found.server.clone(), hold })
}

/// A server whose entry cannot be understood. What is wrong with it has been told already.
fn unusable(broken: &InvalidEntry) -> Misuse {
    let InvalidEntry { name, origin, .. } = broken;
    misuse(
        format!("the server `{name}` cannot be used as it is written in {}:{}", origin.file.display(), origin.line),
        None,
    )
}

/// Whether a server is meant by the command line itself.
fn is_named(server: &Server, which: Which<'_>) -> bool {
    which != Which::All || server.scope == Scope::Dynamic
}

/// Whether a person can switch a server on that is off: not what the organisation switched off.
pub(crate) fn can_be_switched_on(found: &ConfiguredServer) -> bool {
    match found.standing {
        Eligibility::Disabled(DisabledBy::Entry) => found.server.scope != Scope::Enterprise,
        Eligibility::Disabled(DisabledBy::List(scope)) => scope != Scope::Enterprise,
        _ => false,
    }
}

/// Who switched a server off, in words.
pub(crate) fn switched_off(by: DisabledBy) -> String {
    match by {
        DisabledBy::Entry => "in its own entry".to_owned(),
        DisabledBy::List(scope) => format!("in `disabledServers` of the {scope} scope"),
    }
}
