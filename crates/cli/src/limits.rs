//! How long is waited and how much is done at once: flags, then variables, then what is usual.

use std::sync::Arc;
use std::time::Duration;

use wharf::fleet::{LOCAL_GATE, REMOTE_GATE};
use wharf::{Deadlines, EraCache, SessionOptions};

use crate::args::Globals;
use crate::places::Places;
use crate::servers::{Misuse, Protocols};
use crate::surroundings::variable;

/// How long a call may take in all.
const CALL: Duration = Duration::from_secs(600);
/// How long a server may take to start.
const CONNECT: Duration = Duration::from_secs(30);
/// The most that is done at once, whatever somebody asks for.
const MOST: usize = 1000;

/// How many servers are connected at the same time, and what was odd about how that was asked for.
pub(crate) struct Gates {
    pub(crate) local: usize,
    pub(crate) remote: usize,
    pub(crate) warnings: Vec<String>,
}

impl Gates {
    pub(crate) fn read() -> Self {
        let mut warnings = Vec::new();
        let local = gate(&["WHARF_LOCAL_GATE", "MCP_SERVER_CONNECTION_BATCH_SIZE"], LOCAL_GATE, &mut warnings);
        let names = ["WHARF_REMOTE_GATE", "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE"];
        let remote = gate(&names, REMOTE_GATE, &mut warnings);
        Self { local, remote, warnings }
    }
}

fn gate(names: &[&str], usual: usize, warnings: &mut Vec<String>) -> usize {
    let Some((name, value)) = first(names) else { return usual };
    match value.trim().parse() {
        Ok(count) if (1..=MOST).contains(&count) => count,
        _ => {
            warnings.push(format!("{name} is `{value}`, no number from 1 to {MOST}; {usual} is used"));
            usual
        }
    }
}

/// The first variable that is set, and its name.
fn first<'a>(names: &[&'a str]) -> Option<(&'a str, String)> {
    names.iter().find_map(|name| Some((*name, variable(&[name])?)))
}

/// The options that hold for every session of this program, and what was odd about the variables.
pub(crate) fn session(globals: &Globals, places: &Places) -> Result<(SessionOptions, Vec<String>), Misuse> {
    let mut warnings = Vec::new();
    let total = match globals.timeout {
        Some(value) => seconds("--timeout", value)?,
        None => milliseconds("MCP_TOOL_TIMEOUT", CALL, &mut warnings),
    };
    let connect = match globals.connect_timeout {
        Some(value) => seconds("--connect-timeout", value)?,
        None => milliseconds("MCP_TIMEOUT", CONNECT, &mut warnings),
    };
    let deadlines = Deadlines { total: Some(total), connect, ..Deadlines::default() };
    let protocol = Protocols::read(globals)?.with_all.unwrap_or_default();
    let memory = Arc::new(places.memory().map_or_else(EraCache::default, EraCache::with_file));
    let client_version = env!("CARGO_PKG_VERSION").to_owned();
    Ok((
        SessionOptions { deadlines, client_version, era_cache: memory, protocol, ..SessionOptions::default() },
        warnings,
    ))
}

fn seconds(flag: &str, value: f64) -> Result<Duration, Misuse> {
    let limit = Duration::try_from_secs_f64(value).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| Misuse {
        what: format!("{flag} {value:?} is no time to wait"),
        hint: Some(format!("give it in seconds, for example {flag} 120")),
    })
}

fn milliseconds(name: &str, usual: Duration, warnings: &mut Vec<String>) -> Duration {
    let Some(value) = variable(&[name]) else { return usual };
    match value.trim().parse() {
        Ok(milliseconds) if milliseconds > 0 => Duration::from_millis(milliseconds),
        _ => {
            let usual_told = usual.as_millis();
            warnings.push(format!("{name} is `{value}`, no number of milliseconds; {usual_told} is used"));
            usual
        }
    }
}
