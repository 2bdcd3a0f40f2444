//! Untrusted input: project files, reused names and organization rules must not bypass protections.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use wharf_testkit::free_port;

use crate::{PROJECT, Person, USER, demo_entry, entry_touching};

#[test]
fn only_mcp_cannot_bypass_the_organization_by_reusing_a_name() {
    let person = Person::new();
    let started = person.path("started");
    let line = entry_touching(&started)["args"][1].as_str().unwrap().to_owned();
    let mcp = format!("x=sh -c '{line}'");
    for rules in [
        json!({"exclusive": true, "mcpServers": {"x": demo_entry()}}),
        json!({"deniedMcpServers": [{"serverCommand": ["sh", "-c", line]}], "mcpServers": {"x": {}}}),
    ] {
        person.write("managed.json", &rules.to_string());
        let mut command = person.wharf(&["tools", "--only-mcp", "--mcp", &mcp]);
        command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
        let ran = crate::ran(command);
        assert!(ran.code == 2 && ran.err.contains("server `x` is not allowed"), "{}", ran.err);
    }
    assert!(!started.exists());
}

#[test]
fn a_named_pipe_is_rejected_as_a_configuration_file() {
    let person = Person::new();
    let pipe = person.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = person.wharf(&["list"]);
    command.env("WHARF_MANAGED_CONFIG", &pipe);
    let ran = crate::ran(command);
    assert!(ran.code == 2 && ran.err.contains("not a file"), "{}", ran.err);
    let from = pipe.to_str().unwrap();
    assert!(person.run(&["import", "cursor", "--from", from]).err.contains("not a file"));
}

#[test]
fn project_files_are_imported_only_into_the_project_scope() {
    let person = Person::new();
    let started = person.path("started");
    person.write("project/.cursor/mcp.json", &json!({"mcpServers": {"theirs": entry_touching(&started)}}).to_string());
    person.write("home/.cursor/mcp.json", &json!({"mcpServers": {"mine": demo_entry()}}).to_string());
    let ran = person.run(&["import", "cursor"]);
    assert!(ran.out.contains("mine") && !ran.out.contains("theirs"), "{}", ran.out);
    assert!(ran.err.contains("project/.cursor/mcp.json: it belongs to the project"), "{}", ran.err);
    let ran = person.run(&["import", "cursor", "-s", "project"]);
    assert!(ran.out.contains("theirs") && ran.out.contains("touch"), "{}", ran.out);
    assert!(person.run(&["call", "theirs", "now"]).err.contains("needs your approval"));
    assert!(!started.exists());
}

#[test]
fn an_invalid_project_entry_does_not_hide_a_user_server() {
    let person = Person::new().with(USER, "demo", &demo_entry()).with(PROJECT, "demo", &json!({}));
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    assert_eq!(person.run(&["get", "demo"]).code, 0);
}

#[test]
fn an_invalid_header_disables_only_its_server() {
    let odd = json!({"url": "https://odd.test/mcp", "headers": {"Content-Type": "text/plain"}});
    let person = Person::new().with(USER, "demo", &demo_entry()).with(USER, "odd", &odd);
    let ran = person.run(&["tools"]);
    assert!(ran.code == 0 && ran.out.contains("calculate"), "{}", ran.err);
    assert!(ran.err.contains("mcpServers.odd.headers.Content-Type: the client sets this header"), "{}", ran.err);
}

#[test]
fn control_characters_in_files_are_escaped() {
    let person = Person::new().with(PROJECT, "evil\u{1b}[2J\nname", &json!({"command": "x"})).with(
        USER,
        "lines",
        &json!({"command": "x", "args": ["a\nb\tc"], "enabled": false}),
    );
    for arguments in [&["list", "--no-connect"][..], &["list"], &["get", "lines"], &["get", "evil\u{1b}[2J\nname"]] {
        let ran = person.run(arguments);
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{arguments:?}");
        assert!(!ran.out.contains("\nname") && !ran.out.contains("a\nb"), "{}", ran.out);
    }
    assert!(person.run(&["get", "lines"]).out.contains(r"a\nb\tc"));
}

#[test]
fn enable_overrides_a_disabled_entry() {
    let mut off = demo_entry();
    off["enabled"] = json!(false);
    let person = Person::new().with(USER, "demo", &off);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 2);
    assert_eq!(person.run(&["enable", "demo"]).code, 0);
    let ran = person.run(&["call", "demo", "now"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(person.run(&["list"]).out.contains("connected"));
}

#[test]
fn calls_are_rejected_while_the_user_file_is_invalid() {
    let person = Person::new().with(PROJECT, "demo", &demo_entry());
    assert_eq!(person.run(&["approve", "demo", "-y", "-q"]).code, 0);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    person.write(USER, r#"{"policy": {"deny": ["*"]},,}"#);
    let ran = person.run(&["call", "demo", "now"]);
    assert!(ran.code == 2 && ran.err.contains("cannot read the rules and hooks of the user scope"), "{}", ran.err);
    // Listing its tools still works.
    assert_eq!(person.run(&["tools", "demo"]).code, 0);
}

#[test]
fn the_log_directory_of_a_managed_server_is_created() {
    let port = free_port();
    let line = format!("echo hello; exec sleep 60 # {port}");
    let entry = json!({"command": "sh", "args": ["-c", line], "manage": {"port": port, "startupTimeout": 1000}});
    let person = Person::new().with(USER, "slow", &entry);
    let ran = person.run(&["list"]);
    assert!(ran.out.contains("did not listen"), "{}", ran.out);
    assert_eq!(person.read("home/.cache/wharf/logs/slow.log"), "hello\n");
}

#[test]
fn remove_reports_success_despite_other_invalid_files() {
    let person = Person::new().with(USER, "mine", &demo_entry());
    person.write(PROJECT, "{,}");
    let ran = person.run(&["remove", "mine"]);
    assert!(ran.code == 0 && ran.err.contains("removed `mine`"), "{}", ran.err);
    let person = Person::new().with(PROJECT, "ours", &demo_entry());
    person.write("home/.local/state/wharf/approvals.json", "nonsense");
    let ran = person.run(&["remove", "ours"]);
    assert!(ran.code == 2 && ran.err.contains("removed `ours`"), "{}", ran.err);
    assert!(ran.err.contains("the server was removed, but its approval was not"), "{}", ran.err);
}

#[test]
fn a_header_for_an_unused_server_is_an_error() {
    let person = Person::new().with(USER, "there", &json!({"url": "https://a.test/mcp"}));
    let ran = person.run(&["tools", "--mcp", "here=https://a.test/mcp", "-H", "X: y"]);
    assert!(ran.code == 2 && ran.err.contains("--header is for a server that is not used"), "{}", ran.err);
}

#[test]
fn symlinks_out_of_the_project_are_not_written() {
    let person = Person::new();
    person.write("theirs.json", "{}");
    std::os::unix::fs::symlink("../theirs.json", person.path(PROJECT)).unwrap();
    for arguments in [&["add", "-s", "project", "x", "run"][..], &["remove", "x", "-s", "project"]] {
        let ran = person.run(arguments);
        assert!(ran.code == 2 && ran.err.contains("outside of the project"), "{}", ran.err);
    }
    assert_eq!(person.read("theirs.json"), "{}");
}

fn write_script(file: &Path, text: &str) {
    std::fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn files_of_a_project_do_not_run_under_the_name_of_a_command() {
    let person = Person::new().with(USER, "mine", &json!({"command": "helper", "args": ["x"]}));
    let started = person.path("started");
    let touch = format!("touch {}", started.display());
    std::fs::create_dir(person.path("project/bin")).unwrap();
    for name in ["helper", "bin/helper"] {
        write_script(&person.path("project").join(name), &touch);
    }
    // A script finds its interpreter in the `PATH` of the process.
    let script = person.path("home/script");
    write_script(&script, "");
    std::fs::write(&script, "#!/usr/bin/env helper\n").unwrap();
    let person = person.with(USER, "script", &json!({"command": script}));
    for path in [".:/usr/bin:/bin", "/usr/bin:/bin:", ":/usr/bin:/bin", "bin:/usr/bin:/bin"] {
        for arguments in [&["tools"][..], &["doctor"], &["list"]] {
            let mut command = person.wharf(arguments);
            command.env("PATH", path);
            let ran = crate::ran(command);
            assert!(!started.exists(), "PATH={path} {arguments:?}: {} {}", ran.out, ran.err);
            assert!(!ran.out.contains("project/helper") && !ran.out.contains("bin/helper"), "{}", ran.out);
        }
    }
}

#[test]
fn hooks_run_in_the_directory_of_their_file() {
    let person = Person::new().with(USER, "demo", &demo_entry());
    let mut file: serde_json::Value = serde_json::from_str(&person.read(USER)).unwrap();
    file["hooks"] = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": "./check"}]}]});
    person.write(USER, &file.to_string());
    let started = person.path("started");
    write_script(&person.path("project/check"), &format!("touch {}", started.display()));
    write_script(&person.path("home/.config/wharf/check"), "pwd >&2; exit 2");
    let ran = person.run(&["call", "demo", "now"]);
    let folder = person.path("home/.config/wharf");
    assert!(ran.code == 1 && ran.err.contains(folder.to_str().unwrap()), "{}", ran.err);
    assert!(!started.exists());
}

/// Returns the binary without capabilities: with some of them, root may read the memory of any process.
fn without_capabilities(person: &Person, arguments: &[&str]) -> Command {
    let command = person.wharf(arguments);
    if !rustix::process::getuid().is_root() {
        return command;
    }
    let mut limited = Command::new("setpriv");
    limited.args(["--bounding-set=-all", "--inh-caps=-all"]);
    limited.arg(command.get_program()).args(command.get_args()).env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(person.path("project")).stdin(std::process::Stdio::null());
    limited
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_cannot_read_the_environment_of_the_binary_or_its_guard() {
    let person = Person::new();
    let seen = person.path("seen");
    let guard = r#"for p in /proc/[0-9]*; do
            case "$(tr '\0' ' ' <$p/cmdline)" in *" __guard ") ;; *) continue ;; esac
            grep -q "^PPid:.$PPID$" $p/status || continue
            cat $p/environ >/dev/null 2>&1 && echo "guard readable" || echo "guard denied"
        done"#;
    let line = format!("{{ cat /proc/$PPID/environ || echo denied; {guard}; }} >{} 2>&1", seen.display());
    let person = person.with(USER, "spy", &json!({"command": "sh", "args": ["-c", line]}));
    without_capabilities(&person, &["tools", "-q"]).output().unwrap();
    let seen = person.read("seen");
    assert!(seen.contains("denied\n") && seen.contains("guard denied"), "{seen}");
    assert!(!seen.contains("s3cr3t") && !seen.contains("guard readable"), "{seen}");
}

#[cfg(target_os = "linux")]
#[test]
fn servers_and_the_guard_inherit_no_descriptors() {
    let person = Person::new();
    let seen = person.path("seen");
    let line = format!(
        "for p in $$ $(cat /proc/$PPID/task/*/children); do test -e /proc/$p/fd/7 && echo open; done >{0}; echo done >>{0}",
        seen.display()
    );
    let person = person.with(USER, "spy", &json!({"command": "sh", "args": ["-c", line]}));
    let outer = person.wharf(&["tools", "-q"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec 7</dev/null; exec \"$0\" \"$@\""])
        .arg(outer.get_program())
        .args(outer.get_args())
        .env_clear();
    shell.envs(outer.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(person.path("project"));
    shell.output().unwrap();
    assert_eq!(person.read("seen"), "done\n");
}
