//! Usage errors, help texts, completions and the manual.

use crate::{ran, screen, wharf};

#[test]
fn usage_errors_include_a_hint() {
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
fn a_missing_command_is_named() {
    insta::assert_snapshot!(screen(&ran(wharf(&["tools", "--mcp", "ghost=no-such-server --stdio"]))));
}

#[test]
fn shell_syntax_and_non_executables_get_specific_hints() {
    let hint = |mcp: &str| ran(wharf(&["tools", "--mcp", mcp])).err.lines().last().unwrap().to_owned();
    assert!(hint("a=~/bin/server").starts_with("hint: commands run without a shell"));
    assert!(hint("a=KEY=value server").starts_with("hint: commands run without a shell"));
    assert!(hint("a=/tmp").starts_with("hint: is it a program?"));
}

#[test]
fn help_text() {
    insta::assert_snapshot!(ran(wharf(&["--help"])).out);
}

#[test]
fn unknown_commands_are_usage_errors() {
    let ran = ran(wharf(&["tolls"]));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("a similar subcommand exists: 'tools'"), "{}", ran.err);
}

#[test]
fn completions_and_the_manual_omit_hidden_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = ran(wharf(&["completions", shell]));
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("WHARF_COMPLETE"), "{shell}");
    }
    let man = ran(wharf(&["man"]));
    assert!(man.code == 0 && man.out.contains(".TH wharf 1"));
    assert!(!man.out.contains("guard"));
}
