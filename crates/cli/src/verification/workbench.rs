//! The servers of a run: those of the benchmark, its questions and its models, under the user's policy and hooks.
//!
//! Configured servers never enter a run. Every set of servers is read once, when the run is planned.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use wharf::agent::models::ModelConfig;
use wharf::config::Eligibility;
use wharf::config::model_servers::{self, ModelServers};
use wharf::fleet::{Dispatcher, Fleet, ServerState};
use wharf::verify::{Benchmark, ModelUnderTest, ServerSet, ToolSet, ToolSets, Workbench, digest};
use wharf::{BoxFuture, Redactor, ServerName, TraceSink};

use super::shared_run::{self, DEMO_SERVER};
use crate::config::Setup;
use crate::config::dispatcher::{DispatcherSettings, allow_rule, policy};
use crate::env::variables;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::models::trust::{self, DeclaredServers, Trust};
use crate::term::StartupDisplay;
use crate::{demo_server, failure, term};

/// Opens the servers of a run.
pub(crate) struct CliWorkbench {
    globals: Globals,
    dispatchers: DispatcherSettings,
    redactor: Redactor,
    /// What is known about the sets of servers of the plan, by key.
    sets: HashMap<String, PlannedSet>,
}

/// One set of servers.
struct PlannedSet {
    setup: Setup,
    /// The servers that were connected to plan the run. The first trial uses them.
    fleet: Mutex<Option<Fleet>>,
}

/// Why the servers of a run cannot be used.
pub(crate) enum Unplannable {
    /// They are written wrong, or not approved.
    Usage(UsageError),
    /// Required ones are not connected, and this was reported.
    Missing(Exit),
}

impl From<UsageError> for Unplannable {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl CliWorkbench {
    /// Reads the user's policy and hooks. An invalid one stops the run.
    pub(crate) async fn new(globals: &Globals, allow: &[String], redactor: &Redactor) -> Result<Self, UsageError> {
        let globals = own_globals(globals)?;
        let setup = Setup::load(&globals).await?;
        let mut policy = policy(&setup)?;
        for text in allow {
            policy.rules.push(allow_rule(text)?);
        }
        let dispatchers = DispatcherSettings::read(&globals, &setup, policy)?;
        Ok(Self { globals, dispatchers, redactor: redactor.clone(), sets: HashMap::new() })
    }

    /// Connects every set of servers of a run and returns the tools that each offers.
    pub(crate) async fn plan(&mut self, sets: Vec<ServerSet>) -> Result<ToolSets, Unplannable> {
        let mut tools = ToolSets::default();
        for set in sets {
            let setup = self.setup(&set).await?;
            let fleet = setup.open_unattended()?;
            StartupDisplay::watch(&fleet, self.globals.quiet).await;
            let exit = self.report_missing(&fleet, &set.required);
            if exit != Exit::Done {
                fleet.close().await;
                return Err(Unplannable::Missing(exit));
            }
            tools.0.insert(set.key(), ToolSet::of_catalog(&fleet.catalog()));
            self.sets.insert(set.key(), PlannedSet { setup, fleet: Mutex::new(Some(fleet)) });
        }
        Ok(tools)
    }

    /// Connects a set of servers for a worker, and compares its tools with those of the plan. `shared` is the set as the
    /// record has it; `entries` has the entries of this machine.
    ///
    /// # Errors
    /// What is missing or different, and how to fix it.
    pub(crate) async fn join(
        &mut self,
        shared: &ServerSet,
        entries: &LocalEntries,
        planned: Option<&ToolSet>,
    ) -> Result<(), String> {
        let mut set = shared.clone();
        for (name, entry) in &mut set.servers {
            *entry = entries.find(name, entry)?;
        }
        let with_hint = |error: UsageError| match error.hint {
            Some(hint) => format!("{} ({hint})", error.message),
            None => error.message,
        };
        let setup = self.setup(&set).await.map_err(with_hint)?;
        let fleet = setup.open_unattended().map_err(with_hint)?;
        fleet.settled(term::SETTLE_LIMIT).await;
        let offered = ToolSet::of_catalog(&fleet.catalog());
        let missing: Vec<_> =
            fleet.statuses().into_iter().filter(|status| status.state != ServerState::Connected).collect();
        let problem = match (missing.first(), planned) {
            _ if planned.is_some_and(|planned| planned.digest() == offered.digest()) => None,
            (Some(status), _) => {
                let reason = status.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
                Some(format!("server `{}` is not connected{reason}", status.name))
            }
            (None, Some(planned)) => Some(differences(planned, &offered)),
            (None, None) => Some("the record of the run does not have its tools".to_owned()),
        };
        if let Some(problem) = problem {
            fleet.close().await;
            return Err(problem);
        }
        self.sets.insert(shared.key(), PlannedSet { setup, fleet: Mutex::new(Some(fleet)) });
        Ok(())
    }

    /// Closes the servers that were connected to plan the run and that no trial has used.
    pub(crate) async fn close(&self) {
        for set in self.sets.values() {
            let fleet = set.fleet.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(fleet) = fleet {
                fleet.close().await;
            }
        }
    }

    /// Reads the entries of a set, with the rules of the user and the organization.
    async fn setup(&self, set: &ServerSet) -> Result<Setup, UsageError> {
        let mut keys = set.as_model_keys();
        for servers in keys.values_mut().filter_map(Value::as_object_mut) {
            embed(servers)?;
        }
        let invalid = |error: model_servers::InvalidModelServers| usage_error(error.to_string(), error.hint());
        let declared = model_servers::read(&keys).map_err(invalid)?;
        let servers = declared.resolve(&variables()).map_err(invalid)?;
        let servers = servers.into_iter().map(|read| read.server).collect();
        let mut setup = Setup::load_with(&self.globals, servers).await?;
        if let Some(missing) = setup.missing(true).into_iter().next() {
            return Err(missing);
        }
        setup.redactor = self.redactor.clone();
        if let Some(idle) = declared.idle_timeout {
            setup.session.deadlines.idle = Some(idle);
        }
        Ok(setup)
    }

    /// Reports servers that are not connected. Returns the exit code for those that are required.
    fn report_missing(&self, fleet: &Fleet, required: &[ServerName]) -> Exit {
        let mut exit = Exit::Done;
        for mut status in fleet.statuses() {
            if status.state == ServerState::Connected {
                continue;
            }
            status.required = required.contains(&status.name);
            failure::print_status(&status, &self.globals);
            if status.required {
                exit = exit.max(Exit::from(&status));
            }
        }
        exit
    }
}

impl Workbench for CliWorkbench {
    fn open<'a>(&'a self, servers: &'a ServerSet) -> BoxFuture<'a, Result<Fleet, String>> {
        Box::pin(async move {
            let unknown = || "its servers were not connected when the run was planned".to_owned();
            let set = self.sets.get(&servers.key()).ok_or_else(unknown)?;
            let planned = set.fleet.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(fleet) = planned {
                return Ok(fleet);
            }
            let fleet = set.setup.open_unattended().map_err(|error| error.message)?;
            fleet.settled(term::SETTLE_LIMIT).await;
            Ok(fleet)
        })
    }

    fn dispatcher(&self, trace: Arc<dyn TraceSink>) -> Dispatcher {
        self.dispatchers.dispatcher().with_trace(trace)
    }
}

/// The entries of servers on this machine.
pub(crate) struct LocalEntries {
    /// By digest, of the files that the user named.
    by_digest: HashMap<String, Value>,
    /// The user's configuration.
    configured: Setup,
}

impl LocalEntries {
    /// Reads the configuration of this machine.
    pub(crate) async fn read(
        globals: &Globals,
        declared: impl Iterator<Item = &Map<String, Value>>,
    ) -> Result<Self, UsageError> {
        let by_digest = declared.flat_map(Map::values).map(|entry| (digest(entry), entry.clone())).collect();
        Ok(Self { by_digest, configured: Setup::load_quietly(globals).await? })
    }

    /// Returns the entry that a record refers to.
    fn find(&self, name: &str, reference: &Value) -> Result<Value, String> {
        let Some(digest) = shared_run::entry_digest(reference) else {
            let is_ours = reference.as_str() == Some(DEMO_SERVER);
            return if is_ours { Ok(reference.clone()) } else { Err(format!("server `{name}` has no valid record")) };
        };
        if let Some(entry) = self.by_digest.get(digest) {
            return Ok(entry.clone());
        }
        match self.configured.loaded.find(name) {
            Some(found) if found.eligibility == Eligibility::Ready => {
                serde_json::to_value(&found.written).map_err(|error| error.to_string())
            }
            Some(_) => Err(format!("server `{name}` is configured, but not used: see `wharf get {name}`")),
            None => Err(format!(
                "server `{name}` is not configured: add it with `wharf add {name} …`, or pass --benchmark FILE or \
                 --models FILE with its entry"
            )),
        }
    }
}

/// Describes how the tools of servers differ from those of a plan.
fn differences(planned: &ToolSet, offered: &ToolSet) -> String {
    let names = |of: &ToolSet| of.tools.iter().map(|tool| tool.name.clone()).collect::<BTreeSet<_>>();
    let (before, now) = (names(planned), names(offered));
    let missing: Vec<_> = before.difference(&now).cloned().collect();
    let added: Vec<_> = now.difference(&before).cloned().collect();
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("missing {}", missing.join(", ")));
    }
    if !added.is_empty() {
        parts.push(format!("new {}", added.join(", ")));
    }
    if parts.is_empty() {
        parts.push("other descriptions, schemas or instructions".to_owned());
    }
    format!("its servers offer other tools than when the run was planned: {}", parts.join("; "))
}

/// The files that declare the servers of a run.
pub(crate) struct DeclaringFiles<'a> {
    pub(crate) benchmark_file: &'a Path,
    pub(crate) benchmark: &'a Benchmark,
    pub(crate) models_file: Option<&'a Path>,
    pub(crate) models: &'a [ModelUnderTest],
}

impl DeclaringFiles<'_> {
    /// Checks that the user approved the commands of the benchmark and of the models.
    pub(crate) async fn check_approvals(&self, globals: &Globals, trust: Trust) -> Result<(), UsageError> {
        let setup = Setup::load_quietly(&own_globals(globals)?).await?;
        check(&setup, trust, self.benchmark_file, "benchmark", &self.benchmark.servers)?;
        for question in &self.benchmark.questions {
            check(&setup, trust, self.benchmark_file, question.id.as_str(), &question.servers)?;
        }
        for model in self.models {
            if let (Some(file), Some(servers)) = (self.models_file, model.settings.own_servers()) {
                check(&setup, trust, file, &model.label, servers)?;
            }
        }
        Ok(())
    }
}

impl DeclaringFiles<'_> {
    /// Checks that the user approved the commands of a model file.
    pub(crate) async fn check_models(
        globals: &Globals,
        trust: Trust,
        file: &Path,
        configs: &[ModelConfig],
        declared: &[ModelServers],
    ) -> Result<(), UsageError> {
        let setup = Setup::load_quietly(&own_globals(globals)?).await?;
        for (config, own) in configs.iter().zip(declared) {
            check(&setup, trust, file, &config.label(), &own.servers)?;
        }
        Ok(())
    }
}

/// Checks the servers of one owner. The embedded server needs no approval.
fn check(
    setup: &Setup,
    trust: Trust,
    file: &Path,
    owner: &str,
    servers: &Map<String, Value>,
) -> Result<(), UsageError> {
    let is_own = |value: &Value| value.as_str() != Some(DEMO_SERVER);
    let own = servers.iter().filter(|(_, value)| is_own(value));
    let servers: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    if servers.is_empty() {
        return Ok(());
    }
    let declared = ModelServers { servers, ..ModelServers::default() };
    let read = declared
        .resolve(&variables())
        .map_err(|error| usage_error(format!("{}: {error}", file.display()), error.hint()))?;
    read.iter().flat_map(|read| &read.problems).for_each(term::problem);
    trust::check_servers(
        setup,
        trust,
        &DeclaredServers { file, owner, declared: &declared, servers: &read, approves_variables: true },
    )
}

/// Returns the options without servers: those of the command line and the configuration never enter a run.
fn own_globals(globals: &Globals) -> Result<Globals, UsageError> {
    let given = [
        ("--mcp", !globals.mcp.is_empty()),
        ("--header", !globals.header.is_empty()),
        ("--env", !globals.env.is_empty()),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        let hint = "write the server with its settings into the benchmark, under `servers`, or into the model file";
        return Err(usage_error(format!("{flag} has no effect on a verification run"), Some(hint)));
    }
    Ok(Globals { only_mcp: true, ..globals.clone() })
}

/// Replaces the demo server's notation by the command that starts it: this program.
fn embed(servers: &mut Map<String, Value>) -> Result<(), UsageError> {
    for value in servers.values_mut().filter(|value| value.as_str() == Some(DEMO_SERVER)) {
        let program = std::env::current_exe()
            .map_err(|error| usage_error(format!("cannot find the path of this program: {error}"), None))?;
        *value = json!({"command": program, "args": [demo_server::COMMAND]});
    }
    Ok(())
}
