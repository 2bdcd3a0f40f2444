//! `wharf run`: a model over the tools of the fleet, from the question to the answer.

mod choose;
mod config;
mod model_servers;
mod screen;
mod shown;
mod stream;
mod tape;
mod waiting;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wharf::agent::middleware::Middleware;
use wharf::agent::models::ModelConfig;
use wharf::agent::{
    Agent, AgentResult, Checkpoint as _, CheckpointFile, EventSink, Model, Run as AgentRun, RunEnd, ServerSummary,
};
use wharf::fleet::dispatch::{Condition, Rule, RuleAction, Spill};
use wharf::fleet::{Dispatcher, Fleet, ServerState, ServerStatus, Turn};
use wharf::{Message, Role, ToolSource, Tools};

use crate::args::Globals;
use crate::asker::whoever_is_there;
use crate::dispatcher::{dispatcher, policy};
use crate::exit::Exit;
use crate::interrupt::{Stopped, stoppable};
use crate::live::Live;
use crate::render;
use crate::servers::{Misuse, misuse};
use crate::setup::{How, Setup};
use screen::Screen;
use shown::{Recorder, Shown};
use stream::Stream;
use tape::Tape;

/// How long servers that nobody called required are waited for before the first turn.
const GRACE: Duration = Duration::from_secs(10);
/// How long required ones are: each has its own deadline for connecting, this is for the queue before it.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The model: `anthropic:NAME`, `openai:NAME`, `openrouter:NAME`, `ollama:NAME`, `openai-endpoint:URL#NAME`,
    /// `manual:FILE` or `scripted:FILE`. Without it that of `WHARF_MODEL`, one there is a key for, or one of an Ollama on
    /// this machine
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// A file of models, each with servers and settings of its own; -m names one of them. The configured servers are
    /// left out
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    models: Option<PathBuf>,
    /// What the model is told before anything else
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Do nothing unless every server is there, and the very model that was asked for
    #[arg(long)]
    strict: bool,
    /// The most turns there may be [default: 25]
    #[arg(long, value_name = "N")]
    max_turns: Option<NonZeroU32>,
    /// The most calls of tools there may be [default: 50]
    #[arg(long, value_name = "N")]
    max_tool_calls: Option<u32>,
    /// The most tokens that may go in and come out, all together
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// What may be spent, in US dollars
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    max_cost: Option<f64>,
    /// How long it may take, in seconds [default: any time; 180 for a model of --models that has servers]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_time: Option<Duration>,
    /// Calls that need not be asked about, for example `mcp__git__*` or `server:git !hint:destructive`. May be given
    /// several times
    #[arg(long, value_name = "CONDITION")]
    allow: Vec<String>,
    /// Tell the tools to the model in words, for one that has never heard of tools
    #[arg(long)]
    emulate_tools: bool,
    /// Write every question and every call with what came of it to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Answer everything from such a file: no model is asked and no server started
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write down how far the run is, before and after whatever it does
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Go on with a run that was written down, in the same file. What has been done is not done again. Its limits are
    /// those it had, unless it is given others here; they count from its beginning
    #[arg(long, value_name = "FILE", conflicts_with_all = ["checkpoint", "prompt", "system"])]
    resume: Option<PathBuf>,
    /// What is written to stdout: the answer, everything in one JSON value, or one for each thing that happens
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Output::Text)]
    output: Output,
    /// What the model is asked
    #[arg(required_unless_present = "resume")]
    prompt: Option<String>,
}

/// What is written to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
    StreamJson,
}

/// Everything a run needs besides the servers.
struct Prepared {
    model: Arc<dyn Model>,
    /// What a file says about it.
    config: Option<ModelConfig>,
    run: AgentRun,
    tape: Tape,
    output: Output,
}

pub(crate) async fn run(globals: &Globals, run: Run) -> Exit {
    let recorder = Arc::<Recorder>::default();
    let prepared = async {
        let prepared = prepare(globals, &run).await?;
        // A recording answers for the servers too, and who has answered already needs none.
        let alone = run.replay.is_some() || choose::has_answered(&run, prepared.config.as_ref());
        let globals = &if alone { without_servers(globals) } else { with_own_servers(globals, &run) };
        let own = prepared.config.as_ref().filter(|_| !alone).map(config::servers).transpose()?.unwrap_or_default();
        let mut setup = Setup::load_beside(globals, own).await?;
        let own = prepared.config.as_ref().map(config::servers_of).transpose()?.unwrap_or_default();
        if let Some(idle) = own.idle_timeout {
            setup.session.deadlines.idle = Some(idle);
        }
        if let Some(missing) = setup.missing(run.strict).into_iter().next() {
            return Err(missing);
        }
        let mut policy = policy(&setup)?;
        for text in &run.allow {
            policy.rules.push(allowed(text)?);
        }
        let asker = whoever_is_there();
        let total = setup.session.deadlines.total;
        let dispatcher = dispatcher(globals, &setup, policy)?.with_spill(spill()?).with_limits(total, None);
        let dispatcher = dispatcher.with_user_prompt(Arc::clone(&asker)).with_trace(Arc::clone(&recorder) as _);
        let fleet = setup.open_or_empty(How::Lasting, &asker)?;
        // A model without servers just speaks: it is offered nothing at all.
        if let Some(read_output) = dispatcher.read_output().filter(|_| !fleet.statuses().is_empty()) {
            fleet.offer(read_output);
        }
        setup.follow(&fleet);
        Ok((prepared, Arc::new(dispatcher), fleet))
    };
    let (prepared, dispatcher, fleet) = match prepared.await {
        Ok(prepared) => prepared,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    let work = |stopped| Box::pin(converse(globals, &run, prepared, (&fleet, dispatcher, recorder), stopped));
    stoppable(&fleet, work).await
}

/// The same without any server: what a recording says is all there is.
fn without_servers(globals: &Globals) -> Globals {
    Globals { only_mcp: true, mcp: Vec::new(), ..globals.clone() }
}

/// The same with the servers of its model only, if that has some of its own.
fn with_own_servers(globals: &Globals, run: &Run) -> Globals {
    Globals { only_mcp: globals.only_mcp || run.models.is_some(), ..globals.clone() }
}

async fn prepare(globals: &Globals, run: &Run) -> Result<Prepared, Misuse> {
    let output = if globals.json { Output::Json } else { run.output };
    let config = config::chosen(run, globals)?;
    let agent_run = match (&run.resume, &run.prompt) {
        (Some(file), _) => {
            let mut written = CheckpointFile::read(file)
                .await
                .map_err(|error| misuse(error.to_string(), Some("a run is written down with --checkpoint FILE")))?;
            let limits = config::limits(run, written.limits().clone());
            let is_over = written.stop().is_some();
            if limits != *written.limits() && !written.set_limits(limits) && is_over && !globals.quiet {
                render::warning("the run is over, and more is of no use to it");
            }
            written
        }
        (None, prompt) => {
            let own = config.as_ref().and_then(|config| config.system_prompt.as_ref());
            let system = run.system.as_ref().or(own).map(|text| Message::text(Role::System, text.clone()));
            let asked = prompt.iter().map(|text| Message::text(Role::User, text.clone()));
            let limits = config::limits(run, config.as_ref().map(ModelConfig::limits).unwrap_or_default());
            AgentRun::new(shown::session_id(), system.into_iter().chain(asked).collect(), limits)
        }
    };
    if let Some(file) = &run.checkpoint {
        // What cannot be written down is known before anything is done.
        let written = CheckpointFile::new(file).save(&agent_run).await;
        written.map_err(|error| misuse(format!("the run cannot be written down: {error}"), None))?;
    }
    let (model, tape) = tape::thread(run, config.as_ref(), globals).await?;
    Ok(Prepared { model, config, run: agent_run, tape, output })
}

/// Where outputs are kept that are too long for a model.
fn spill() -> Result<Spill, Misuse> {
    let folder = std::env::temp_dir();
    Spill::new(&folder).map_err(|error| misuse(format!("nothing can be kept in {}: {error}", folder.display()), None))
}

fn allowed(text: &str) -> Result<Rule, Misuse> {
    let when: Condition = text.parse().map_err(|error| misuse(format!("--allow {text}: {error}"), None))?;
    Ok(Rule { when, then: RuleAction::Allow, name: Some(format!("--allow {text}")) })
}

fn dollars(text: &str) -> Result<f64, String> {
    let dollars: f64 = text.trim_start_matches('$').parse().map_err(|_| "this is no amount of dollars".to_owned())?;
    if dollars.is_finite() && dollars >= 0.0 { Ok(dollars) } else { Err("this is no amount of dollars".to_owned()) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let words = || "it is a number of seconds, for example 30 or 2.5".to_owned();
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(words)
}

async fn converse(
    globals: &Globals,
    run: &Run,
    prepared: Prepared,
    (fleet, dispatcher, recorder): (&Fleet, Arc<Dispatcher>, Arc<Recorder>),
    mut stopped: Stopped,
) -> Exit {
    let waited = tokio::select! {
        waited = wait(globals, run, fleet) => waited,
        () = stopped.come() => return Exit::Interrupted,
    };
    if let Err(missing) = waited {
        for status in &missing {
            not_there(status, globals);
        }
        return missing.iter().map(Exit::from).max().unwrap_or(Exit::Unreachable);
    }
    let Prepared { model, config, run: mut agent_run, tape, output } = prepared;
    if let (Some(config), false, true) = (&config, globals.quiet, tape.is_patient()) {
        for words in config::strangers(config, &fleet.catalog()) {
            render::warning(&words);
        }
    }
    let screen = Arc::new(Screen::new(globals, output));
    let sink: Arc<dyn EventSink> = match output {
        Output::StreamJson => Arc::new(Stream::new()),
        Output::Text | Output::Json => Arc::clone(&screen) as _,
    };
    recorder.tell(Arc::clone(&sink));
    let turns = tape.turns(catalogs(fleet, dispatcher));
    let asked = format!("{}:{}", model.interface(), model.name());
    let options = config.as_ref().map(ModelConfig::options).unwrap_or_default();
    let mut agent = Agent::new(model, turns)
        .with_options(options)
        .with_middleware(layers(config.as_ref(), tape.is_patient()))
        .with_events(sink);
    if let Some(time) = config.as_ref().and_then(ModelConfig::attempt_timeout) {
        agent = agent.with_attempt_timeout(time);
    }
    let file = run.checkpoint.as_deref().or(run.resume.as_deref());
    if let Some(file) = file {
        agent = agent.with_checkpoint(Arc::new(CheckpointFile::new(file)));
    }
    let finished = tokio::select! {
        finished = agent.run(&mut agent_run, stopped.come()) => finished,
        never = screen.watch() => match never {},
    };
    let mut result = finished.unwrap_or_else(|error| *error.result);
    result.servers = fleet.statuses().iter().map(server_status).collect();
    let mut exit = exit_of(&result);
    if let Err(words) = tape.finish() {
        render::error(&words, &[], Some("record it again with --record, or mend what has changed"));
        exit = exit.max(Exit::Failed);
    }
    let written = match output {
        Output::Json | Output::StreamJson => {
            let prompt = run.prompt.as_deref();
            let told = recorder.taken();
            let shown = Shown::new(&asked, prompt, (&result, &told));
            if output == Output::Json { render::json(&shown).await } else { render::json(&shown.last()).await }
        }
        Output::Text => screen.finish(&result, file).await,
    };
    exit.max(written)
}

/// What is offered may change between turns, never inside one.
fn catalogs(fleet: &Fleet, dispatcher: Arc<Dispatcher>) -> Arc<dyn ToolSource> {
    let fleet = fleet.clone();
    Arc::new(move || Arc::new(Turn { catalog: fleet.catalog(), dispatcher: Arc::clone(&dispatcher) }) as Arc<dyn Tools>)
}

fn exit_of(result: &AgentResult) -> Exit {
    match result.stop {
        RunEnd::Completed if result.final_response.is_some() => Exit::Done,
        RunEnd::Cancelled => Exit::Interrupted,
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

/// Waits for the servers that are needed, and a little for the others.
async fn wait(globals: &Globals, run: &Run, fleet: &Fleet) -> Result<(), Vec<ServerStatus>> {
    // Whoever is needed is waited for; the others have a little time to be there for the first turn.
    let waiting = async {
        fleet.needed(run.strict, PATIENCE).await?;
        fleet.settled(GRACE).await;
        Ok::<_, Vec<ServerStatus>>(())
    };
    tokio::pin!(waiting);
    // What is shown is gone when the waiting is over, before anything else is said.
    let waited = tokio::select! {
        waited = &mut waiting => waited,
        () = Live::watch(fleet, globals.quiet) => waiting.await,
    };
    waited?;
    if !globals.quiet {
        let absent = |status: &ServerStatus| !matches!(status.state, ServerState::Connected | ServerState::Disabled);
        for status in fleet.statuses().iter().filter(|status| absent(status)) {
            let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let again = if status.next_try.is_some() { "; it is tried again meanwhile" } else { "" };
            render::warning(&format!("{} is not there, and has no tools{reason}{again}", status.name));
        }
    }
    Ok(())
}

/// Tells why a server that is needed is not there.
fn not_there(status: &ServerStatus, globals: &Globals) {
    if let Some(error) = status.error() {
        let hint = render::advice_for(error, status.scope, globals);
        return render::call_error(error, hint, !matches!(status.transport, "stdio" | "sdk"));
    }
    let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    render::error(&format!("{} is {}{reason}", status.name, status.state), &[], None);
}

/// The layers of a run; a recording has waited already.
fn layers(config: Option<&ModelConfig>, patient: bool) -> Middleware {
    let mut middleware = config.map(ModelConfig::middleware).unwrap_or_default();
    if config.is_none_or(|config| config.agent_middleware.is_none()) {
        // Nobody who calls from a terminal has asked for caching.
        middleware.prompt_caching.unsupported_model_behavior = wharf::agent::middleware::OnUnsupported::Ignore;
    }
    if !patient {
        middleware.model_retry.initial_delay = 0.0;
        middleware.tool_retry.initial_delay = 0.0;
    }
    middleware
}
