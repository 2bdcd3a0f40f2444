//! Servers that refused us a short while ago, and are left alone.

use crate::login::{CREDENTIALS, Reader};

/// What all programs of this person remember.
const REFUSALS: &str = "home/.cache/wharf/refusals.json";

impl Reader {
    /// How many requests of any kind a run sends; it ends with 3.
    fn sent(&self, arguments: &[&str]) -> usize {
        let before = self.server.count("", "");
        let ran = self.run(arguments);
        assert_eq!(ran.code, 3, "{arguments:?}: {}", crate::screen(&ran));
        self.server.count("", "") - before
    }
}

#[test]
fn a_server_that_refused_us_hears_nothing_at_the_next_start() {
    let reader = Reader::new();
    assert_ne!(reader.sent(&["list"]), 0);
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
        assert_eq!(reader.sent(command), 0, "{command:?}");
    }
    // Programs that speak JSON are told the same.
    assert!(reader.run(&["call", "docs", "answer", "--json"]).out.contains("\"status\":401"));
    // Who shows something else is somebody else.
    assert_ne!(reader.sent(&["tools", "docs", "-H", "X-Key: 1"]), 0);
    assert_eq!(reader.sent(&["tools", "docs", "-H", "X-Key: 1"]), 0);
    assert_ne!(reader.sent(&["tools", "docs", "-H", "X-Key: 2"]), 0);
    let kept = reader.person.read(REFUSALS);
    assert!(!kept.contains("X-Key") && !kept.contains("127.0.0.1"), "{kept}");
}

#[test]
fn who_wants_to_know_has_the_server_asked() {
    let reader = Reader::new();
    assert_ne!(reader.sent(&["tools"]), 0);
    for command in [&["doctor"][..], &["doctor", "docs"], &["get", "docs"], &["get", "docs", "--json"]] {
        assert_ne!(reader.sent(command), 0, "{command:?}");
        assert_eq!(reader.sent(&["tools"]), 0, "after {command:?}");
    }
    // What a doctor finds mended is mended for everybody.
    reader.server.state().is_open = true;
    assert_eq!(reader.run(&["get", "docs"]).code, 0);
    assert_eq!(reader.run(&["tools"]).code, 0);
}

#[test]
fn signing_in_and_out_and_removing_a_server_forget_its_refusals() {
    let reader = Reader::new();
    assert_ne!(reader.sent(&["tools"]), 0);
    reader.login();
    assert_eq!(reader.run(&["tools"]).code, 0);
    // Even if the sign-in is lost.
    std::fs::remove_file(reader.person.path(CREDENTIALS)).unwrap();
    assert_ne!(reader.sent(&["tools"]), 0);
    assert_eq!(reader.sent(&["tools"]), 0);
    assert_eq!(reader.run(&["logout", "docs"]).code, 0);
    assert_ne!(reader.sent(&["tools"]), 0);
    assert_eq!(reader.sent(&["tools"]), 0);
    assert_eq!(reader.run(&["remove", "docs"]).code, 0);
    assert_eq!(reader.run(&["add", "docs", &reader.server.url()]).code, 0);
    assert_ne!(reader.sent(&["tools", "docs"]), 0);
    assert_eq!(reader.sent(&["tools", "docs"]), 0);
}

#[test]
fn refusals_are_kept_where_everything_else_of_a_person_is() {
    let reader = Reader::new();
    assert_ne!(reader.sent(&["tools"]), 0);
    let (root, mcp) = (reader.person.path("root"), format!("docs={}", reader.server.url()));
    let elsewhere = ["tools", "--config-root", root.to_str().unwrap(), "--mcp", &mcp];
    assert_ne!(reader.sent(&elsewhere), 0);
    assert!(root.join("cache/refusals.json").is_file());
    assert_eq!(reader.sent(&elsewhere), 0);
}
