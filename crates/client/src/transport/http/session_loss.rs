//! Decides whether an error means that the server lost the session. (`wire.rs` detects unsupported revisions.)
//!
//! | status | code | message | lost? |
//! |---|---|---|---|
//! | 404, and the request named a session | any or none | any | yes; code 32600 if there is none |
//! | any | 32600, -32600, -32000, -32001 | names a lost session | yes |
//! | 400 | none: the body is not JSON-RPC | names a lost session | yes |
//! | any other | | | no |
//!
//! The id of the error does not matter.

/// The code of a terminated session, used if the server sent none.
pub(crate) const TERMINATED: i64 = 32600;

/// Codes that servers use, among other errors, for an unknown session.
const LOSS_CODES: [i64; 4] = [TERMINATED, -32600, -32000, -32001];

/// Phrases that, close to "session", mean that it does not exist. They include those of the Python, TypeScript and Rust
/// SDKs. "Closed" and "lost" are not among them: servers also have browser and database sessions, which are closed or
/// lost.
const LOSS_PHRASES: [&str; 12] = [
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

/// How many words before "session" are searched.
const WORDS_BEFORE: usize = 3;
/// How many words from "session" on are searched.
const WORDS_AFTER: usize = 6;

/// Returns whether a JSON-RPC error means that the server lost the session.
pub fn session_loss(code: i64, message: &str) -> bool {
    LOSS_CODES.contains(&code) && names_lost_session(message)
}

pub(super) fn names_lost_session(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    // Servers with a single session send this after a restart.
    if message.contains("server not initialized") {
        return true;
    }
    let words: Vec<&str> =
        message.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    let sessions = words.iter().enumerate().filter(|(_, word)| word.starts_with("session"));
    sessions.into_iter().any(|(at, _)| {
        let near = &words[at.saturating_sub(WORDS_BEFORE)..words.len().min(at + WORDS_AFTER)];
        let near = near.join(" ");
        LOSS_PHRASES.iter().any(|phrase| near.contains(phrase))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_match_the_documentation() {
        let documentation = include_str!("../../../../../docs/session.md");
        let row =
            documentation.lines().find(|line| line.contains("| names a lost session |") && line.starts_with("| any |"));
        let codes = row.unwrap().split('|').nth(2).unwrap();
        let codes: Vec<i64> = codes.split(',').map(|code| code.trim().parse().unwrap()).collect();
        assert_eq!(codes, LOSS_CODES);
    }

    #[test]
    fn a_lost_session_needs_both_a_code_and_a_phrase() {
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
