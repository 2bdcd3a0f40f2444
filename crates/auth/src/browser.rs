//! Opens the authorization page in a browser.
//!
//! The URL comes from an untrusted server and is passed to another program. So it is checked first, and accepted only if no
//! program could interpret it as something else.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use wharf_io::address::is_loopback_host;
use wharf_io::percent::is_well_formed;
use wharf_io::{Environment, search_folders};

/// Programs that open the user's preferred browser. `open` is a different program outside of macOS.
const OPENERS: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "sensible-browser"] };
/// How long to wait for an opener to fail. One that still runs then is the browser itself.
const OPENER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval for polling the opener.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why a URL is not safe to open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeUrl {
    /// Not an http or https URL.
    #[error("the URL must start with https:// or http://")]
    Scheme,
    /// Contains an unescaped special character, or an invalid percent escape.
    #[error("the URL contains an unescaped {0:?}")]
    Character(char),
    /// Contains a user name or password, which is often used to disguise the host.
    #[error("the URL contains a user name")]
    UserName,
    /// The host is missing or invalid.
    #[error("the URL has no valid host")]
    Host,
    /// Neither encrypted nor on this machine.
    #[error("the URL uses http and is not on this machine")]
    PlainHttp,
}

/// Why no browser was opened.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// The URL is not safe to open.
    #[error(transparent)]
    Unsafe(#[from] UnsafeUrl),
    /// No opener worked: show the URL to the user instead.
    #[error("cannot open a browser: {}", list(.0))]
    NoBrowser(Vec<FailedOpener>),
}

/// An opener that failed.
#[derive(Debug)]
pub struct FailedOpener {
    /// The name of the program.
    pub program: String,
    /// How it failed.
    pub failure: OpenerFailure,
}

/// How an opener failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenerFailure {
    /// The program does not exist.
    #[error("not found")]
    NotFound,
    /// The program could not be started or waited for.
    #[error("cannot run: {0}")]
    Run(#[from] io::Error),
    /// The program exited with an error.
    #[error("failed with {0}")]
    Status(ExitStatus),
}

impl fmt::Display for FailedOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.program, self.failure)
    }
}

/// Checks whether a URL is safe to open in a browser.
///
/// It must be an http or https URL, encrypted unless it is on this machine. It must not contain characters that a shell
/// interprets: no shell is used here, but some openers are scripts. Such characters can be percent-encoded. `&` is allowed,
/// because queries need it.
///
/// # Errors
/// Returns why the URL is not safe.
pub fn check(url: &str) -> Result<(), UnsafeUrl> {
    let (scheme, rest) = url.split_once("://").ok_or(UnsafeUrl::Scheme)?;
    let is_encrypted = scheme.eq_ignore_ascii_case("https");
    if !is_encrypted && !scheme.eq_ignore_ascii_case("http") {
        return Err(UnsafeUrl::Scheme);
    }
    let (authority, page) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // Square brackets are allowed around an IPv6 address only.
    for (part, brackets) in [(authority, "[]"), (page, "")] {
        if let Some(character) = first_unsafe(part, brackets) {
            return Err(UnsafeUrl::Character(character));
        }
    }
    if authority.contains('@') {
        return Err(UnsafeUrl::UserName);
    }
    let host = host(authority).ok_or(UnsafeUrl::Host)?;
    if is_encrypted || is_loopback_host(host) { Ok(()) } else { Err(UnsafeUrl::PlainHttp) }
}

/// Opens a URL in a browser: with `opener` and its arguments if given, otherwise with the system's openers.
///
/// The URL is the last argument. A program without a path is looked up in the `PATH` of `environment`, which is also the
/// only environment it receives. An opener that does not exit is left running.
///
/// # Errors
/// If the URL is not safe, or no opener worked.
pub async fn open(url: &str, opener: Option<&[String]>, environment: &Environment) -> Result<(), BrowserError> {
    check(url)?;
    let custom = opener.and_then(<[String]>::split_first);
    let default = OPENERS.iter().map(|program| (*program, [].as_slice()));
    let mut failures = Vec::new();
    for (program, arguments) in custom.map(|(program, rest)| (program.as_str(), rest)).into_iter().chain(default) {
        match run_opener(program, arguments, url, environment).await {
            Ok(()) => return Ok(()),
            Err(failure) => failures.push(FailedOpener { program: program.to_owned(), failure }),
        }
    }
    Err(BrowserError::NoBrowser(failures))
}

/// Returns the first character that must be escaped.
fn first_unsafe(part: &str, also_safe: &str) -> Option<char> {
    let safe = |character: char| character.is_ascii_alphanumeric() || "-._~:/?#@&=+,%".contains(character);
    let unsafe_one = part.chars().find(|character| !safe(*character) && !also_safe.contains(*character));
    // `%PATH%` is a variable in some shells.
    unsafe_one.or_else(|| (!is_well_formed(part)).then_some('%'))
}

/// Returns the host, if host and port are well-formed.
fn host(authority: &str) -> Option<&str> {
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at(end);
    let port_is_valid = match port.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    let host_is_valid = match host.strip_prefix('[') {
        Some(address) => address.trim_end_matches(']').parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    (host_is_valid && port_is_valid).then_some(host)
}

async fn run_opener(
    program: &str,
    arguments: &[String],
    url: &str,
    environment: &Environment,
) -> Result<(), OpenerFailure> {
    let mut command = Command::new(find(program, environment).ok_or(OpenerFailure::NotFound)?);
    command.args(arguments).arg(url).env_clear().envs(environment.iter());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The browser may outlive this process, and Ctrl-C must not reach it.
    command.process_group(0);
    let started = tokio::task::spawn_blocking(move || command.spawn()).await;
    let mut opener = started.map_err(io::Error::other)??;
    // Dropping the handle does not kill the process.
    match timeout(OPENER_TIMEOUT, exited(&mut opener)).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(OpenerFailure::Status(status)),
        Ok(Err(error)) => Err(OpenerFailure::Run(error)),
        Err(_) => Ok(()),
    }
}

async fn exited(opener: &mut Child) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = opener.try_wait()? {
            return Ok(status);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the file of a program: a path as it is, a name from the absolute directories of `PATH`.
fn find(program: &str, environment: &Environment) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let dirs = search_folders(environment.get("PATH")?);
    let is_executable =
        |file: &PathBuf| file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    dirs.map(|dir| dir.join(program)).find(is_executable)
}

fn list(failures: &[FailedOpener]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
