//! Runs the examples of the README and the documentation.

use std::path::Path;

use wharf_testkit::Script;

use crate::remote::remote;
use crate::{Person, ran};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Returns the commands in the `console` blocks of a document that need only `wharf`.
fn commands(document: &str) -> Vec<String> {
    let lines = document.lines().filter_map(|line| line.strip_prefix("$ wharf "));
    lines.filter(|line| !line.contains("uvx") && !line.contains("npx")).map(str::to_owned).collect()
}

/// Runs the commands of a document in order, as one user.
fn all_work(name: &str, least: usize) {
    let commands = commands(&document(name));
    assert!(commands.len() >= least, "{commands:?}");
    let server = remote(Script::good());
    let person = Person::new();
    // Examples use the installed binary as a server.
    let folder = Path::new(env!("CARGO_BIN_EXE_wharf")).parent().unwrap();
    for command in commands {
        // A local server replaces the one on the web.
        let command = command.replace("https://example.com/mcp", &server.url());
        let words = shlex::split(&command).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut wharf = person.wharf(&words);
        wharf.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
        let ran = ran(wharf);
        assert_eq!(ran.code, 0, "`wharf {command}` said: {}", ran.err);
    }
}

#[test]
fn every_command_in_the_readme_works() {
    all_work("README.md", 8);
}

#[test]
fn every_command_in_the_documentation_works() {
    all_work("docs/cli.md", 5);
}
