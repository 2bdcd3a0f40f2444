//! `wharf run`: a model over the tools of the fleet. So far the model is a script; what it is given is what any model
//! will be given, and its calls go the way all calls go.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use wharf::fleet::dispatch::{Condition, Rule, Spill, Then};
use wharf::fleet::{Dispatcher, Fleet, State, Status, Turn};
use wharf::{Json, ToolCall, ToolOutput, ToolTrace, Tools, TraceEvent, TraceSink};

use crate::args::Globals;
use crate::asker::whoever_is_there;
use crate::dispatcher::{dispatcher, policy};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::live::Live;
use crate::render;
use crate::scripted::Turns;
use crate::servers::{Misuse, misuse};
use crate::setup::{How, Setup};

/// How long servers that nobody called required are waited for before the first turn.
const GRACE: Duration = Duration::from_secs(10);
/// How long required ones are: each has its own deadline for connecting, this is for the queue before it.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The model: `scripted:FILE`, which says what the file tells it to
    #[arg(short, long, value_name = "MODEL")]
    model: String,
    /// Do nothing unless every server is there
    #[arg(long)]
    strict: bool,
    /// The most turns there may be
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::new(25).expect("it is not zero"))]
    max_turns: NonZeroUsize,
    /// Calls that need not be asked about, for example `mcp__git__*` or `server:git !hint:destructive`. May be given
    /// several times
    #[arg(long, value_name = "CONDITION")]
    allow: Vec<String>,
    /// What the model is asked
    prompt: String,
}

pub(crate) async fn run(globals: &Globals, run: Run) -> Exit {
    let recorder = Arc::<Recorder>::default();
    let prepared = async {
        let turns = Turns::read(&scripted(&run.model)?)?;
        let setup = Setup::load(globals).await?;
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
        let dispatcher = dispatcher.with_asker(Arc::clone(&asker)).with_trace(Arc::clone(&recorder) as _);
        let fleet = setup.open_or_empty(How::Lasting, &asker)?;
        if let Some(read_output) = dispatcher.read_output() {
            fleet.offer(read_output);
        }
        setup.follow(&fleet);
        Ok((turns, Arc::new(dispatcher), fleet))
    };
    let (turns, dispatcher, fleet) = match prepared.await {
        Ok(prepared) => prepared,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    guarded(&fleet, async { Box::pin(converse(globals, &run, &turns, (&fleet, &dispatcher, &recorder))).await }).await
}

/// The file of a scripted model.
fn scripted(model: &str) -> Result<PathBuf, Misuse> {
    let file = model.strip_prefix("scripted:").filter(|file| !file.is_empty());
    file.map(|file| Path::new(file).to_owned()).ok_or_else(|| {
        let hint = "write -m scripted:turns.yaml; a turn is `- text: …` and the tools it calls";
        misuse(format!("there is no model `{model}`: models are scripted so far"), Some(hint))
    })
}

/// Where outputs are kept that are too long for a model.
fn spill() -> Result<Spill, Misuse> {
    let folder = std::env::temp_dir();
    Spill::new(&folder).map_err(|error| misuse(format!("nothing can be kept in {}: {error}", folder.display()), None))
}

fn allowed(text: &str) -> Result<Rule, Misuse> {
    let when: Condition = text.parse().map_err(|error| misuse(format!("--allow {text}: {error}"), None))?;
    Ok(Rule { when, then: Then::Allow, name: Some(format!("--allow {text}")) })
}

async fn converse(
    globals: &Globals,
    run: &Run,
    turns: &Turns,
    (fleet, dispatcher, recorder): (&Fleet, &Arc<Dispatcher>, &Recorder),
) -> Exit {
    if let Err(missing) = wait(globals, run, fleet).await {
        for status in &missing {
            not_there(status, globals);
        }
        return missing.iter().map(Exit::from).max().unwrap_or(Exit::Unreachable);
    }
    let (mut said, mut answer) = (Vec::new(), None);
    for (number, canned) in turns.iter().enumerate().take(run.max_turns.get()) {
        // What is offered may change between turns, never inside one.
        let turn = Turn { catalog: fleet.catalog(), dispatcher: Arc::clone(dispatcher) };
        let calls = canned.calls(number + 1);
        if !globals.json && !globals.quiet {
            show(&canned.text, &calls, number + 1 == turns.len());
        }
        let results = carry_out(&turn, &calls).await;
        let calls = calls.iter().zip(results).map(|(call, result)| ShownCall::new(call, result, recorder)).collect();
        let notes = turn.catalog.notes().map(ToString::to_string).collect();
        let shown = ShownTurn { offered: turn.offered().len(), notes, text: canned.text.clone(), calls };
        if !globals.json && !globals.quiet {
            shown.calls.iter().for_each(ShownCall::tell);
        }
        answer = shown.calls.is_empty().then(|| canned.text.clone());
        said.push(shown);
    }
    let limit_reached = turns.len() > run.max_turns.get();
    let exit = if answer.is_some() && !limit_reached { Exit::Done } else { Exit::Failed };
    let written = if globals.json {
        let servers = fleet.statuses().iter().map(ShownServer::new).collect();
        let (version, prompt, model) = (1, &*run.prompt, &*run.model);
        let final_response = answer.as_deref().filter(|_| !limit_reached);
        render::json(&Shown { version, model, prompt, final_response, limit_reached, turns: &said, servers }).await
    } else if limit_reached {
        render::error(
            &format!("the limit of {} turns was reached", run.max_turns),
            &[],
            Some("give more with --max-turns"),
        );
        Exit::Done
    } else if let Some(answer) = answer {
        render::out(render::for_stdout(answer)).await
    } else {
        render::error("the script ended with calls and without an answer", &[], None);
        Exit::Done
    };
    exit.max(written)
}

/// Waits for the servers that are needed, and a little for the others.
async fn wait(globals: &Globals, run: &Run, fleet: &Fleet) -> Result<(), Vec<Status>> {
    // Whoever is needed is waited for; the others have a little time to be there for the first turn.
    let waiting = async {
        fleet.needed(run.strict, PATIENCE).await?;
        fleet.settled(GRACE).await;
        Ok::<_, Vec<Status>>(())
    };
    tokio::pin!(waiting);
    // What is shown is gone when the waiting is over, before anything else is said.
    let waited = tokio::select! {
        waited = &mut waiting => waited,
        () = Live::watch(fleet, globals.quiet) => waiting.await,
    };
    waited?;
    if !globals.quiet {
        let absent = |status: &Status| !matches!(status.state, State::Connected | State::Disabled);
        for status in fleet.statuses().iter().filter(|status| absent(status)) {
            let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let again = if status.next_try.is_some() { "; it is tried again meanwhile" } else { "" };
            render::warning(&format!("{} is not there, and has no tools{reason}{again}", status.name));
        }
    }
    Ok(())
}

/// Tells why a server that is needed is not there.
fn not_there(status: &Status, globals: &Globals) {
    if let Some(error) = status.error() {
        let hint = render::advice_for(error, status.scope, globals);
        return render::call_error(error, hint, !matches!(status.transport, "stdio" | "sdk"));
    }
    let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    render::error(&format!("{} is {}{reason}", status.name, status.state), &[], None);
}

/// Carries out the calls of a turn: those that only read together, the others one after the other, each in its place.
pub(crate) async fn carry_out(tools: &dyn Tools, calls: &[ToolCall]) -> Vec<Result<ToolOutput, wharf::CallFailed>> {
    let only_reads = |call: &ToolCall| {
        let offered = tools.offered().iter().find(|offered| *offered.name == *call.name);
        offered.is_some_and(|offered| offered.hints.read_only == Some(true))
    };
    let mut results = Vec::new();
    let mut rest = calls;
    while let Some(first) = rest.first() {
        let together = if only_reads(first) { rest.iter().take_while(|call| only_reads(call)).count() } else { 1 };
        let (now, later) = rest.split_at(together);
        results.extend(join_all(now.iter().map(|call| tools.call(call))).await);
        rest = later;
    }
    results
}

fn show(text: &str, calls: &[ToolCall], last: bool) {
    // The last word is the answer, and goes where data goes.
    let is_answer = last && calls.is_empty();
    if !text.is_empty() && !is_answer {
        render::note(text);
    }
    for call in calls {
        render::note(&format!("→ {} {}", call.name, render::brief(call.arguments.as_str(), 200)));
    }
}

/// Keeps the story of every call.
#[derive(Default)]
struct Recorder(Mutex<Vec<ToolTrace>>);

impl Recorder {
    fn take(&self, id: &str) -> Option<ToolTrace> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = told.iter().position(|trace| *trace.id == *id)?;
        Some(told.remove(position))
    }
}

impl TraceSink for Recorder {
    fn record(&self, event: TraceEvent) {
        if let TraceEvent::ToolFinished(trace) = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*trace);
        }
    }
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    model: &'a str,
    prompt: &'a str,
    final_response: Option<&'a str>,
    limit_reached: bool,
    turns: &'a [ShownTurn],
    servers: Vec<ShownServer>,
}

#[derive(Serialize)]
struct ShownTurn {
    /// How many tools the model could choose from.
    offered: usize,
    /// What was done to what the servers offered: cut, overridden, left out.
    notes: Vec<String>,
    text: String,
    calls: Vec<ShownCall>,
}

#[derive(Serialize)]
struct ShownCall {
    id: Arc<str>,
    name: Arc<str>,
    arguments: Json,
    is_error: bool,
    /// What the model reads.
    text: String,
    /// Whether a call without an answer may have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// What was decided and changed on the way.
    trace: Option<ToolTrace>,
}

#[derive(Serialize)]
struct ShownServer {
    name: String,
    state: State,
    reason: Option<String>,
    tools: usize,
}

impl ShownServer {
    fn new(status: &Status) -> Self {
        let reason = status.reason.as_ref().map(ToString::to_string);
        Self { name: status.name.to_string(), state: status.state, reason, tools: status.tools }
    }
}

impl ShownCall {
    fn new(call: &ToolCall, result: Result<ToolOutput, wharf::CallFailed>, recorder: &Recorder) -> Self {
        let (is_error, text, outcome) = match result {
            Ok(output) => (output.is_error, output.text(), None),
            Err(failed) => (true, failed.reason, Some(failed.outcome.as_str())),
        };
        let ToolCall { id, name, arguments } = call.clone();
        Self { trace: recorder.take(&id), id, name, arguments, is_error, text, outcome }
    }

    fn tell(&self) {
        let text = render::brief(&self.text, 400);
        if self.is_error {
            render::warning(&format!("{}: {text}", self.name));
        } else {
            render::note(&format!("← {}: {text}", self.name));
        }
    }
}
