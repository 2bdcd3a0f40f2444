//! The examples of the README and the documentation, as they stand there.

use std::path::Path;

use wharf_testkit::Script;

use crate::remote::remote;
use crate::{Person, ran};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The commands in the `console` blocks of a document that can run anywhere: those with `wharf` alone.
fn commands(document: &str) -> Vec<String> {
    let lines = document.lines().filter_map(|line| line.strip_prefix("$ wharf "));
    lines.filter(|line| !line.contains("uvx") && !line.contains("npx")).map(str::to_owned).collect()
}

/// Runs the commands of a document one after the other, as one person would.
fn all_work(name: &str, least: usize) {
    let commands = commands(&document(name));
    assert!(commands.len() >= least, "{commands:?}");
    let (server, person) = (remote(Script::good()), Person::new());
    // Examples name the server as people will have it installed: the binary itself.
    let folder = Path::new(env!("CARGO_BIN_EXE_wharf")).parent().unwrap();
    for command in commands {
        // What is at an address on the web is at one of this machine here.
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
fn every_command_the_readme_shows_works() {
    all_work("README.md", 8);
}

#[test]
fn every_command_the_documentation_shows_works() {
    all_work("docs/cli.md", 5);
}
