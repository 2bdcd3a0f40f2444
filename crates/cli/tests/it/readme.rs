//! The examples of the README and the documentation, as they stand there.

use std::path::Path;

use wharf_testkit::Script;

use crate::remote::remote;
use crate::{ran, wharf};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The commands in the `console` blocks of a document that can run anywhere: those with `wharf` alone.
fn commands(document: &str) -> Vec<String> {
    let lines = document.lines().filter_map(|line| line.strip_prefix("$ wharf "));
    lines.filter(|line| !line.contains("uvx") && !line.contains("npx")).map(str::to_owned).collect()
}

#[test]
fn every_command_the_readme_shows_works() {
    let commands = commands(&document("README.md"));
    assert!(commands.len() >= 3, "{commands:?}");
    let server = remote(Script::good());
    for command in commands {
        // What is at an address on the web is at one of this machine here.
        let command = command.replace("https://example.com/mcp", &server.url());
        // Examples name the server as people will have it installed: the binary itself.
        let wharf_path = env!("CARGO_BIN_EXE_wharf");
        let words = shlex::split(&command.replace("=wharf ", &format!("={wharf_path} "))).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = ran(wharf(&words));
        assert_eq!(ran.code, 0, "`wharf {command}` said: {}", ran.err);
    }
}
