//! Hints: what a user can do about an error.

use wharf::config::SourceLocation;
use wharf::fleet::Scope;
use wharf::{
    CallError, CallErrorKind, ConnectErrorKind, InputFailure, RefusalCause, ServerName, SessionRefusal, SpawnError,
};

use crate::env;
use crate::globals::Globals;

const CHECK_BEFORE_REPEATING: &str = "the call may have had an effect; check before you repeat it";
const CHECK_URL: &str = "is this the URL of an MCP server? Most serve it at /mcp, older ones with SSE at /sse";
const REPORT_TO_AUTHORS: &str = "this is a bug in the server; report it to its authors";

/// Returns the command that signs in to a server.
pub(crate) fn sign_in(server: &ServerName, scope: Scope, globals: &Globals) -> String {
    // A server that is only on this command line must be on that one, too.
    let mcp = if scope == Scope::Dynamic { format!(" --mcp {server}=URL") } else { String::new() };
    let profile = globals.profile.as_ref().map(|profile| format!(" --profile {profile}")).unwrap_or_default();
    format!("sign in: wharf login {server}{mcp}{profile}")
}

/// Returns a hint for a server that denies access, depending on where the server is configured.
pub(crate) fn for_denied_access(failed: &CallError, scope: Scope, globals: &Globals) -> Option<String> {
    match &failed.kind {
        CallErrorKind::Connect(ConnectErrorKind::Auth(_)) if globals.sends_authorization() => {
            Some("the server rejected the Authorization header".to_owned())
        }
        CallErrorKind::Connect(ConnectErrorKind::Auth(_)) => Some(sign_in(&failed.server, scope, globals)),
        _ => for_missing_header(failed, scope, None),
    }
}

/// Returns the header to send to a server that denies access, and where to write it.
pub(crate) fn for_missing_header(failed: &CallError, scope: Scope, origin: Option<&SourceLocation>) -> Option<String> {
    let CallErrorKind::Connect(kind) = &failed.kind else { return None };
    let setting = match kind {
        ConnectErrorKind::Auth(_) if scope == Scope::Dynamic => {
            return Some("send a token: -H 'Authorization: Bearer …'; if you did, the server rejected it".to_owned());
        }
        ConnectErrorKind::Auth(_) => "\"headers\": {\"Authorization\": \"Bearer ${NAME}\"}",
        ConnectErrorKind::Http(status) if status.status == 403 => "\"headers\": {\"HEADER\": \"${NAME}\"}",
        _ => return None,
    };
    if matches!(scope, Scope::Dynamic | Scope::Cloud) {
        return None;
    }
    let place = match origin {
        Some(origin) => format!("{}:{}", origin.file.display(), origin.line),
        None => format!("see `wharf get {}`", failed.server),
    };
    Some(format!("add the header to its entry ({place}): {setting}; if you did, the server rejected it"))
}

/// Returns a hint for a failed call or connection.
pub(crate) fn for_error(failed: &CallError, remote: bool) -> Option<String> {
    if remote {
        return for_remote(failed);
    }
    for_missing_variables(failed).or_else(|| for_local(failed))
}

/// Returns how to pass variables that a server may have failed without. Servers inherit few, so that they see no secrets.
fn for_missing_variables(failed: &CallError) -> Option<String> {
    let CallErrorKind::Connect(ConnectErrorKind::Ended(_) | ConnectErrorKind::Timeout(_)) = &failed.kind else {
        return None;
    };
    let names = failed.evidence.missing_variables.as_deref()?;
    let first = names.first()?;
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let (are, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    Some(format!(
        "{list} {are} set here, but servers do not inherit {them}; if you trust this server with {them}, pass {them}: \
        --env {first}, or \"env\": {{\"{first}\": \"${{{first}}}\"}} in its entry"
    ))
}

fn for_local(failed: &CallError) -> Option<String> {
    let hint = match &failed.kind {
        CallErrorKind::Connect(ConnectErrorKind::Spawn(reason)) => match &**reason {
            SpawnError::NotFound(command) if command.contains(['~', '$', '=', '&', '|']) => {
                "commands run without a shell: write paths in full and pass variables with --env"
            }
            SpawnError::NotFound(_) => "is it installed, and is its directory in PATH?",
            SpawnError::NotExecutable(_) => "is it a program? A script needs a `#!` line and `chmod +x`",
            _ => return None,
        },
        CallErrorKind::Connect(ConnectErrorKind::Timeout(_)) if failed.evidence.noise.is_some() => {
            "it writes text to stdout, where only messages belong: does the command start an MCP server over stdio?"
        }
        // It has said why.
        CallErrorKind::Connect(ConnectErrorKind::Ended(_)) if failed.evidence.cause().is_some() => return None,
        CallErrorKind::Connect(ConnectErrorKind::Ended(_)) => "run its command by hand to see why it exits",
        CallErrorKind::Connect(ConnectErrorKind::Timeout(_)) => {
            "a first start may download packages; start it once by hand, or raise the limit with --connect-timeout SECONDS"
        }
        CallErrorKind::Connect(ConnectErrorKind::Refused(refusal)) => {
            for_refusal(refusal).unwrap_or("is it an MCP server?")
        }
        CallErrorKind::Input { method, reason: InputFailure::Unsupported } if method == "sampling/createMessage" => {
            "the server needs a model: use `wharf call -m MODEL` at a terminal, where you review what it sends"
        }
        CallErrorKind::Input { reason: InputFailure::Unsupported, .. } | CallErrorKind::Server { code: -32021, .. } => {
            "the server needs an answer from you: use `wharf call` at a terminal"
        }
        CallErrorKind::Timeout { .. } => {
            "the call may have had an effect; check before you repeat it with a longer --timeout SECONDS"
        }
        CallErrorKind::Lost(_) => CHECK_BEFORE_REPEATING,
        CallErrorKind::Output { .. } | CallErrorKind::Malformed(_) => REPORT_TO_AUTHORS,
        _ => return None,
    };
    Some(hint.to_owned())
}

fn for_refusal(refusal: &SessionRefusal) -> Option<&'static str> {
    match refusal.cause {
        RefusalCause::ProtocolMode => Some("omit --protocol to detect what the server supports"),
        RefusalCause::UnknownRevision => Some("the server is newer than this version of wharf; update wharf"),
        RefusalCause::Other => None,
    }
}

fn for_remote(failed: &CallError) -> Option<String> {
    let hint = match &failed.kind {
        CallErrorKind::Connect(kind) => match kind {
            ConnectErrorKind::Auth(_) => return Some(format!("sign in: wharf login {}", failed.server)),
            ConnectErrorKind::Http(status) if (300..400).contains(&status.status) => "use the server's new URL",
            ConnectErrorKind::Http(status) if status.status == 403 => {
                "access denied; if the server expects a header, send it: -H 'NAME: VALUE'"
            }
            ConnectErrorKind::Http(status) if status.status == 429 => "rate limited; try again later",
            ConnectErrorKind::Http(status) if status.status >= 500 => {
                "the server, or a proxy in front of it, has a problem; try again later"
            }
            ConnectErrorKind::Refused(refusal) => for_refusal(refusal).unwrap_or(CHECK_URL),
            ConnectErrorKind::Http(_) => CHECK_URL,
            ConnectErrorKind::Transport(_) if env::has_proxy() => {
                "is the server running, and is the URL right? A proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY can be \
                bypassed with NO_PROXY=HOST"
            }
            ConnectErrorKind::Transport(_) => "is the server running, and is the URL right?",
            ConnectErrorKind::Untrusted(_) => "trust a certificate of your own with SSL_CERT_FILE=FILE",
            ConnectErrorKind::Timeout(_) => {
                "is this the URL of an MCP server? Raise the limit with --connect-timeout SECONDS"
            }
            ConnectErrorKind::Ended(_) => "is the URL right, and should it be https:// or wss://?",
            _ => return None,
        },
        CallErrorKind::Http(status) if status.refused() => return None,
        CallErrorKind::Http(_) => CHECK_BEFORE_REPEATING,
        _ => return for_local(failed),
    };
    Some(hint.to_owned())
}
