//! The servers of a run: those of the benchmark, its questions and its models, under the user's policy and hooks.
//!
//! Configured servers never enter a run. Every set of servers is read once, when the run is planned.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use wharf::config::model_servers::{self, ModelServers};
use wharf::fleet::{Dispatcher, Fleet, ServerState};
use wharf::verify::{Benchmark, ModelUnderTest, ServerSet, ToolSet, ToolSets, Workbench};
use wharf::{BoxFuture, Redactor, ServerName, TraceSink};

use crate::config::Setup;
use crate::config::dispatcher::{DispatcherSettings, allow_rule, policy};
use crate::env::variables;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::models::trust::{self, DeclaredServers, Trust};
use crate::term::StartupDisplay;
use crate::{demo_server, failure, term};

/// The notation for the demo server of the binary.
const DEMO_SERVER: &str = "wharf:demo";

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
