//! `wharf repl`: explore one server, with one session for all calls.
//!
//! At a terminal, a line editor reads commands; Ctrl-C cancels a call, and Ctrl-D leaves. Otherwise the lines of stdin are
//! a script, and the exit code is that of its first failure.

mod cancel;
mod command;
mod history;
mod line_editor;
mod words;

use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::fleet::dispatch::UserPrompt;
use wharf::fleet::{Dispatcher, Fleet, ServerState};
use wharf::{Session, SessionStatus};

use super::call::{self, Call, ProgressLine};
use super::{prompts, read, resources, tools};
use crate::complete;
use crate::config::dispatcher::{dispatcher, policy};
use crate::config::{FleetLifetime, ServerSelection, Setup};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::failure::Subject;
use crate::globals::Globals;
use crate::interrupt::{CancelSignals, Cancellable, guarded_by};
use crate::models::timeouts::ModelTimeouts;
use crate::one_shot::connected_server;
use crate::term::prompt::is_asking;
use crate::term::{self, SETTLE_LIMIT};
use cancel::CancellablePrompt;
use command::{CommandHelp, ReplCommand};
use history::History;
use line_editor::{LineEditor, TypedLine};
use words::SharedWords;

/// Longer lines of a script are errors.
const MAX_LINE_BYTES: usize = 1024 * 1024;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf repl time\n  wharf repl --mcp 'time=uvx mcp-server-time' time\n  \
        echo 'get_current_time timezone=Europe/Paris' | wharf repl time")]
pub(crate) struct Repl {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: String,
    /// Model for completions that the server requests; you review each one [default: `WHARF_MODEL`, or a provider with an
    /// API key]
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    timeouts: ModelTimeouts,
    /// Let the server ask you for passwords and other secrets; what you type is not shown
    #[arg(long)]
    allow_secrets: bool,
}

/// An open session with its commands.
struct ReplSession<'a> {
    globals: &'a Globals,
    server: &'a str,
    fleet: &'a Fleet,
    dispatcher: Dispatcher,
    questions: Arc<CancellablePrompt>,
    /// The options of all calls.
    call: Call,
    progress: Arc<ProgressLine>,
    words: SharedWords,
    /// The number of the connection that was last seen, and whether the server was connected.
    epoch: u64,
    is_connected: bool,
}

/// The layout of `help` with `--json`.
#[derive(Serialize)]
struct JsonHelp {
    version: u32,
    commands: &'static [CommandHelp],
}

/// Whether the next line is read.
#[derive(Clone, Copy)]
enum Next {
    Continue(Exit),
    Quit,
}

pub(crate) async fn run(globals: &Globals, repl: Repl) -> Exit {
    let progress = Arc::new(ProgressLine::new(globals.quiet));
    let prepared = async {
        let setup = Setup::load_for(globals, ServerSelection::One(&repl.server)).await?;
        let call = Call::interactive(&repl.server, repl.model.clone(), repl.timeouts, repl.allow_secrets);
        let questions = CancellablePrompt::new(call::prompt(globals, &call).await?);
        let prompt: Arc<dyn UserPrompt> = Arc::clone(&questions) as _;
        let dispatcher = dispatcher(globals, &setup, policy(&setup)?)?.with_user_prompt(Arc::clone(&prompt));
        let dispatcher = dispatcher.with_unlimited_outputs().with_trace(Arc::clone(&progress) as _);
        let fleet = setup.open_for_user(&repl.server, &prompt, FleetLifetime::Session)?;
        Ok::<_, UsageError>((setup, fleet, dispatcher, questions, call))
    };
    let (setup, fleet, dispatcher, questions, call) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return term::usage_error(&error),
    };
    let mut signals = CancelSignals::new();
    let words = SharedWords::default();
    let mut repl_session = ReplSession {
        globals,
        server: &repl.server,
        fleet: &fleet,
        dispatcher,
        questions,
        call,
        progress,
        words: words.clone(),
        epoch: 0,
        is_connected: false,
    };
    let work = async {
        match signals.cancellable(repl_session.connect()).await {
            Cancellable::Done(Ok(())) => {}
            Cancellable::Done(Err(exit)) => return exit,
            Cancellable::Canceled | Cancellable::Ended => return Exit::Interrupted,
        }
        if std::io::stdin().is_terminal() {
            let history = History::open(setup.paths.history.as_deref(), fleet.redactor());
            interactive(repl_session, signals, LineEditor::new(words, history)).await
        } else {
            script(repl_session, signals).await
        }
    };
    guarded_by(&fleet, work).await
}

/// Reads commands at a terminal until the user leaves.
async fn interactive(
    mut repl_session: ReplSession<'_>,
    mut signals: CancelSignals,
    editor: Option<LineEditor>,
) -> Exit {
    let Some(mut editor) = editor else {
        let error =
            usage_error("cannot use this terminal".to_owned(), Some("pipe the commands in: wharf repl SERVER < FILE"));
        return term::usage_error(&error);
    };
    repl_session.greet();
    loop {
        repl_session.report_changes();
        let prompt = format!("{}> ", repl_session.server);
        let Some(typed) = signals.until_ended(editor.read(prompt)).await else { return Exit::Interrupted };
        let line = match typed {
            TypedLine::Line(line) => line,
            // Ctrl-C at the prompt only drops what was typed.
            TypedLine::Dropped => continue,
            TypedLine::End => return Exit::Done,
            TypedLine::Failed(reason) => {
                term::error(&format!("cannot read the terminal: {reason}"), &[], None);
                return Exit::Failed;
            }
        };
        match signals.cancellable(repl_session.execute(&line)).await {
            Cancellable::Done(Next::Continue(_)) => {}
            Cancellable::Done(Next::Quit) => return Exit::Done,
            Cancellable::Canceled => {
                repl_session.questions.cancel();
                questions_gone().await;
                repl_session.progress.clear();
                term::note("canceled");
            }
            Cancellable::Ended => return Exit::Interrupted,
        }
    }
}

/// Waits until no question is on the screen: it would take the next line.
async fn questions_gone() {
    let gone = async {
        let mut pause = tokio::time::interval(Duration::from_millis(5));
        while is_asking() {
            pause.tick().await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), gone).await;
}

/// Executes the lines of stdin. Returns the exit code of the first failure.
async fn script(mut repl_session: ReplSession<'_>, mut signals: CancelSignals) -> Exit {
    let mut first_failure = Exit::Done;
    loop {
        let line = match signals.cancellable(next_line()).await {
            Cancellable::Done(Ok(Some(line))) => line,
            Cancellable::Done(Ok(None)) => return first_failure,
            Cancellable::Done(Err(error)) => return term::usage_error(&error),
            Cancellable::Canceled | Cancellable::Ended => return Exit::Interrupted,
        };
        let exit = match signals.cancellable(repl_session.execute(&line)).await {
            Cancellable::Done(Next::Continue(exit)) => exit,
            Cancellable::Done(Next::Quit) => return first_failure,
            Cancellable::Canceled | Cancellable::Ended => return Exit::Interrupted,
        };
        if first_failure == Exit::Done {
            first_failure = exit;
        }
        repl_session.report_changes();
    }
}

/// Reads a line of stdin on a blocking thread, so that Ctrl-C still works.
async fn next_line() -> Result<Option<String>, UsageError> {
    let read = || {
        let mut line = Vec::new();
        let mut stdin = std::io::Read::take(std::io::stdin().lock(), MAX_LINE_BYTES as u64 + 1);
        let bytes = stdin.read_until(b'\n', &mut line);
        bytes.map(|bytes| (bytes > 0).then_some(line))
    };
    let failed = |why: String| usage_error(format!("cannot read stdin: {why}"), None);
    let line = match tokio::task::spawn_blocking(read).await {
        Ok(read) => read.map_err(|error| failed(error.to_string()))?,
        Err(error) => return Err(failed(error.to_string())),
    };
    let Some(line) = line else { return Ok(None) };
    if line.len() > MAX_LINE_BYTES {
        return Err(usage_error(format!("a line is longer than {MAX_LINE_BYTES} bytes"), None));
    }
    String::from_utf8(line).map(Some).map_err(|_| failed("a line is not UTF-8".to_owned()))
}

impl ReplSession<'_> {
    /// Waits for the server, and reports why it is not connected.
    async fn connect(&mut self) -> Result<(), Exit> {
        self.progress.show(&format!("connecting to {}", self.server));
        self.fleet.settled(SETTLE_LIMIT).await;
        self.progress.clear();
        connected_server(self.fleet, self.globals, Subject::server(self.server)).await?;
        self.is_connected = true;
        self.epoch = self.session().map_or(0, |session| session.epoch());
        self.words.set(&self.fleet.catalog());
        Ok(())
    }

    fn session(&self) -> Option<Session> {
        self.fleet.session(&self.server.parse().ok()?)
    }

    fn greet(&self) {
        if self.globals.quiet {
            return;
        }
        let tools = term::counted(self.fleet.catalog().entries().len(), "tool");
        let info = self.session().and_then(|session| match &*session.status().borrow() {
            SessionStatus::Connected(info) => Some(format!("{} {}, ", info.name, info.version)),
            _ => None,
        });
        let info = term::name(&info.unwrap_or_default());
        term::note(&format!("connected to {}: {info}{tools}. `help` lists the commands, Ctrl-D leaves.", self.server));
    }

    /// Says when the server went away, and when it is back.
    fn report_changes(&mut self) {
        let Some(status) = self.fleet.statuses().pop() else { return };
        let was_connected = self.is_connected;
        self.is_connected = status.state == ServerState::Connected;
        let epoch = self.session().map_or(0, |session| session.epoch());
        if self.is_connected && epoch != 0 && epoch != self.epoch {
            term::note(&format!("reconnected to {}: the session is a new one", self.server));
            self.epoch = epoch;
        } else if was_connected && !self.is_connected {
            let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
            term::note(&format!("{} is down: {}; the next command reconnects", self.server, term::name(&reason)));
        }
        self.words.set(&self.fleet.catalog());
    }

    /// Connects again if the server went away.
    async fn reconnect(&mut self) -> Result<(), Exit> {
        let is_connected = self.fleet.statuses().pop().is_some_and(|status| status.state == ServerState::Connected);
        if is_connected {
            return Ok(());
        }
        self.progress.show(&format!("reconnecting to {}", self.server));
        if let Ok(name) = self.server.parse() {
            let _ = self.fleet.connect(&name).await;
        }
        self.progress.clear();
        connected_server(self.fleet, self.globals, Subject::server(self.server)).await?;
        self.report_changes();
        Ok(())
    }

    /// Executes a line. With `--json`, each command prints one JSON value, also if it fails.
    async fn execute(&mut self, line: &str) -> Next {
        term::start_report();
        let next = self.execute_line(line).await;
        if self.globals.json
            && let Next::Continue(exit) = next
        {
            term::json_failure(exit).await;
        }
        // The failure of a line has been reported; it is not that of the process.
        term::set_output();
        next
    }

    async fn execute_line(&mut self, line: &str) -> Next {
        let command = match ReplCommand::parse(line) {
            Ok(Some(command)) => command,
            Ok(None) => return Next::Continue(Exit::Done),
            Err(error) => return Next::Continue(term::usage_error(&error)),
        };
        match &command {
            ReplCommand::Quit => return Next::Quit,
            ReplCommand::Help if self.globals.json => {
                return Next::Continue(term::json(&JsonHelp { version: 1, commands: &command::COMMANDS }).await);
            }
            ReplCommand::Help => return Next::Continue(term::out(command::help()).await),
            _ => {}
        }
        if let Err(exit) = self.reconnect().await {
            return Next::Continue(exit);
        }
        Next::Continue(self.request(command).await)
    }

    async fn request(&mut self, command: ReplCommand) -> Exit {
        let (fleet, globals) = (self.fleet, self.globals);
        match command {
            ReplCommand::Quit | ReplCommand::Help => Exit::Done,
            ReplCommand::Tools(None) => tools::list(fleet, globals).await,
            ReplCommand::Tools(Some(tool)) => tools::show_one(fleet, globals, self.server, &tool).await,
            ReplCommand::Prompts => prompts::list(fleet, globals).await,
            ReplCommand::Resources => resources::list(fleet, globals).await,
            ReplCommand::Read(uri) => read::read_from(fleet, globals, &read::Read::of(self.server, &uri)).await,
            ReplCommand::Call { tool, arguments } => {
                let call = self.call.of_tool(tool, arguments);
                call::call_connected(globals, &call, fleet, &self.dispatcher, &self.progress).await
            }
        }
    }
}
