//! Shows a person the page on which they sign in.
//!
//! The address of that page comes from a server we have no reason to trust, and goes to a program that may do anything
//! with it. So it is looked at first, and passes only if nothing on its way could take it for something else.

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
use wharf_io::Environment;
use wharf_io::address::is_loopback_host;
use wharf_io::percent::is_well_formed;

/// What opens a page in the browser a person prefers. Elsewhere than on macOS `open` is something else.
const OPENERS: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "sensible-browser"] };
/// How long an opener may take to fail. One that still runs then is the browser itself.
const OPENER_LIMIT: Duration = Duration::from_secs(5);
/// The pause between two looks at an opener.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What is wrong with an address that a person is to be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeUrl {
    /// It is no web page.
    #[error("the address begins neither with https:// nor with http://")]
    Scheme,
    /// It has a character that has to be escaped, or a percent sign that is no escape.
    #[error("the address has {0:?} in it unescaped")]
    Character(char),
    /// It has a user name or a password in it, often to look like another address.
    #[error("the address has a user name in it")]
    UserName,
    /// It says nothing about where the page is, or nothing that can be understood.
    #[error("the address has no valid host")]
    Host,
    /// Everybody on the way could read along.
    #[error("the address is not encrypted, and not on this machine")]
    PlainHttp,
}

/// Why no browser was opened.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// The address is not safe to open.
    #[error(transparent)]
    Unsafe(#[from] UnsafeUrl),
    /// Nothing on this machine opens it: show it to the person instead.
    #[error("no browser could be opened ({})", list(.0))]
    NoBrowser(Vec<FailedOpener>),
}

/// An opener that did not work.
#[derive(Debug)]
pub struct FailedOpener {
    /// Its name.
    pub program: String,
    /// What happened.
    pub failure: OpenerFailure,
}

/// How an opener did not work.
#[derive(Debug, thiserror::Error)]
pub enum OpenerFailure {
    /// It is not there.
    #[error("was not found")]
    NotFound,
    /// It could not be started, or was lost sight of.
    #[error("could not be run: {0}")]
    Run(#[from] io::Error),
    /// It said that it failed.
    #[error("failed with {0}")]
    Status(ExitStatus),
}

impl fmt::Display for FailedOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.program, self.failure)
    }
}

/// Whether an address may be opened in a browser.
///
/// It has to be a web page, encrypted unless it is on this machine. It may only have characters in it that no shell
/// acts on: nothing here goes through one, but some openers are scripts. What else belongs into an address can be
/// escaped. `&` is the exception, because there is no other way to write a query.
pub fn check(url: &str) -> Result<(), UnsafeUrl> {
    let (scheme, rest) = url.split_once("://").ok_or(UnsafeUrl::Scheme)?;
    let encrypted = scheme.eq_ignore_ascii_case("https");
    if !encrypted && !scheme.eq_ignore_ascii_case("http") {
        return Err(UnsafeUrl::Scheme);
    }
    let (authority, page) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // Square brackets belong around an address with colons, and nowhere else.
    for (part, brackets) in [(authority, "[]"), (page, "")] {
        if let Some(character) = first_unsafe(part, brackets) {
            return Err(UnsafeUrl::Character(character));
        }
    }
    if authority.contains('@') {
        return Err(UnsafeUrl::UserName);
    }
    let host = host(authority).ok_or(UnsafeUrl::Host)?;
    if encrypted || is_loopback_host(host) { Ok(()) } else { Err(UnsafeUrl::PlainHttp) }
}

/// Opens an address in a browser: with `opener` and its arguments if there is one, else with what this system has.
///
/// The address is the last argument. A program that is named without a path is looked up in the `PATH` of
/// `environment`, which is all it gets to see. An opener that is still running after a while is left running.
pub async fn open(url: &str, opener: Option<&[String]>, environment: &Environment) -> Result<(), BrowserError> {
    check(url)?;
    let named = opener.and_then(<[String]>::split_first);
    let known = OPENERS.iter().map(|program| (*program, [].as_slice()));
    let mut attempts = Vec::new();
    for (program, arguments) in named.map(|(program, rest)| (program.as_str(), rest)).into_iter().chain(known) {
        match try_one(program, arguments, url, environment).await {
            Ok(()) => return Ok(()),
            Err(failure) => attempts.push(FailedOpener { program: program.to_owned(), failure }),
        }
    }
    Err(BrowserError::NoBrowser(attempts))
}

/// The first character that may not stand there as it is.
fn first_unsafe(part: &str, also_safe: &str) -> Option<char> {
    let safe = |character: char| character.is_ascii_alphanumeric() || "-._~:/?#@&=+,%".contains(character);
    let unsafe_one = part.chars().find(|character| !safe(*character) && !also_safe.contains(*character));
    // `%PATH%` is a variable in some places.
    unsafe_one.or_else(|| (!is_well_formed(part)).then_some('%'))
}

/// The host alone, if it and the port are well-formed.
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

async fn try_one(
    program: &str,
    arguments: &[String],
    url: &str,
    environment: &Environment,
) -> Result<(), OpenerFailure> {
    let mut command = Command::new(find(program, environment).ok_or(OpenerFailure::NotFound)?);
    command.args(arguments).arg(url).env_clear().envs(environment.iter());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The browser may live longer than us, and Ctrl-C is not meant for it.
    command.process_group(0);
    let started = tokio::task::spawn_blocking(move || command.spawn()).await;
    let mut opener = started.map_err(io::Error::other)??;
    // A handle that is dropped leaves its process alone.
    match timeout(OPENER_LIMIT, ended(&mut opener)).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(OpenerFailure::Status(status)),
        Ok(Err(error)) => Err(OpenerFailure::Run(error)),
        Err(_) => Ok(()),
    }
}

async fn ended(opener: &mut Child) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = opener.try_wait()? {
            return Ok(status);
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// The file behind a program's name: a path as it is, a name by `PATH`. Folders that depend on where we run are passed
/// over, because what lies there is not what the person means by a browser.
fn find(program: &str, environment: &Environment) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let folders = std::env::split_paths(environment.get("PATH")?).filter(|folder| folder.is_absolute());
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    folders.map(|folder| folder.join(program)).find(runs)
}

fn list(attempts: &[FailedOpener]) -> String {
    attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
