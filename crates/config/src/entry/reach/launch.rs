//! A process to start: its program, its arguments, what it sees and where it runs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::super::danger;
use super::super::super::problem::Severity;
use super::super::super::server::{ManagedConfig, Scope, StdioConfig};
use super::super::super::text::At;
use super::super::settings::{milliseconds, whole};
use super::super::{Care, Reading};
use super::remote;
use wharf_protocol::{Secret, nearest};

/// What a server that is managed listens on if nothing is said.
const PORT: u16 = 8000;
const PATH: &str = "/mcp";
const STARTUP: Duration = Duration::from_secs(60);
const SHUTDOWN: Duration = Duration::from_secs(10);

pub(super) fn read<'a>(reading: &mut Reading<'a>, command_at: &At<'a>) -> Option<StdioConfig> {
    let command = command(reading, command_at);
    let args = args(reading);
    let env = env(reading);
    let cwd = cwd(reading);
    let launch = StdioConfig { command: command?, args: args?, env, cwd };
    unpinned(reading, command_at);
    Some(launch)
}

/// Notes a package that is fetched in any version, by what is written: what a variable holds is not shown.
fn unpinned<'a>(reading: &mut Reading<'a>, command_at: &At<'a>) {
    let args = reading.at.field("args").into_iter().flat_map(|args| args.items());
    let args: Vec<String> = args.filter_map(|arg| arg.text().map(str::to_owned)).collect();
    if let Some(package) = danger::unpinned(command_at.text().unwrap_or_default(), &args) {
        let note = command_at.note(format!("fetches `{package}` in whatever version is the newest"));
        let hint = format!("name a version: `{}@1.2.3`", package.trim_end_matches("@latest"));
        reading.problems.push(note.with_hint(hint));
    }
}

fn command<'a>(reading: &mut Reading<'a>, at: &At<'a>) -> Option<String> {
    let written = reading.text(at)?;
    let command = reading.expanded(at, written, Care::Strict)?;
    if command.is_empty() {
        reading.error(at, "the server has no command configured", "name the program");
        return None;
    }
    if written.contains(char::is_whitespace) && !written.contains(['/', '\\']) && !written.contains("${") {
        let program = written.split_whitespace().next().unwrap_or_default();
        let hint = format!("write \"command\": \"{program}\", and the other words as the list \"args\"");
        reading.error(at, "has blanks in it, but is the name of one program", hint);
        return None;
    }
    is_findable(reading, at, &command).then_some(command)
}

/// Whether it is clear which program is meant, wherever the host happens to run.
pub(super) fn is_findable(reading: &mut Reading<'_>, at: &At<'_>, command: &str) -> bool {
    if command.starts_with("~/") {
        reading.error(at, "`~` means nothing without a shell", "write `${HOME}/…`");
        return false;
    }
    // Where a variable begins it that is not set, nobody knows yet; it is not run like that.
    let is_open = reading.is_incomplete && command.starts_with("${");
    let is_relative = command.contains(['/', '\\']) && !is_absolute(command) && !is_open;
    if is_relative && reading.context.scope == Scope::Project {
        let hint = "name a program that is installed, or start it by one, such as `node` with `./server.js`";
        reading.error(at, "is a program in whatever folder the host runs in, which a project may not start", hint);
        return false;
    }
    if is_relative {
        let warning = at.warning("is found only if the host runs in the right folder");
        reading.problems.push(warning.with_hint("write the whole path"));
    }
    true
}

/// As this system has it: `C:/x` is a relative path where drives are none.
fn is_absolute(path: &str) -> bool {
    Path::new(path).is_absolute()
}

fn args(reading: &mut Reading<'_>) -> Option<Vec<String>> {
    let Some(at) = reading.at.field("args") else { return Some(Vec::new()) };
    let texts = reading.texts(&at);
    let expanded: Vec<_> = texts.iter().map(|(at, text)| reading.expanded(at, text, Care::Argument)).collect();
    expanded.into_iter().collect()
}

fn env(reading: &mut Reading<'_>) -> BTreeMap<String, Secret> {
    let Some(at) = reading.at.field("env") else { return BTreeMap::new() };
    let mut env = BTreeMap::new();
    for (name, at, text) in reading.named_texts(&at) {
        if name.is_empty() || name.contains(['=', '\0']) || super::super::hidden::find(name).is_some() {
            reading.error(&at, "is no name of a variable", "use letters, digits and `_`");
            continue;
        }
        loading(reading, &at, name);
        secret(reading, &at, name, text);
        if let Some(value) = reading.expanded(&at, text, Care::Lines) {
            env.insert(name.to_owned(), Secret::new(value));
        }
    }
    env
}

/// A variable that loads code is no setting: in a project it would run what nobody was shown.
fn loading(reading: &mut Reading<'_>, at: &At<'_>, name: &str) {
    if !danger::loads_code(name) {
        return;
    }
    let message = format!("{name} decides what code is loaded, whatever the command is");
    if reading.context.scope == Scope::Project {
        reading.error(at, message, "a project may not set it; set it in your own configuration if you need it");
    } else {
        reading.problems.push(at.warning(message));
    }
}

/// A secret that stands in a file: in a project everybody who can read the repository has it.
pub(super) fn secret(reading: &mut Reading<'_>, at: &At<'_>, name: &str, text: &str) {
    if danger::looks_secret(name, text) {
        let severity = if reading.context.scope == Scope::Project { Severity::Warning } else { Severity::Note };
        let scheme = ["Bearer ", "Basic "].into_iter().find(|scheme| text.starts_with(scheme)).unwrap_or_default();
        let name = if scheme.is_empty() { name } else { "TOKEN" };
        let variable: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        let problem = at.problem(severity, "looks like a secret in plain sight");
        reading.problems.push(problem.with_hint(format!("take it from a variable: `{scheme}${{{variable}}}`")));
    }
}

fn cwd(reading: &mut Reading<'_>) -> Option<PathBuf> {
    let Some(at) = reading.at.field("cwd") else { return home(reading) };
    let text = reading.text(&at)?;
    let folder = reading.expanded(&at, text, Care::Strict)?;
    folder_of(reading, &at, &folder)
}

/// Where a project's processes run that are not told where: in its root, and not in whatever folder somebody happens to
/// be, which may hold anything.
pub(super) fn home(reading: &Reading<'_>) -> Option<PathBuf> {
    reading.context.base.filter(|_| reading.context.scope == Scope::Project).map(Path::to_owned)
}

/// A folder or file, relative to the project where there is one.
fn folder_of(reading: &mut Reading<'_>, at: &At<'_>, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        reading.error(at, "is empty", "remove it");
        return None;
    }
    if path == "~" || path.starts_with("~/") {
        reading.error(at, "`~` means nothing without a shell", "write `${HOME}`");
        return None;
    }
    if is_absolute(path) {
        return Some(PathBuf::from(path));
    }
    if let Some(base) = reading.context.base {
        return Some(base.join(path));
    }
    let warning = at.warning("depends on where the host runs");
    reading.problems.push(warning.with_hint("write the whole path"));
    Some(PathBuf::from(path))
}

/// A local server that listens.
pub(super) fn managed<'a>(reading: &mut Reading<'a>, command_at: &At<'a>, at: &At<'a>) -> Option<ManagedConfig> {
    const KEYS: [&str; 6] = ["host", "port", "path", "logPath", "startupTimeout", "shutdownTimeout"];
    let launch = read(reading, command_at);
    let headers = remote::headers(reading);
    reading.object(at);
    for (key, value) in at.fields().filter(|(key, _)| !KEYS.contains(key)) {
        let problem = value.warning(format!("`{key}` is no key of `manage`"));
        reading.problems.push(match nearest(key, KEYS) {
            Some(known) => problem.with_hint(format!("did you mean `{known}`?")),
            None => problem,
        });
    }
    let host = host(reading, at.field("host"));
    let port = port(reading, at.field("port"));
    let path = path(reading, at.field("path"));
    let log_path = at.field("logPath").and_then(|at| {
        let text = reading.text(&at)?;
        let path = reading.expanded(&at, text, Care::Strict)?;
        folder_of(reading, &at, &path)
    });
    let startup_timeout = milliseconds(reading, at.field("startupTimeout")).unwrap_or(STARTUP);
    let shutdown_timeout = milliseconds(reading, at.field("shutdownTimeout")).unwrap_or(SHUTDOWN);
    Some(ManagedConfig {
        launch: launch?,
        host: host?,
        port: port?,
        path: path?,
        log_path,
        startup_timeout,
        shutdown_timeout,
        headers,
    })
}

fn host<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<IpAddr> {
    let Some(at) = at else { return Some(Ipv4Addr::LOCALHOST.into()) };
    let host = reading.text(&at)?;
    match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        _ => match host.parse::<IpAddr>() {
            // What listens everywhere is reached here.
            Ok(host) if host.is_unspecified() => Some(Ipv4Addr::LOCALHOST.into()),
            Ok(host) if host.is_loopback() => Some(host),
            Ok(_) | Err(_) => {
                reading.error(&at, format!("`{host}` is no address of this machine"), "write 127.0.0.1");
                None
            }
        },
    }
}

fn port<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<u16> {
    let Some(at) = at else { return Some(PORT) };
    let port = whole(&at).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    if port.is_none() {
        reading.error(&at, format!("{} is no port", at.node.to_value()), "ports are 1 to 65535");
    }
    port
}

fn path<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<String> {
    let Some(at) = at else { return Some(PATH.to_owned()) };
    let text = reading.text(&at)?;
    let path = reading.expanded(&at, text, Care::Strict)?;
    if !path.starts_with('/') || path.parse::<http::Uri>().is_err() {
        reading.error(&at, "is no path of a URL", "begin it with `/`");
        return None;
    }
    Some(path)
}
