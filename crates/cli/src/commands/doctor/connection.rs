//! Connection: whether a server is reachable and completes the handshake; if not, which step fails.

use std::time::Duration;

use http::Uri;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use wharf::fleet::{Server, ServerState};
use wharf::{CallError, CallErrorKind, ConnectErrorKind, Evidence};

use super::finding::{Class, Finding};
use super::probe::Probe;
use crate::config::network;
use crate::config::servers::{self, has_authorization};
use crate::exit::Exit;
use crate::hints;
use crate::term::QuotedLine;

/// How long a name lookup may take, and how long a TCP connection.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// How many of the server's last lines are quoted.
const QUOTED_LINES: usize = 5;
/// How many addresses of a name are shown.
const MAX_ADDRESSES: usize = 3;

/// Returns the result of connecting. A known start problem is not reported again.
pub(super) async fn connection(probe: &Probe<'_>, has_start_problem: bool) -> Vec<Finding> {
    let Some(error) = probe.status.error() else { return connected(probe) };
    let CallErrorKind::Connect(kind) = &error.kind else { return Vec::new() };
    if has_start_problem {
        return Vec::new();
    }
    let name = probe.status.name.as_str();
    let mut findings = Vec::new();
    let url = servers::remote(&probe.found.server.transport).map(|remote| remote.url.as_str());
    // Behind a proxy, name lookup and TCP connections from here say nothing.
    if let Some(url) = url.filter(|url| !network::uses_proxy(url)) {
        match kind {
            ConnectErrorKind::Transport(_) | ConnectErrorKind::Timeout(_) | ConnectErrorKind::Ended(_) => {
                findings.extend(steps(name, url).await);
            }
            ConnectErrorKind::Unusable(_) | ConnectErrorKind::Untrusted(_) => {}
            _ => findings
                .extend(host_and_port(url).map(|(host, port)| {
                    Class::Connection.fine(name, "port", format!("port {port} of {host} is open"))
                })),
        }
        if findings.iter().any(Finding::is_problem) {
            return findings;
        }
    }
    findings.push(failure(error, kind, probe));
    findings
}

fn connected(probe: &Probe<'_>) -> Vec<Finding> {
    let status = probe.status;
    let name = status.name.as_str();
    let (ServerState::Connected, Some(info)) = (status.state, &status.info) else {
        let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
        return vec![Class::Connection.problem(
            name,
            "handshake",
            Exit::Unreachable,
            format!("{}: {reason}", status.state),
        )];
    };
    let protocol = info.protocol();
    let took = display_duration(probe.took);
    let message = if info.name.is_empty() {
        format!("protocol {protocol}, ready in {took}")
    } else {
        format!("{}, protocol {protocol}, ready in {took}", format!("{} {}", info.name, info.version).trim_end())
    };
    let mut findings = vec![Class::Connection.fine(name, "handshake", message)];
    let Some(session) = probe.fleet.session(&status.name) else { return findings };
    let evidence = session.evidence();
    match session.health().noise {
        0 => {}
        lines => {
            let count = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
            let message = format!("ignored {count} on stdout, where only messages belong");
            let said = evidence.noise.iter().map(|line| QuotedLine::new("stdout", line)).collect();
            let fix = "make the server log to stderr".to_owned();
            findings.push(Class::Connection.advice(name, "stdout", message).with_fix(fix).quoting(said));
        }
    }
    if !evidence.stderr.is_empty() {
        let finding = Class::Connection.fine(name, "stderr", "last lines on stderr");
        findings.push(finding.quoting(quoted_stderr(&evidence)));
    }
    findings
}

fn failure(error: &CallError, kind: &ConnectErrorKind, probe: &Probe<'_>) -> Finding {
    let name = probe.status.name.as_str();
    let class = match kind {
        ConnectErrorKind::Spawn(_) => Class::Start,
        ConnectErrorKind::Ended(_) if probe.found.server.transport.is_local() => Class::Start,
        _ => Class::Connection,
    };
    let check = match kind {
        ConnectErrorKind::Auth(_) => "login",
        ConnectErrorKind::Http(_) => "http",
        ConnectErrorKind::Untrusted(_) | ConnectErrorKind::Unusable(_) => "tls",
        _ if class == Class::Start => "start",
        _ => "handshake",
    };
    let Server { scope, origin, transport, .. } = &probe.found.server;
    let header = hints::for_missing_header(error, *scope, origin.as_ref());
    // A sign-in does not replace a header of the entry.
    let fix = match (kind, header) {
        (ConnectErrorKind::Auth(_), Some(header)) if !has_authorization(transport) => {
            Some(format!("{}; or {header}", hints::sign_in(&probe.status.name, *scope, probe.globals)))
        }
        (_, Some(header)) => Some(header),
        (_, None) => hints::for_error(error, probe.status.transport.is_remote()),
    };
    let mut said = quoted_stderr(&error.evidence);
    said.extend(error.evidence.noise.iter().map(|line| QuotedLine::new("stdout", line)));
    class.problem(name, check, Exit::from(kind), error.kind.to_string()).with_fix(fix).quoting(said)
}

/// Returns the last lines of a server's stderr for a quote, with the one that says why.
pub(super) fn quoted_stderr(evidence: &Evidence) -> Vec<QuotedLine> {
    evidence.explaining_lines(QUOTED_LINES).into_iter().map(|line| QuotedLine::new("stderr", line)).collect()
}

/// Checks the way to a URL step by step: first its name, then its port.
async fn steps(name: &str, url: &str) -> Vec<Finding> {
    let Some((host, port)) = host_and_port(url) else { return Vec::new() };
    let looking = timeout(STEP_TIMEOUT, lookup_host((host.as_str(), port))).await;
    let addresses: Vec<_> = match looking {
        Ok(Ok(found)) => found.collect(),
        failed => {
            let why = failed.map_or_else(
                |_| format!("no answer within {} s", STEP_TIMEOUT.as_secs()),
                |result| result.err().map(|error| error.to_string()).unwrap_or_default(),
            );
            let problem =
                Class::Connection.problem(name, "name", Exit::Unreachable, format!("cannot resolve `{host}`: {why}"));
            let fix = "check the spelling and the network; behind a proxy, set HTTPS_PROXY".to_owned();
            return vec![problem.with_fix(fix)];
        }
    };
    let shown: Vec<String> = addresses.iter().take(MAX_ADDRESSES).map(|address| address.ip().to_string()).collect();
    let is_name = host.parse::<std::net::IpAddr>().is_err();
    let mut findings = Vec::new();
    if is_name {
        findings.push(Class::Connection.fine(name, "name", format!("`{host}` resolves to {}", shown.join(", "))));
    }
    let dialing = timeout(STEP_TIMEOUT, TcpStream::connect(addresses.as_slice())).await;
    let why = match dialing {
        Ok(Ok(_)) => {
            let message = format!("port {port} of {host} is open");
            findings.push(Class::Connection.fine(name, "port", message));
            return findings;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", STEP_TIMEOUT.as_secs()),
    };
    let problem = Class::Connection.problem(
        name,
        "port",
        Exit::Unreachable,
        format!("cannot connect to port {port} of {host}: {why}"),
    );
    let fix = "start the server, or fix its URL; a firewall may block the port".to_owned();
    findings.push(problem.with_fix(fix));
    findings
}

/// Returns the host and port of a URL.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let default = if matches!(uri.scheme_str(), Some("https" | "wss")) { 443 } else { 80 };
    Some((host, uri.port_u16().unwrap_or(default)))
}

/// Returns for example `0.4 ms`, `34 ms` or `2.1 s`.
pub(super) fn display_duration(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1000.0;
    match duration.as_millis() {
        0..10 => format!("{milliseconds:.1} ms"),
        10..1000 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port() {
        let paths = ["https://example.com/mcp", "ws://[::1]:8000/ws", "http://127.0.0.1/mcp?a=b"].map(host_and_port);
        let expected = [("example.com", 443), ("::1", 8000), ("127.0.0.1", 80)];
        assert_eq!(paths, expected.map(|(host, port)| Some((host.to_owned(), port))));
    }
}
