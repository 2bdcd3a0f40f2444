//! Decides whether an error means that the server has lost our session. (That it has outgrown sessions is in `wire.rs`.)
//!
//! | status | code | message | lost? |
//! |---|---|---|---|
//! | 404, and a session was named | any, or none at all | any | yes; the code is 32600 if there is none |
//! | any | 32600, -32600, -32000, -32001 | names a lost session | yes |
//! | 400 | none: the content is no JSON-RPC | names a lost session | yes |
//! | any other | | | no |
//!
//! Whether the error bears the id of the request, another, or none makes no difference.

/// The code that stands for a session that the server has ended, where it gave none itself.
pub(crate) const TERMINATED: i64 = 32600;

/// The codes servers use, among other things, for a session they do not know.
const CODES: [i64; 4] = [TERMINATED, -32600, -32000, -32001];

/// Words that, close to "session", say that there is none. The Python, TypeScript and Rust SDKs' own are among them.
/// Servers have sessions of their own, with browsers and databases, that are *closed* or *lost*: those words say nothing.
const GONE: [&str; 12] = [
    "not found",
    "no valid",
    "not valid",
    "invalid",
    "expired",
    "terminated",
    "unknown",
    "missing",
    "does not exist",
    "doesn't exist",
    "no longer",
    "no such",
];

/// How many words before "session", and from it on, are looked at for what is said of it.
const CLOSE: (usize, usize) = (3, 6);

/// Whether a JSON-RPC error, in a session, means that the server has lost it.
pub fn session_loss(code: i64, message: &str) -> bool {
    CODES.contains(&code) && names_lost_session(message)
}

pub(super) fn names_lost_session(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    // A server with room for one session says this after a restart.
    if message.contains("server not initialized") {
        return true;
    }
    let words: Vec<&str> =
        message.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    let sessions = words.iter().enumerate().filter(|(_, word)| word.starts_with("session"));
    sessions.into_iter().any(|(at, _)| {
        let near = &words[at.saturating_sub(CLOSE.0)..words.len().min(at + CLOSE.1)];
        let near = near.join(" ");
        GONE.iter().any(|gone| near.contains(gone))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_documentation() {
        let documentation = include_str!("../../../../../docs/session.md");
        let row =
            documentation.lines().find(|line| line.contains("| names a lost session |") && line.starts_with("| any |"));
        let codes = row.unwrap().split('|').nth(2).unwrap();
        let codes: Vec<i64> = codes.split(',').map(|code| code.trim().parse().unwrap()).collect();
        assert_eq!(codes, CODES);
    }

    #[test]
    fn a_lost_session_is_told_by_code_and_message_together() {
        let lost = [
            (32600, "Session terminated"),
            (-32600, "Session not found"),
            (-32600, "Bad Request: Missing session ID"),
            (-32000, "Bad Request: No valid session ID provided"),
            (-32000, "Bad Request: Server not initialized"),
            (-32001, "Session not found"),
            (-32001, "session has EXPIRED"),
            (-32000, "Session with given ID not found"),
            (-32600, "Not Found: Session has been terminated"),
            (-32000, "Invalid or expired session_id"),
        ];
        for (code, message) in lost {
            assert!(session_loss(code, message), "{code} {message}");
        }
        let other = [
            (-32000, "disk is full"),
            (-32000, "Connection closed"),
            (-32600, "Invalid Request"),
            (-32602, "Session not found"),
            (-32603, "session expired"),
            (-32001, "Request timed out"),
            (-32000, "the session tool failed"),
            (-32000, "Protocol error: Session closed. Most likely the page has been closed."),
            (-32000, "lost the database session"),
            (-32000, "invalid selector; nothing was clicked in the page of the browser's session"),
        ];
        for (code, message) in other {
            assert!(!session_loss(code, message), "{code} {message}");
        }
    }
}
