//! [`Setup`]: everything that is configured, and the options of the command line.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use wharf::config::{
    Approvals, ApprovalsError, ConfiguredServer, Eligibility, InvalidEntry, Loaded, Problem, Rules, Severity, Sources,
    Variables, WatchedFiles, load,
};
use wharf::fleet::{Scope, Server};
use wharf::{Redactor, SessionOptions};

use super::cloud;
use super::limits::{self, Gates};
use super::paths::Paths;
use super::resolve::{invalid_entry, server_names, unknown_server};
use super::servers::{self, Protocols};
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::{env, term};

pub(crate) struct Setup {
    pub(crate) paths: Paths,
    pub(crate) loaded: Loaded,
    pub(crate) variables: Variables,
    pub(crate) session: SessionOptions,
    /// The files and values that `loaded` was read from.
    pub(super) sources: Sources,
    /// The same files as they were before they were read.
    pub(super) watched: WatchedFiles,
    /// The rules as last read, for servers that are added while running.
    pub(super) rules: Arc<RwLock<Rules>>,
    pub(super) globals: Globals,
    pub(super) protocols: Protocols,
    pub(super) gates: Gates,
    /// Receives the secrets of servers: what servers say is logged, and some commands store or print it.
    pub(crate) redactor: Redactor,
    /// What is odd about environment variables.
    warnings: Vec<String>,
}

/// The servers a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerSelection<'a> {
    All,
    One(&'a str),
}

impl ServerSelection<'_> {
    /// Whether a problem is about a selected server, or about none in particular.
    pub(crate) fn concerns(self, problem: &Problem) -> bool {
        match (self, &problem.server) {
            (Self::One(selected), Some(server)) => server == selected,
            _ => true,
        }
    }

    /// Whether the command line itself names a server.
    pub(super) fn names(self, server: &Server) -> bool {
        self != Self::All || server.scope == Scope::Dynamic
    }
}

impl Setup {
    /// Reads every scope, including a cloud provider, and prints problems.
    pub(crate) async fn load(globals: &Globals) -> Result<Self, UsageError> {
        Self::load_for(globals, ServerSelection::All).await
    }

    /// Like [`Setup::load`], with further servers next to those of the command line.
    pub(crate) async fn load_with(globals: &Globals, servers: Vec<Server>) -> Result<Self, UsageError> {
        let mut setup = Self::from_files_with(globals, servers)?;
        if !globals.only_mcp {
            setup.fetch_cloud_servers().await;
        }
        setup.check()?;
        setup.print_problems(|_| true);
        Ok(setup)
    }

    /// Like [`Setup::load`], for a command that needs only some servers: prints no problems of others, and requests no
    /// cloud servers if a file has the selected one.
    pub(crate) async fn load_for(globals: &Globals, selection: ServerSelection<'_>) -> Result<Self, UsageError> {
        let setup = Self::assemble(globals, selection).await?;
        setup.check()?;
        setup.print_problems(|problem| selection.concerns(problem));
        Ok(setup)
    }

    /// Reads every scope, including a cloud provider, and prints nothing.
    pub(crate) async fn load_quietly(globals: &Globals) -> Result<Self, UsageError> {
        let setup = Self::assemble(globals, ServerSelection::All).await?;
        setup.check()?;
        Ok(setup)
    }

    /// Reads the files, and prints nothing.
    pub(crate) fn read(globals: &Globals) -> Result<Self, UsageError> {
        Self::from_files_with(globals, Vec::new())
    }

    async fn assemble(globals: &Globals, selection: ServerSelection<'_>) -> Result<Self, UsageError> {
        let mut setup = Self::read(globals)?;
        let is_in_files = matches!(selection, ServerSelection::One(name) if setup.names().contains(&name));
        if !is_in_files && !globals.only_mcp {
            setup.fetch_cloud_servers().await;
        }
        Ok(setup)
    }

    fn from_files_with(globals: &Globals, further: Vec<Server>) -> Result<Self, UsageError> {
        let paths = Paths::find(globals)?;
        let protocols = Protocols::read(globals)?;
        let mut warnings = Vec::new();
        let gates = Gates::read(&mut warnings);
        let session = limits::session(globals, &paths, &mut warnings)?;
        let dynamic = servers::dynamic(globals, further)?;
        let sources = sources(&paths, dynamic, globals.only_mcp);
        // Before the files are read, so that no change is missed.
        let watched = WatchedFiles::new(watched_files(&sources, &paths));
        let variables = env::variables();
        let loaded = load_sources(&paths, &sources, &variables);
        let rules = Arc::new(RwLock::new(loaded.rules.clone()));
        Ok(Self {
            paths,
            loaded,
            variables,
            session,
            sources,
            watched,
            rules,
            globals: globals.clone(),
            protocols,
            gates,
            redactor: Redactor::default(),
            warnings,
        })
    }

    /// Requests the servers of a cloud provider, if one is configured, and loads everything with its answer. A provider
    /// that does not answer costs only its own servers.
    async fn fetch_cloud_servers(&mut self) {
        let Some(url) = cloud::url(&self.loaded) else { return };
        match cloud::fetch(&url, self.session.deadlines.connect).await {
            Ok(text) => {
                self.sources.cloud = Some(text);
                self.loaded = load_sources(&self.paths, &self.sources, &self.variables);
            }
            Err(problem) => self.loaded.problems.push(problem),
        }
    }

    /// Returns the names of all servers, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        server_names(&self.loaded)
    }

    /// The error for a name that no server has.
    pub(crate) fn unknown_server(&self, name: &str) -> UsageError {
        unknown_server(&self.loaded, name)
    }

    /// Checks that the command line fits the configuration.
    fn check(&self) -> Result<(), UsageError> {
        let Loaded { servers, broken, .. } = &self.loaded;
        for ConfiguredServer { server, eligibility, .. } in
            servers.iter().filter(|found| found.server.scope == Scope::Dynamic)
        {
            let configured = |found: &&ConfiguredServer| {
                found.server.name == server.name && !matches!(found.server.scope, Scope::Dynamic | Scope::Cloud)
            };
            let origin = servers.iter().find(configured).map(|found| found.server.origin.as_ref());
            let broken =
                broken.iter().find(|broken| broken.name == server.name.as_str() && broken.scope != Scope::Cloud);
            if let Some(origin) = origin.or_else(|| broken.map(|broken| Some(&broken.origin))) {
                let place = origin.map(|origin| format!(" in {}:{}", origin.file.display(), origin.line));
                let message = format!("--mcp {}: already configured{}", server.name, place.unwrap_or_default());
                return Err(usage_error(
                    message,
                    Some("choose another name, or ignore configured servers with --only-mcp"),
                ));
            }
            if let Eligibility::Refused(reason) = eligibility {
                return Err(usage_error(format!("server `{}` is not allowed: {reason}", server.name), None));
            }
        }
        self.protocols.check(&self.names())
    }

    /// Prints some problems of the configuration: errors always, warnings unless `--quiet`, notes with `--verbose`.
    pub(crate) fn print_problems(&self, is_wanted: impl Fn(&Problem) -> bool) {
        let Globals { quiet, .. } = self.globals;
        let verbose = self.is_verbose();
        if !quiet {
            self.warnings.iter().for_each(|warning| term::warning(warning));
        }
        for problem in self.loaded.problems.iter().filter(|problem| is_wanted(problem)) {
            match problem.severity {
                Severity::Warning if quiet => {}
                Severity::Note if !verbose => {}
                _ => term::problem(problem),
            }
        }
    }

    pub(crate) fn globals(&self) -> &Globals {
        &self.globals
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.globals.is_verbose()
    }

    /// Whether the configured servers were left out.
    pub(crate) fn is_partial(&self) -> bool {
        self.globals.only_mcp
    }

    /// Returns an error for each required entry that is invalid; if `strict`, for every invalid entry and file.
    pub(crate) fn missing(&self, strict: bool) -> Vec<UsageError> {
        let is_required = |broken: &&InvalidEntry| {
            let decides = self.loaded.find_broken(&broken.name) == Some(*broken);
            decides && broken.disabled.is_none() && (strict || broken.required)
        };
        let mut missing: Vec<UsageError> = self.loaded.broken.iter().filter(is_required).map(invalid_entry).collect();
        if strict {
            let unreadable = |(scope, file): &(Scope, PathBuf)| {
                usage_error(format!("{}: cannot read the servers of the {scope} scope", file.display()), None)
            };
            missing.extend(self.loaded.lost.iter().map(unreadable));
        }
        missing
    }
}

impl Setup {
    /// Returns the approvals of the user.
    pub(crate) fn approvals(&self) -> Result<Approvals, UsageError> {
        let Some(file) = &self.paths.approvals else { return Ok(Approvals::nothing()) };
        Approvals::load(file).map_err(|error| usage_error(error.to_string(), None))
    }
}

/// Reads all sources. Where approvals cannot be read, nothing counts as approved, and a problem says so.
pub(super) fn load_sources(paths: &Paths, sources: &Sources, variables: &Variables) -> Loaded {
    let (approvals, problem) = approvals(paths);
    let mut loaded = load(sources, variables, &approvals);
    loaded.problems.extend(problem);
    loaded
}

fn approvals(paths: &Paths) -> (Approvals, Option<Problem>) {
    let Some(file) = &paths.approvals else { return (Approvals::nothing(), None) };
    match Approvals::load(file) {
        Ok(approvals) => (approvals, None),
        Err(ApprovalsError::Corrupt(problem)) => (Approvals::nothing(), Some(*problem)),
        Err(error) => {
            let problem = Problem::of_file(Severity::Error, file, format!("no server counts as approved: {error}"));
            (Approvals::nothing(), Some(problem))
        }
    }
}

fn sources(paths: &Paths, dynamic: Vec<Server>, only_dynamic: bool) -> Sources {
    Sources {
        enterprise: vec![paths.enterprise.clone()],
        named_enterprise: paths.named_enterprise.clone(),
        // The rules, policy and hooks of these files apply to every server, wherever it comes from.
        local: paths.local.clone(),
        user: paths.user.clone(),
        // A project has no rules.
        project: (!only_dynamic).then(|| paths.project.clone()),
        dynamic,
        only_dynamic,
        ..Sources::default()
    }
}

/// Returns every file that is read.
fn watched_files(sources: &Sources, paths: &Paths) -> Vec<PathBuf> {
    let project = sources.project.as_ref().map(|project| project.file.clone());
    let single = [&sources.local, &sources.user, &paths.approvals];
    let enterprise = sources.enterprise.iter().chain(&sources.named_enterprise).cloned();
    enterprise.chain(single.into_iter().flatten().cloned()).chain(project).collect()
}
