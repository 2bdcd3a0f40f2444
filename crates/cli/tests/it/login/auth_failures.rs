//! The auth failure cache: servers that recently answered 401 get no requests.

use crate::login::{CREDENTIALS, Reader};

/// The auth failure cache of the user.
const AUTH_FAILURES: &str = "home/.cache/wharf/refusals.json";

impl Reader {
    /// Returns how many requests a run sends. The run must exit with 3.
    fn requests_of(&self, arguments: &[&str]) -> usize {
        let before = self.server.count("", "");
        let ran = self.run(arguments);
        assert_eq!(ran.code, 3, "{arguments:?}: {}", crate::screen(&ran));
        self.server.count("", "") - before
    }
}

#[test]
fn a_server_that_rejected_the_credentials_gets_no_requests_in_the_next_run() {
    let reader = Reader::new();
    assert_ne!(reader.requests_of(&["list"]), 0);
    let commands: [&[&str]; 7] = [
        &["list"],
        &["tools"],
        &["tools", "docs", "--json"],
        &["call", "docs", "answer"],
        &["prompts"],
        &["context"],
        &["read", "docs", "x"],
    ];
    for command in commands {
        assert_eq!(reader.requests_of(command), 0, "{command:?}");
    }
    // JSON output reports the same status.
    assert!(reader.run(&["call", "docs", "answer", "--json"]).out.contains("\"status\":401"));
    // Other headers are other credentials.
    assert_ne!(reader.requests_of(&["tools", "docs", "-H", "X-Key: 1"]), 0);
    assert_eq!(reader.requests_of(&["tools", "docs", "-H", "X-Key: 1"]), 0);
    assert_ne!(reader.requests_of(&["tools", "docs", "-H", "X-Key: 2"]), 0);
    let stored = reader.person.read(AUTH_FAILURES);
    assert!(!stored.contains("X-Key") && !stored.contains("127.0.0.1"), "{stored}");
}

#[test]
fn doctor_and_get_ignore_the_auth_failure_cache() {
    let reader = Reader::new();
    assert_ne!(reader.requests_of(&["tools"]), 0);
    for command in [&["doctor"][..], &["doctor", "docs"], &["get", "docs"], &["get", "docs", "--json"]] {
        assert_ne!(reader.requests_of(command), 0, "{command:?}");
        assert_eq!(reader.requests_of(&["tools"]), 0, "after {command:?}");
    }
    // A success of `get` clears the failure for all commands.
    reader.server.state().is_open = true;
    assert_eq!(reader.run(&["get", "docs"]).code, 0);
    assert_eq!(reader.run(&["tools"]).code, 0);
}

#[test]
fn login_logout_and_remove_clear_cached_auth_failures() {
    let reader = Reader::new();
    assert_ne!(reader.requests_of(&["tools"]), 0);
    reader.login();
    assert_eq!(reader.run(&["tools"]).code, 0);
    // Even if the credentials are lost.
    std::fs::remove_file(reader.person.path(CREDENTIALS)).unwrap();
    assert_ne!(reader.requests_of(&["tools"]), 0);
    assert_eq!(reader.requests_of(&["tools"]), 0);
    assert_eq!(reader.run(&["logout", "docs"]).code, 0);
    assert_ne!(reader.requests_of(&["tools"]), 0);
    assert_eq!(reader.requests_of(&["tools"]), 0);
    assert_eq!(reader.run(&["remove", "docs"]).code, 0);
    assert_eq!(reader.run(&["add", "docs", &reader.server.url()]).code, 0);
    assert_ne!(reader.requests_of(&["tools", "docs"]), 0);
    assert_eq!(reader.requests_of(&["tools", "docs"]), 0);
}

#[test]
fn auth_failures_are_cached_in_the_config_root() {
    let reader = Reader::new();
    assert_ne!(reader.requests_of(&["tools"]), 0);
    let root = reader.person.path("root");
    let mcp = format!("docs={}", reader.server.url());
    let elsewhere = ["tools", "--config-root", root.to_str().unwrap(), "--mcp", &mcp];
    assert_ne!(reader.requests_of(&elsewhere), 0);
    assert!(root.join("cache/refusals.json").is_file());
    assert_eq!(reader.requests_of(&elsewhere), 0);
}
