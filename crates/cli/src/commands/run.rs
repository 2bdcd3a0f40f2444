//! `wharf run`: run a model with the servers' tools.

mod activity;
mod args;
mod models;
mod overwrite;
mod prompt;
mod record;
mod report;
mod screen;
mod stream;
mod summary;
mod too_large;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use wharf::agent::middleware::Middleware;
use wharf::agent::models::ModelConfig;
use wharf::agent::{
    Agent, AgentResult, Bm25, Checkpoint as _, CheckpointFile, EventSink, Model, ModelErrorKind, OnCheckpointFailure,
    Run as AgentRun, RunEnd, ServerSummary,
};
use wharf::fleet::{Dispatcher, Fleet, FleetTools, ServerState, ServerStatus};
use wharf::{Message, Redactor, Role};

use crate::config::dispatcher::{allow_rule, dispatcher, policy, spill};
use crate::config::{FleetLifetime, Setup};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::{Stopped, stoppable};
use crate::models::trust::{self, DeclaredServers, Trust};
use crate::models::{choose, file};
use crate::term::StartupDisplay;
use crate::term::prompt::{SecretFields, user_prompt};
use crate::{failure, hints, term};
use args::Output;
pub(crate) use args::Run;
use record::RecordMode;
use report::{JsonReport, TraceRecorder};
use screen::Screen;
use stream::Stream;

/// How long calls in flight may take to finish after an interruption.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The delay before the awaited servers are printed.
const ANNOUNCE_AFTER: Duration = Duration::from_secs(1);
/// How long the first turn waits for required servers. Each has its own connect timeout; this covers the queue before it.
const REQUIRED_SERVERS_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A run without its servers.
struct Prepared {
    model: Arc<dyn Model>,
    /// The model's settings in a file of models.
    config: Option<ModelConfig>,
    run: AgentRun,
    record_mode: RecordMode,
    output: Output,
    /// The secrets of the model and its servers.
    redactor: Redactor,
}

/// The servers and tools of a run.
struct Tooling<'a> {
    fleet: &'a Fleet,
    dispatcher: Arc<Dispatcher>,
    traces: Arc<TraceRecorder>,
}

pub(crate) async fn run(globals: &Globals, mut run: Run) -> Exit {
    match prompt::read(&run).await {
        Ok(prompt) => run.prompt = prompt,
        Err(error) => return term::usage_error(&error),
    }
    let traces = Arc::<TraceRecorder>::default();
    let prepared = async {
        let prepared = prepare(globals, &run).await?;
        // A recording contains the servers' answers, and a manual model calls no tools.
        let needs_no_servers = run.replay.is_some() || models::is_manual(&run, prepared.config.as_ref());
        if needs_no_servers && run.replay.is_none() && !globals.mcp.is_empty() {
            let message = "a manual model calls no tools, so --mcp has no effect";
            return Err(usage_error(message.to_owned(), Some("omit --mcp, or replay a recording with --replay FILE")));
        }
        let globals = &if needs_no_servers { without_servers(globals) } else { with_own_servers(globals, &run) };
        let model_servers = prepared.config.as_ref().map(file::declared_servers).transpose()?.unwrap_or_default();
        let own_servers = match &prepared.config {
            Some(config) if !needs_no_servers => file::resolved_servers(config, &model_servers)?,
            _ => Vec::new(),
        };
        let servers = own_servers.iter().map(|read| read.server.clone()).collect();
        let mut setup = Setup::load_with(globals, servers).await?;
        setup.redactor = prepared.redactor.clone();
        if let (Some(config), Some(file)) = (&prepared.config, &run.models) {
            let owner = &config.label();
            let own = DeclaredServers {
                file,
                owner,
                declared: &model_servers,
                servers: &own_servers,
                approves_variables: false,
            };
            trust::check_servers(&setup, Trust::of_flag(run.trust), &own)?;
        }
        if let Some(idle) = model_servers.idle_timeout {
            setup.session.deadlines.idle = Some(idle);
        }
        if let Some(missing) = setup.missing(run.strict).into_iter().next() {
            return Err(missing);
        }
        let mut policy = policy(&setup)?;
        for text in &run.allow {
            policy.rules.push(allow_rule(text)?);
        }
        let secret_fields = if run.allow_secrets { SecretFields::Allow } else { SecretFields::Refuse };
        let prompt = user_prompt(secret_fields, None);
        let total = setup.session.deadlines.total;
        let dispatcher = dispatcher(globals, &setup, policy)?.with_spill(spill(&setup)?).with_limits(total, None);
        let dispatcher = dispatcher.with_user_prompt(Arc::clone(&prompt)).with_trace(Arc::clone(&traces) as _);
        let fleet = setup.open_or_empty(FleetLifetime::Session, &prompt)?;
        // Without servers the model gets no tools, not even this one.
        if !fleet.statuses().is_empty()
            && let Some(read_output) = dispatcher.read_output()
        {
            fleet.offer(read_output);
        }
        setup.follow(&fleet);
        Ok((prepared, Arc::new(dispatcher), fleet))
    };
    let (prepared, dispatcher, fleet) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return term::usage_error(&error),
    };
    let tooling = Tooling { fleet: &fleet, dispatcher, traces };
    stoppable(&fleet, |stopped| Box::pin(converse(globals, &run, prepared, tooling, stopped))).await
}

/// Returns the options without any server.
fn without_servers(globals: &Globals) -> Globals {
    Globals { only_mcp: true, mcp: Vec::new(), ..globals.clone() }
}

/// Returns the options without the configured servers, if a file of models is used.
fn with_own_servers(globals: &Globals, run: &Run) -> Globals {
    Globals { only_mcp: globals.only_mcp || run.models.is_some(), ..globals.clone() }
}

async fn prepare(globals: &Globals, run: &Run) -> Result<Prepared, UsageError> {
    overwrite::check(run).await?;
    let output = if globals.json { Output::Json } else { run.output };
    let config = models::selected(run, globals)?;
    let redactor = Redactor::new(choose::api_keys(config.as_ref()));
    let agent_run = match (&run.resume, &run.prompt) {
        (Some(file), _) => {
            let mut resumed = CheckpointFile::read(file)
                .await
                .map_err(|error| usage_error(error.to_string(), Some("save a run with --checkpoint FILE")))?;
            let limits = models::limits(run, resumed.limits().clone());
            let has_ended = resumed.stop().is_some();
            if limits != *resumed.limits() && !resumed.set_limits(limits) && has_ended && !globals.quiet {
                term::warning("the run has ended, so new limits have no effect");
            }
            resumed
        }
        (None, prompt) => {
            let own = config.as_ref().and_then(|config| config.system_prompt.as_ref());
            let system = run.system.as_ref().or(own).map(|text| Message::text(Role::System, text.clone()));
            let user = prompt.iter().map(|text| Message::text(Role::User, text.clone()));
            let limits = models::limits(run, config.as_ref().map(ModelConfig::limits).unwrap_or_default());
            AgentRun::new(report::session_id(), system.into_iter().chain(user).collect(), limits)
        }
    };
    if let Some(file) = &run.checkpoint {
        // An unwritable file is an error before the run begins.
        let saved = CheckpointFile::new(file).with_redactor(redactor.clone()).save(&agent_run).await;
        saved.map_err(|error| usage_error(format!("cannot save the checkpoint: {error}"), None))?;
    }
    let (model, record_mode) = record::model(run, config.as_ref(), globals, &redactor).await?;
    Ok(Prepared { model, config, run: agent_run, record_mode, output, redactor })
}

async fn converse(
    globals: &Globals,
    run: &Run,
    prepared: Prepared,
    tooling: Tooling<'_>,
    mut stopped: Stopped,
) -> Exit {
    let Tooling { fleet, dispatcher, traces } = tooling;
    let waited = tokio::select! {
        waited = wait(globals, run, fleet) => waited,
        () = stopped.wait() => return Exit::Interrupted,
    };
    if let Err(missing) = waited {
        for status in &missing {
            report_missing(status, globals);
        }
        return missing.iter().map(Exit::from).max().unwrap_or(Exit::Unreachable);
    }
    let Prepared { model, config, run: mut agent_run, record_mode, output, redactor } = prepared;
    let is_live = !record_mode.is_replay();
    if is_live && !globals.quiet {
        too_large::warn(&fleet.catalog());
    }
    if is_live
        && !globals.quiet
        && let Some(config) = &config
    {
        for warning in models::unknown_tools(config, &fleet.catalog()) {
            term::warning(&warning);
        }
    }
    let screen = Arc::new(Screen::new(globals, output, fleet));
    let sink: Arc<dyn EventSink> = match output {
        Output::StreamJson => Arc::new(Stream::new(redactor.clone())),
        Output::Text | Output::Json => Arc::clone(&screen) as _,
    };
    traces.send_events_to(Arc::clone(&sink));
    let tools = record_mode.tools(Arc::new(FleetTools::new(fleet.clone(), dispatcher).with_search(Arc::new(Bm25))));
    let model_name = format!("{}:{}", model.interface(), model.name());
    let options = config.as_ref().map(ModelConfig::options).unwrap_or_default();
    let mut agent = Agent::new(model, tools)
        .with_options(options)
        .with_middleware(middleware(run, config.as_ref(), is_live))
        .with_drain_timeout(DRAIN_TIMEOUT)
        .with_events(sink);
    if let Some(time) = config.as_ref().and_then(ModelConfig::attempt_timeout) {
        agent = agent.with_attempt_timeout(time);
    }
    let file = run.checkpoint.as_deref().or(run.resume.as_deref());
    if let Some(file) = file {
        let checkpoint = CheckpointFile::new(file).with_redactor(redactor.clone());
        let failure = if run.checkpoint_optional { OnCheckpointFailure::Warn } else { OnCheckpointFailure::Stop };
        agent = agent.with_checkpoint(Arc::new(checkpoint)).with_checkpoint_failure(failure);
    }
    let finished = tokio::select! {
        finished = agent.run(&mut agent_run, stopped.wait()) => finished,
        never = screen.watch() => match never {},
    };
    let mut result = finished.unwrap_or_else(|error| *error.result);
    let tool_traces = traces.take();
    for (index, refused) in tool_traces.iter().enumerate().filter(|(_, trace)| trace.is_refused()) {
        // A call that did not run may have been retried. It has one result.
        let is_retried = || tool_traces[index + 1..].iter().any(|later| later.id == refused.id);
        // An attempt before it may have run.
        let has_run = || tool_traces.iter().any(|other| other.id == refused.id && !other.is_refused());
        if !refused.is_not_run() || !(is_retried() || has_run()) {
            result.metrics.count_refused(&refused.name);
        }
    }
    result.servers = fleet.statuses().iter().map(server_status).collect();
    let mut exit = exit_of(&result);
    let recorded = record_mode.finish();
    // What diverges from a recording fails in the run, too, and is reported once.
    screen.set_reported(recorded.is_err() && record_mode.is_replay());
    if let Err(message) = recorded {
        term::error(&message, &[], Some("record it again with --record, or undo what changed"));
        exit = exit.max(Exit::Failed);
    }
    let written = match output {
        Output::Json | Output::StreamJson => {
            let prompt = run.prompt.as_deref();
            let report = JsonReport::new(&model_name, prompt, &result, &tool_traces);
            match output {
                Output::Json => term::redacted_json(&report, &redactor).await,
                _ => term::redacted_json(&report.last_line(), &redactor).await,
            }
        }
        Output::Text => screen.finish(&result, file).await,
    };
    exit.max(written)
}

fn exit_of(result: &AgentResult) -> Exit {
    match result.stop {
        // The model gave an answer, but without the calls that a limit blocked.
        RunEnd::Completed if result.limit_reached => Exit::Failed,
        RunEnd::Completed if result.final_response.is_some() => Exit::Done,
        RunEnd::Cancelled => Exit::Interrupted,
        // Like a missing key.
        RunEnd::ModelFailed(ref error) if error.kind == ModelErrorKind::Auth => Exit::Usage,
        _ => Exit::Failed,
    }
}

fn server_status(status: &ServerStatus) -> ServerSummary {
    ServerSummary {
        name: status.name.to_string(),
        state: status.state.to_string(),
        reason: status.reason.as_ref().map(ToString::to_string),
        tools: status.tools,
    }
}

/// Waits for required servers, and for a limited time for the others.
async fn wait(globals: &Globals, run: &Run, fleet: &Fleet) -> Result<(), Vec<ServerStatus>> {
    let waiting = async {
        let others = async {
            fleet.settled(run.wait).await;
            Ok(())
        };
        // The time for the others runs from the start, too, and ends with the failure of a required server.
        tokio::try_join!(fleet.needed(run.strict, REQUIRED_SERVERS_TIMEOUT), others).map(|_| ())
    };
    tokio::pin!(waiting);
    // Dropping the display erases it before anything else is printed.
    let waited = tokio::select! {
        waited = &mut waiting => waited,
        () = StartupDisplay::watch(fleet, globals.quiet) => waiting.await,
        never = announce(globals, run, fleet) => match never {},
    };
    waited?;
    if !globals.quiet {
        let absent = |status: &ServerStatus| !matches!(status.state, ServerState::Connected | ServerState::Disabled);
        for status in fleet.statuses().iter().filter(|status| absent(status)) {
            let reason = failure::reason_with_cause(status).map(|reason| format!(": {reason}")).unwrap_or_default();
            let is_late = !status.settled || status.next_try.is_some();
            let later = if is_late { "; it joins at the turn after it connects" } else { "" };
            term::warning(&format!("{} is not connected; continuing without its tools{reason}{later}", status.name));
            if !status.settled {
                term::hint("wait longer for slow servers: --wait SECONDS");
            }
        }
    }
    Ok(())
}

/// Says which servers the run waits for, where no display shows it.
async fn announce(globals: &Globals, run: &Run, fleet: &Fleet) -> Infallible {
    tokio::time::sleep(ANNOUNCE_AFTER).await;
    let statuses = fleet.statuses();
    let awaited = |is_required: bool| -> Vec<&str> {
        let unsettled = statuses.iter().filter(|status| !status.settled);
        unsettled.filter(|s| (s.required || run.strict) == is_required).map(|status| status.name.as_str()).collect()
    };
    if !globals.quiet && !StartupDisplay::is_shown(globals.quiet) {
        for (names, limit) in [(awaited(true), REQUIRED_SERVERS_TIMEOUT), (awaited(false), run.wait)] {
            if !names.is_empty() {
                term::note(&format!("waiting up to {} s for {}", limit.as_secs_f64(), names.join(", ")));
            }
        }
    }
    std::future::pending().await
}

/// Reports why a required server is not connected.
fn report_missing(status: &ServerStatus, globals: &Globals) {
    if let Some(error) = status.error() {
        let hint = hints::for_denied_access(error, status.scope, globals);
        return failure::print(error, hint, status.transport.is_remote());
    }
    let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    term::error(&format!("{} is {}{reason}", status.name, status.state), &[], None);
}

/// Returns the middleware of a run. A replay retries without delay.
fn middleware(run: &Run, config: Option<&ModelConfig>, is_live: bool) -> Middleware {
    let mut middleware = config.map(ModelConfig::middleware).unwrap_or_default();
    if run.all_tools {
        middleware.tool_search.enabled = false;
    }
    if let Some(tokens) = run.max_context_tokens {
        middleware.summarization.trigger_tokens = Some(tokens);
    }
    if !is_live {
        middleware.model_retry.initial_delay = 0.0;
        if let Some(policy) = &mut middleware.model_retry.policy {
            policy.remove_delays();
        }
        middleware.tool_retry.initial_delay = 0.0;
    }
    middleware
}
