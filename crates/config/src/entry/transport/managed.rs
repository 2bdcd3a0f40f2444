//! Reads a process that is started and then reached over HTTP: the `manage` object.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::context::TransportContext;
use super::{headers, paths, stdio};
use crate::cursor::Cursor;
use crate::entry::expander::HiddenCharPolicy;
use crate::entry::report::Report;
use crate::entry::values::{check_object, milliseconds, port, string};
use crate::server::ManagedConfig;
use crate::suggest::{brief, suggest};

const KEYS: [&str; 6] = ["host", "port", "path", "logPath", "startupTimeout", "shutdownTimeout"];

const DEFAULT_HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const DEFAULT_PORT: u16 = 8000;
const DEFAULT_PATH: &str = "/mcp";
const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn read<'a>(
    context: &TransportContext<'a>,
    command_at: &Cursor<'a>,
    manage: &Cursor<'a>,
    report: &mut Report,
) -> Option<ManagedConfig> {
    let launch = stdio::read(context, command_at, report);
    let headers = headers::read(context, report);
    check_object(manage, report);
    for (key, at) in manage.fields().filter(|(key, _)| !KEYS.contains(key)) {
        let problem = at.warning(format!("unknown `manage` key `{}`", brief(key)));
        report.push(suggest(problem, key, &KEYS));
    }
    let host = match manage.field("host") {
        Some(at) => read_host(&at, report),
        None => Some(DEFAULT_HOST),
    };
    let port = match manage.field("port") {
        Some(at) => port(&at, report),
        None => Some(DEFAULT_PORT),
    };
    let path = match manage.field("path") {
        Some(at) => read_path(context, &at, report),
        None => Some(DEFAULT_PATH.to_owned()),
    };
    let log_path = manage.field("logPath").and_then(|at| read_log_path(context, &at, report));
    let mut timeout = |key: &str| manage.field(key).and_then(|at| milliseconds(&at, report));
    let startup_timeout = timeout("startupTimeout").unwrap_or(DEFAULT_STARTUP_TIMEOUT);
    let shutdown_timeout = timeout("shutdownTimeout").unwrap_or(DEFAULT_SHUTDOWN_TIMEOUT);
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

fn read_host(at: &Cursor<'_>, report: &mut Report) -> Option<IpAddr> {
    let host = string(at, report)?;
    if host == "localhost" {
        return Some(DEFAULT_HOST);
    }
    match host.parse::<IpAddr>() {
        // A server that listens on all addresses is reached on the loopback address.
        Ok(host) if host.is_unspecified() => Some(DEFAULT_HOST),
        Ok(host) if host.is_loopback() => Some(host),
        Ok(_) | Err(_) => {
            report.error(at, format!("`{host}` is not a loopback address"), "write 127.0.0.1");
            None
        }
    }
}

fn read_path<'a>(context: &TransportContext<'a>, at: &Cursor<'a>, report: &mut Report) -> Option<String> {
    let text = string(at, report)?;
    let path = context.expander.expand(at, text, HiddenCharPolicy::Reject, report)?;
    if !path.starts_with('/') || path.parse::<http::Uri>().is_err() {
        report.error(at, "invalid URL path", "start it with `/`");
        return None;
    }
    Some(path)
}

fn read_log_path<'a>(context: &TransportContext<'a>, at: &Cursor<'a>, report: &mut Report) -> Option<PathBuf> {
    let text = string(at, report)?;
    let path = context.expander.expand(at, text, HiddenCharPolicy::Reject, report)?;
    paths::resolve(context, at, &path, report)
}
