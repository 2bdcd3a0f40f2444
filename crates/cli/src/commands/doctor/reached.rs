//! Connection: whether a server is reached, speaks, and keeps to its channel; and if not, how far one gets.

use std::time::Duration;

use http::Uri;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use wharf::fleet::{Server, ServerState};
use wharf::{CallError, CallErrorKind, ConnectErrorKind, Evidence};

use super::Looked;
use super::finding::{Class, Finding};
use crate::exit::Exit;
use crate::render;
use crate::servers::{self, has_own_header};

/// How long looking up a name may take, and how long a port to answer.
const STEP: Duration = Duration::from_secs(5);
/// How many of the server's last lines are told.
const QUOTED: usize = 5;
/// How many addresses of a name are told.
const ADDRESSES: usize = 3;

/// What came of connecting. Where it has been said already why a server cannot be started, that is not said again.
pub(super) async fn connection(looked: &Looked<'_>, is_known: bool) -> Vec<Finding> {
    let Some(error) = looked.status.error() else { return connected(looked) };
    let CallErrorKind::Connect(kind) = &error.kind else { return Vec::new() };
    if is_known {
        return Vec::new();
    }
    let name = looked.status.name.as_str();
    let mut findings = Vec::new();
    let url = servers::remote(&looked.found.server.reach).map(|remote| remote.url.as_str());
    if let (Some(url), false) = (url, error.to_string().contains("by proxy")) {
        match kind {
            ConnectErrorKind::Transport(_) | ConnectErrorKind::Timeout(_) | ConnectErrorKind::Ended(_) => {
                findings.extend(steps(name, url).await);
            }
            ConnectErrorKind::Unusable(_) => {}
            _ => findings.extend(place(url).map(|(host, port)| {
                Class::Connection.fine(name, "port", format!("something answers at port {port} of {host}"))
            })),
        }
        if findings.iter().any(Finding::is_problem) {
            return findings;
        }
    }
    findings.push(failure(error, kind, looked));
    findings
}

fn connected(looked: &Looked<'_>) -> Vec<Finding> {
    let (status, name) = (looked.status, looked.status.name.as_str());
    let (ServerState::Connected, Some(info)) = (status.state, &status.info) else {
        let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
        return vec![Class::Connection.problem(
            name,
            "handshake",
            Exit::Unreachable,
            format!("{}: {reason}", status.state),
        )];
    };
    let who = if info.name.is_empty() {
        "it".to_owned()
    } else {
        format!("{} {}", info.name, info.version).trim_end().to_owned()
    };
    let spoken = format!("{who} speaks {} and was ready in {}", info.protocol(), told(looked.took));
    let mut findings = vec![Class::Connection.fine(name, "handshake", spoken)];
    let Some(session) = looked.fleet.session(&status.name) else { return findings };
    let Evidence { stderr, noise, .. } = session.evidence();
    match session.health().noise {
        0 => {}
        lines => {
            let count = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
            let message = format!("{count} on its stdout, where only messages belong; passed over");
            let said = noise.iter().map(|line| format!("stdout │ {line}")).collect();
            let fix = "have it write its log to stderr".to_owned();
            findings.push(Class::Connection.advice(name, "stdout", message).mended_by(fix).quoting(said));
        }
    }
    if !stderr.is_empty() {
        let finding = Class::Connection.fine(name, "stderr", "its last lines on stderr");
        findings.push(finding.quoting(last_lines(&stderr)));
    }
    findings
}

fn failure(error: &CallError, kind: &ConnectErrorKind, looked: &Looked<'_>) -> Finding {
    let Evidence { stderr, noise, .. } = &error.evidence;
    let name = looked.status.name.as_str();
    let is_remote = looked.status.transport != "stdio";
    let class = match kind {
        ConnectErrorKind::Spawn(_) => Class::Start,
        ConnectErrorKind::Ended(_) if looked.found.server.reach.is_local() => Class::Start,
        _ => Class::Connection,
    };
    let check = match kind {
        ConnectErrorKind::Auth(_) => "login",
        ConnectErrorKind::Http(_) => "http",
        ConnectErrorKind::Unusable(_) => "tls",
        _ if class == Class::Start => "start",
        _ => "handshake",
    };
    let Server { scope, origin, reach, .. } = &looked.found.server;
    let header = render::header_advice(error, *scope, origin.as_ref());
    // Where a header is sent, a sign-in would not be.
    let fix = match (kind, header) {
        (ConnectErrorKind::Auth(_), Some(header)) if !has_own_header(reach) => {
            Some(format!("{}; or {header}", render::sign_in(&looked.status.name, *scope, looked.globals)))
        }
        (_, Some(header)) => Some(header),
        (_, None) => render::advice(error, is_remote),
    };
    let mut said = last_lines(stderr);
    said.extend(noise.iter().map(|line| format!("stdout │ {line}")));
    class.problem(name, check, Exit::from(kind), error.kind.to_string()).mended_by(fix).quoting(said)
}

/// The last lines of a server, as they are quoted.
pub(super) fn last_lines(stderr: &[String]) -> Vec<String> {
    stderr[stderr.len().saturating_sub(QUOTED)..].iter().map(|line| format!("stderr │ {line}")).collect()
}

/// How far one gets on the way to an address: its name, then its port.
async fn steps(name: &str, url: &str) -> Vec<Finding> {
    let Some((host, port)) = place(url) else { return Vec::new() };
    let looking = timeout(STEP, lookup_host((host.as_str(), port))).await;
    let addresses: Vec<_> = match looking {
        Ok(Ok(found)) => found.collect(),
        failed => {
            let why = failed.map_or_else(
                |_| format!("no answer within {} s", STEP.as_secs()),
                |result| result.err().map(|error| error.to_string()).unwrap_or_default(),
            );
            let problem = Class::Connection.problem(
                name,
                "name",
                Exit::Unreachable,
                format!("the name `{host}` has no address: {why}"),
            );
            let fix = "is it spelt right, and is there a network? Behind a proxy, set HTTPS_PROXY".to_owned();
            return vec![problem.mended_by(fix)];
        }
    };
    let shown: Vec<String> = addresses.iter().take(ADDRESSES).map(|address| address.ip().to_string()).collect();
    let is_name = host.parse::<std::net::IpAddr>().is_err();
    let mut findings = Vec::new();
    if is_name {
        findings.push(Class::Connection.fine(
            name,
            "name",
            format!("the name `{host}` stands for {}", shown.join(", ")),
        ));
    }
    let dialing = timeout(STEP, TcpStream::connect(addresses.as_slice())).await;
    let why = match dialing {
        Ok(Ok(_)) => {
            let message = format!("port {port} of {host} takes connections");
            findings.push(Class::Connection.fine(name, "port", message));
            return findings;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", STEP.as_secs()),
    };
    let problem = Class::Connection.problem(
        name,
        "port",
        Exit::Unreachable,
        format!("port {port} of {host} takes no connections: {why}"),
    );
    let fix = "start the server, or mend its address; a firewall may stand in between".to_owned();
    findings.push(problem.mended_by(fix));
    findings
}

/// The host and the port of an address.
fn place(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let usual = if matches!(uri.scheme_str(), Some("https" | "wss")) { 443 } else { 80 };
    Some((host, uri.port_u16().unwrap_or(usual)))
}

/// For example `0.4 ms`, `34 ms` or `2.1 s`.
pub(super) fn told(duration: Duration) -> String {
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
    fn an_address_says_where_to_knock() {
        let places = ["https://example.com/mcp", "ws://[::1]:8000/ws", "http://127.0.0.1/mcp?a=b"].map(place);
        let expected = [("example.com", 443), ("::1", 8000), ("127.0.0.1", 80)];
        assert_eq!(places, expected.map(|(host, port)| Some((host.to_owned(), port))));
    }
}
