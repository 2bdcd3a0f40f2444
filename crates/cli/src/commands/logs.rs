//! `wharf logs`: what was logged about a server, of the last runs that used it.

use std::time::Duration;

use clap_complete::ArgValueCandidates;
use wharf::fleet::ServerState;
use wharf::nearest;

use crate::complete;
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::server_log::{self, LogEvent, LogLine, LogReader};
use crate::term::{self, DIM, GREEN, RED, YELLOW, painted};

/// How often a file is checked for new lines.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Wharf logs the states of servers and what they write to stderr, without known secrets. Each server \
        has at most 2 MiB, and a log that is not written for 14 days is deleted. WHARF_LOGS=off turns logging off.\n\n\
        Examples:\n  wharf logs github\n  wharf logs github -n 20 --follow"
)]
pub(crate) struct Logs {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::logged_servers))]
    server: String,
    /// Number of lines to show
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 200)]
    lines: usize,
    /// Wait for new lines and show them, until you press Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn run(globals: &Globals, logs: Logs) -> Exit {
    match dropped_on_interrupt(Box::pin(show(globals, &logs))).await {
        // Ctrl-C is how following ends.
        Exit::Interrupted if logs.follow => Exit::Done,
        exit => exit,
    }
}

async fn show(globals: &Globals, logs: &Logs) -> Exit {
    let (lines, mut reader) = match open(globals, logs) {
        Ok(opened) => opened,
        Err(error) => return term::usage_error(&error),
    };
    if !globals.quiet && !server_log::is_on() {
        term::note("logging is turned off by WHARF_LOGS; these are earlier runs");
    }
    let mut printer = Printer { json: globals.json, last_run: None };
    let first = lines.len().saturating_sub(logs.lines);
    // The run of the first line is told, even if its beginning is not shown.
    let exit = printer.print(&lines[first..]).await;
    if exit != Exit::Done || !logs.follow {
        return exit;
    }
    loop {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let exit = match reader.more() {
            Ok(lines) => printer.print(&lines).await,
            Err(error) => {
                term::error(&format!("cannot read the log of `{}`: {error}", logs.server), &[], None);
                Exit::Failed
            }
        };
        if exit != Exit::Done {
            return exit;
        }
    }
}

fn open(globals: &Globals, logs: &Logs) -> Result<(Vec<String>, LogReader), UsageError> {
    let Logs { server, follow, .. } = logs;
    let directory = Paths::find(globals)?.logs.ok_or_else(crate::config::no_home)?;
    // The name becomes part of a path.
    let is_name = server.parse::<wharf::ServerName>().is_ok();
    let is_logged = is_name && server_log::paths_of(&directory, server).iter().any(|path| path.exists());
    let may_come = is_name && *follow;
    if !is_logged && !may_come {
        let names = server_log::servers_in(&directory);
        let hint = match nearest(server, names.iter().map(String::as_str)) {
            Some(name) => format!("did you mean `{name}`?"),
            None if !server_log::is_on() => "logging is turned off by WHARF_LOGS".to_owned(),
            None => format!("a server is logged when a command connects to it: wharf tools {}", term::name(server)),
        };
        return Err(usage_error(format!("no log of server `{}`", term::name(server)), Some(&hint)));
    }
    LogReader::open(&directory, server)
        .map_err(|error| usage_error(format!("cannot read the log of `{server}`: {error}"), None))
}

/// Prints lines, and a heading for each run.
struct Printer {
    json: bool,
    last_run: Option<String>,
}

impl Printer {
    async fn print(&mut self, lines: &[String]) -> Exit {
        let mut text = String::new();
        for line in lines {
            // Another program may have written to the file.
            let Ok(parsed) = serde_json::from_str::<LogLine>(line) else { continue };
            if self.json {
                text.push_str(&term::json_line(line));
                text.push('\n');
            } else {
                self.add(&parsed, &mut text);
            }
        }
        if text.is_empty() { Exit::Done } else { term::exactly(text.into_bytes()).await }
    }

    fn add(&mut self, line: &LogLine, text: &mut String) {
        let (date, time) = line.time.split_once('T').unwrap_or(("", &line.time));
        let time = term::name(time.trim_end_matches('Z'));
        if self.last_run.as_deref() != Some(&line.run) {
            self.last_run = Some(line.run.clone());
            let what = match &line.event {
                LogEvent::Start { command, pid, directory } => {
                    format!("wharf {command} (pid {pid}) in {directory}")
                }
                _ => "continued".to_owned(),
            };
            if !text.is_empty() {
                text.push('\n');
            }
            let heading = format!("── {} {time} UTC · {}", term::name(date), term::name(&what));
            text.push_str(&painted(&heading, DIM));
            text.push('\n');
        }
        let what = match &line.event {
            LogEvent::Start { .. } => return,
            LogEvent::State { state, reason, version, protocol, tools } => {
                let color = match state {
                    ServerState::Connected => GREEN,
                    ServerState::Failed => RED,
                    ServerState::NeedsAuth | ServerState::Pending | ServerState::Disabled => YELLOW,
                };
                let protocol = protocol.as_ref().map(|protocol| format!("protocol {protocol}"));
                let tools = tools.map(|tools| term::counted(tools, "tool"));
                let details: Vec<String> =
                    [reason.clone(), version.clone(), protocol, tools].into_iter().flatten().collect();
                let separator = if details.is_empty() { "" } else { ": " };
                format!("{}{separator}{}", painted(state.as_str(), color), term::name(&details.join(", ")))
            }
            LogEvent::Closed => "closed".to_owned(),
            LogEvent::Stderr { line } => format!("{} {}", painted("stderr │", DIM), term::flat(line)),
            LogEvent::Dropped { count } => painted(&format!("{count} entries are missing"), YELLOW),
        };
        text.extend([&painted(&time, DIM), " ", &what, "\n"]);
    }
}
