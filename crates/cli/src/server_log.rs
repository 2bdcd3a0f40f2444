//! The log of servers: their states and what they write to stderr, one file per server in the state directory.
//!
//! Files are for their owner only, are limited in size and age, and contain no known secrets. A log that cannot be
//! written never fails a command. `WHARF_LOGS=off` turns it off.

mod entry;
mod file;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use wharf::fleet::{ServerLog, ServerStatus, StateReason};
use wharf::{Redactor, ServerName};

use crate::background::{Background, Job};
use crate::env::variable;
use crate::term;
pub(crate) use entry::{LogEvent, LogLine};
use file::LogFile;
pub(crate) use file::{LogReader, paths_of, servers_in};

/// The variable that turns the log off.
const SWITCH: &str = "WHARF_LOGS";
/// Longer reasons of a state are cut.
const MAX_REASON_CHARS: usize = 2000;

/// The command that runs, for the first entry of its run.
static COMMAND: OnceLock<String> = OnceLock::new();

/// Sets the name of the command that runs.
pub(crate) fn set_command(name: &str) {
    let _ = COMMAND.set(name.to_owned());
}

/// Whether servers are logged.
pub(crate) fn is_on() -> bool {
    let off = ["off", "0", "false", "no"];
    variable(&[SWITCH]).is_none_or(|value| !off.iter().any(|word| value.trim().eq_ignore_ascii_case(word)))
}

/// Logs the servers of a fleet.
#[derive(Debug)]
struct FleetLog {
    writer: Arc<Background<QueuedEvent>>,
    redactor: Redactor,
}

struct QueuedEvent {
    time: DateTime<Utc>,
    server: ServerName,
    event: LogEvent,
    /// Secrets that become known before the event is written are redacted too.
    redactor: Redactor,
}

/// Returns the log in a directory, unless it is turned off.
pub(crate) fn open(directory: Option<PathBuf>, redactor: &Redactor) -> Option<Arc<dyn ServerLog>> {
    static WRITER: Mutex<Option<Arc<Background<QueuedEvent>>>> = Mutex::new(None);
    let directory = directory.filter(|_| is_on())?;
    let mut writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let writer = if let Some(writer) = &*writer {
        Arc::clone(writer)
    } else {
        let mut files = LogFiles::new(directory);
        let background = Background::start("server-log", move |job| files.work(job))?;
        Arc::clone(writer.insert(Arc::new(background)))
    };
    Some(Arc::new(FleetLog { writer, redactor: redactor.clone() }))
}

impl FleetLog {
    fn push(&self, server: &ServerName, event: LogEvent, bytes: usize) {
        let time = Utc::now();
        let queued = QueuedEvent { time, server: server.clone(), event, redactor: self.redactor.clone() };
        self.writer.push(queued, bytes);
    }
}

impl ServerLog for FleetLog {
    fn state_changed(&self, status: &ServerStatus) {
        if matches!(status.reason, Some(StateReason::Closed)) {
            return self.push(&status.name, LogEvent::Closed, 0);
        }
        // A secret that is cut cannot be found any more.
        let reason = status
            .reason
            .as_ref()
            .map(|reason| self.redactor.redact(&reason.to_string()).chars().take(MAX_REASON_CHARS).collect());
        let info = status.info.as_ref();
        let event = LogEvent::State {
            state: status.state,
            reason,
            version: info.map(|info| format!("{} {}", info.name, info.version).chars().take(200).collect()),
            protocol: info.map(|info| info.protocol()),
            tools: info.map(|_| status.tools),
        };
        self.push(&status.name, event, MAX_REASON_CHARS);
    }

    fn stderr(&self, server: &ServerName, line: &str) {
        self.push(server, LogEvent::Stderr { line: line.to_owned() }, line.len());
    }
}

/// The files of one run of this program, as the writing thread sees them.
struct LogFiles {
    directory: PathBuf,
    run: String,
    /// `None` for a file that cannot be written.
    open: HashMap<ServerName, Option<LogFile>>,
}

impl LogFiles {
    fn new(directory: PathBuf) -> Self {
        let run = format!("{:08x}", std::process::id() ^ Utc::now().timestamp_subsec_nanos());
        Self { directory, run, open: HashMap::new() }
    }

    fn work(&mut self, job: Job<QueuedEvent>) {
        match job {
            Job::Write(QueuedEvent { time, server, event, redactor }) => {
                self.open(&server, time);
                self.write(&server, time, event, &redactor);
            }
            // Which servers they belong to is not known any more.
            Job::Dropped(count) => {
                let servers: Vec<ServerName> = self.open.keys().cloned().collect();
                for server in servers {
                    self.write(&server, Utc::now(), LogEvent::Dropped { count }, &Redactor::default());
                }
            }
            Job::Idle => {}
        }
    }

    /// Opens a server's file, and writes the entry that begins a run.
    fn open(&mut self, server: &ServerName, time: DateTime<Utc>) {
        if self.open.contains_key(server) {
            return;
        }
        if self.open.is_empty() {
            file::remove_old(&self.directory);
        }
        self.open.insert(server.clone(), LogFile::open(&self.directory, server).ok());
        let start = LogEvent::Start {
            command: COMMAND.get().cloned().unwrap_or_default(),
            pid: std::process::id(),
            directory: std::env::current_dir().map(|here| here.display().to_string()).unwrap_or_default(),
        };
        self.write(server, time, start, &Redactor::default());
    }

    fn write(&mut self, server: &ServerName, time: DateTime<Utc>, event: LogEvent, redactor: &Redactor) {
        let Some(Some(file)) = self.open.get_mut(server) else { return };
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let line = LogLine { time, run: self.run.clone(), event };
        let Ok(json) = serde_json::to_string(&line) else { return };
        let line = term::file_json_line(&redactor.redact_json(&json));
        if file.append(&line).is_err() {
            self.open.insert(server.clone(), None);
        }
    }
}
