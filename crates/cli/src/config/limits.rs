//! Timeouts and concurrency: options first, then environment variables, then defaults.

use std::sync::Arc;
use std::time::Duration;

use wharf::fleet::{LOCAL_GATE, REMOTE_GATE};
use wharf::{Deadlines, EraCache, SessionOptions};

use super::paths::Paths;
use super::servers::Protocols;
use crate::env::variable;
use crate::error::UsageError;
use crate::globals::Globals;

const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many servers may connect at the same time at most.
const MAX_GATE: usize = 1000;

/// How many servers connect at the same time.
pub(super) struct Gates {
    pub(super) local: usize,
    pub(super) remote: usize,
}

impl Gates {
    pub(super) fn read(warnings: &mut Vec<String>) -> Self {
        let local = ["WHARF_LOCAL_GATE", "MCP_SERVER_CONNECTION_BATCH_SIZE"];
        let remote = ["WHARF_REMOTE_GATE", "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE"];
        Self { local: gate(&local, LOCAL_GATE, warnings), remote: gate(&remote, REMOTE_GATE, warnings) }
    }
}

fn gate(names: &[&str], default: usize, warnings: &mut Vec<String>) -> usize {
    let Some((name, value)) = first(names) else { return default };
    match value.trim().parse() {
        Ok(count) if (1..=MAX_GATE).contains(&count) => count,
        _ => {
            warnings.push(format!("invalid {name} `{value}`: expected 1 to {MAX_GATE}; using {default}"));
            default
        }
    }
}

/// Returns the first variable that is set, with its name.
fn first<'a>(names: &[&'a str]) -> Option<(&'a str, String)> {
    names.iter().find_map(|name| Some((*name, variable(&[name])?)))
}

/// Returns the options that all sessions share.
pub(super) fn session(
    globals: &Globals,
    paths: &Paths,
    warnings: &mut Vec<String>,
) -> Result<SessionOptions, UsageError> {
    let total = match globals.timeout {
        Some(value) => seconds("--timeout", value)?,
        None => milliseconds("MCP_TOOL_TIMEOUT", DEFAULT_CALL_TIMEOUT, warnings),
    };
    let connect = match globals.connect_timeout {
        Some(value) => seconds("--connect-timeout", value)?,
        None => milliseconds("MCP_TIMEOUT", DEFAULT_CONNECT_TIMEOUT, warnings),
    };
    Ok(SessionOptions {
        deadlines: Deadlines { total: Some(total), connect, ..Deadlines::default() },
        client_version: env!("CARGO_PKG_VERSION").to_owned(),
        era_cache: Arc::new(paths.server_cache().map_or_else(EraCache::default, EraCache::with_file)),
        protocol: Protocols::read(globals)?.with_all.unwrap_or_default(),
        ..SessionOptions::default()
    })
}

fn seconds(flag: &str, value: f64) -> Result<Duration, UsageError> {
    let limit = Duration::try_from_secs_f64(value).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| UsageError {
        message: if value <= 0.0 {
            format!("{flag} must be greater than 0")
        } else {
            format!("invalid {flag} {value:?}: not a duration")
        },
        hint: Some(format!("give it in seconds, for example {flag} 120")),
    })
}

fn milliseconds(name: &str, default: Duration, warnings: &mut Vec<String>) -> Duration {
    let Some(value) = variable(&[name]) else { return default };
    match value.trim().parse() {
        Ok(milliseconds) if milliseconds > 0 => Duration::from_millis(milliseconds),
        _ => {
            let used = default.as_millis();
            warnings.push(format!("invalid {name} `{value}`: expected milliseconds; using {used}"));
            default
        }
    }
}
