//! What is asked for and makes no sense, and the texts that tell how to ask.

use crate::{ran, screen, wharf};

#[test]
fn each_misuse_says_what_is_wrong_and_what_to_write_instead() {
    let cases: [&[&str]; 7] = [
        &["tools"],
        &["tools", "--mcp", "nameless"],
        &["tools", "--mcp", "a b=cmd"],
        &["tools", "--mcp", "a=cmd", "--mcp", "a=cmd"],
        &["tools", "--mcp", "web=ftp://example.com/mcp"],
        &["call", "tme", "now", "--mcp", "time=cmd"],
        &["call", "time", "now", "--mcp", "time=cmd", "--timeout", "0"],
    ];
    let screens: Vec<String> = cases.iter().map(|case| screen(&ran(wharf(case)))).collect();
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn a_command_that_is_not_installed_is_named() {
    insta::assert_snapshot!(screen(&ran(wharf(&["tools", "--mcp", "ghost=no-such-server --stdio"]))));
}

#[test]
fn a_command_that_needs_a_shell_or_is_no_program_gets_the_right_hint() {
    let hint = |mcp: &str| ran(wharf(&["tools", "--mcp", mcp])).err.lines().last().unwrap().to_owned();
    assert!(hint("a=~/bin/server").starts_with("hint: commands run without a shell"));
    assert!(hint("a=KEY=value server").starts_with("hint: commands run without a shell"));
    assert!(hint("a=/tmp").starts_with("hint: is it a program?"));
}

#[test]
fn the_help_is_short_and_true() {
    insta::assert_snapshot!(ran(wharf(&["--help"])).out);
}

#[test]
fn unknown_commands_are_usage_errors() {
    let ran = ran(wharf(&["tolls"]));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("a similar subcommand exists: 'tools'"), "{}", ran.err);
}

#[test]
fn completions_and_the_manual_are_written_for_every_command_people_see() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = ran(wharf(&["completions", shell]));
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("WHARF_COMPLETE"), "{shell}");
    }
    let man = ran(wharf(&["man"]));
    assert!(man.code == 0 && man.out.contains(".TH wharf 1"));
    assert!(!man.out.contains("guard"));
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(ran(wharf(&["--version"])).out, format!("wharf {}\n", env!("CARGO_PKG_VERSION")));
}
