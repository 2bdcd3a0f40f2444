//! Real processes: restarted after a crash, replaced after a change, and gone after closing.

use std::time::Duration;

use serde_json::json;
use wharf_config::{Scope, Server, StdioConfig, TransportConfig};
use wharf_fleet::{ServerSpec, ServerState};
use wharf_protocol::Secret;
use wharf_testkit::{HttpScripted, Script, Step, alive, children_of, kill, soon, until};

use super::{LONG, at, call, child, entry, name, offered, open, reaches};

fn children() -> Vec<u32> {
    children_of(std::process::id())
}

#[tokio::test]
async fn a_child_that_dies_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = open([child("mortal", &Script::good(), folder.path())]);
    soon(fleet.settled(LONG)).await;
    let before = children();
    assert_eq!(before.len(), 1);
    kill(before[0]);
    // A new process starts only after the end of the old one was noticed.
    until(async || children().iter().any(|child| !before.contains(child))).await;
    soon(reaches(&fleet, "mortal", ServerState::Connected)).await;
    assert_eq!(soon(call(&entry(&fleet, "mcp__mortal__add"), json!({"a": 1, "b": 1}))).await.unwrap().text(), "2");
    soon(fleet.close()).await;
    assert_eq!(children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_child_that_is_restarted_with_other_tools_has_a_new_list() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = open([child("shifting", &Script::good(), folder.path())]);
    soon(fleet.settled(LONG)).await;
    assert_eq!(offered(&fleet), ["mcp__shifting__echo", "mcp__shifting__add"]);
    let session = fleet.session(&name("shifting")).unwrap();
    assert_eq!(soon(session.list_tools()).await.unwrap().items.len(), 2);
    let before = children();
    // The next process reads the new script.
    child("shifting", &Script::good().any_tool("more"), folder.path());
    kill(before[0]);
    until(async || offered(&fleet).contains(&"mcp__shifting__more".to_owned())).await;
    assert_eq!(soon(session.list_tools()).await.unwrap().items.len(), 3, "no list of the old process is cached");
    assert!(children().iter().all(|child| !before.contains(child)));
    soon(fleet.close()).await;
    assert_eq!(children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_server_over_sse_and_a_process_are_used_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = HttpScripted::new(Script::good());
    let listening = server.listen().await;
    let over_http = at("events", &listening.sse_url());
    let TransportConfig::Http(remote) = over_http.transport.clone() else { panic!("{over_http:?}") };
    let events = Server { transport: TransportConfig::Sse(remote), ..over_http };
    let fleet = open([events, child("process", &Script::good(), folder.path())]);
    soon(fleet.settled(LONG)).await;
    assert_eq!(offered(&fleet), ["mcp__events__echo", "mcp__events__add", "mcp__process__echo", "mcp__process__add"]);
    for tool in ["mcp__events__add", "mcp__process__add"] {
        let (one, other) = (entry(&fleet, tool), entry(&fleet, "mcp__process__echo"));
        let sum = call(&one, json!({"a": 2, "b": 3}));
        let echo = call(&other, json!({"text": "both"}));
        let (sum, echo) = soon(async { tokio::join!(sum, echo) }).await;
        assert_eq!(sum.unwrap().text(), "5", "{tool}");
        assert!(!echo.unwrap().is_error);
    }
    assert!(server.requests().iter().any(|seen| seen.path.starts_with("/sse")));
    soon(fleet.close()).await;
    assert_eq!(children(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_changed_entry_replaces_only_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let (edited, other) =
        (child("edited", &Script::good(), folder.path()), child("other", &Script::good(), folder.path()));
    let fleet = open([edited.clone(), other.clone()]);
    soon(fleet.settled(LONG)).await;
    let before = children();
    let since = fleet.status(&name("other")).unwrap().since;

    let second = Script::good().any_tool("more").at_start([Step::Wait(50)]);
    let changed = child("renamed", &second, folder.path());
    let changed = Server { name: name("edited"), ..changed };
    soon(fleet.apply([changed.clone(), other.clone()].map(ServerSpec::from))).await;
    assert_eq!(before.iter().filter(|pid| alive(**pid)).count(), 1, "the old one is gone before the new one is up");
    soon(fleet.settled(LONG)).await;
    assert_eq!(children().len(), 2);
    assert!(offered(&fleet).contains(&"mcp__edited__more".to_owned()));
    assert_eq!(fleet.status(&name("other")).unwrap().since, since);

    // Nothing has changed, so nothing happens.
    let now = children();
    soon(fleet.apply([changed, other].map(ServerSpec::from))).await;
    assert_eq!(children(), now);
    soon(fleet.apply([])).await;
    assert_eq!(children(), Vec::<u32>::new());
    assert!(fleet.statuses().is_empty());
}

#[tokio::test]
async fn changes_of_a_file_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let one = child("one", &Script::good(), folder.path());
    let two = child("two", &Script::good(), folder.path());
    let fleet = open([one.clone()]);
    let file = folder.path().join("which");
    let read = file.clone();
    let mut last = String::new();
    fleet.follow(Duration::from_millis(20), move || {
        let now = std::fs::read_to_string(&read).unwrap_or_default();
        let changed = std::mem::replace(&mut last, now.clone()) != now;
        changed.then(|| if now == "two" { vec![two.clone().into()] } else { vec![one.clone().into()] })
    });
    std::fs::write(&file, "two").unwrap();
    soon(reaches(&fleet, "two", ServerState::Connected)).await;
    assert_eq!(super::summary(&fleet), "two connected 2");
    assert_eq!(children().len(), 1);
    soon(fleet.close()).await;
    assert_eq!(children(), Vec::<u32>::new());
}

#[tokio::test]
async fn closing_under_load_ends_every_call_and_every_process() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::good().any_tool("hang").on_call("hang", [Step::Hang]);
    let servers: Vec<_> = (0..4).map(|number| child(&format!("s{number}"), &script, folder.path())).collect();
    let fleet = open(servers);
    soon(fleet.settled(LONG)).await;
    let entries: Vec<_> = (0..64).map(|number| entry(&fleet, &format!("mcp__s{}__hang", number % 4))).collect();
    let calls = futures_util::future::join_all(entries.iter().map(|entry| call(entry, json!({}))));
    let closing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fleet.close().await;
    };
    let (results, ()) = soon(async { tokio::join!(calls, closing) }).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(children(), Vec::<u32>::new());
}

#[tokio::test]
async fn dropping_a_fleet_kills_its_servers() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = open([child("orphan", &Script::good(), folder.path())]);
    soon(fleet.settled(LONG)).await;
    assert_eq!(children().len(), 1);
    drop(fleet);
    until(async || children().is_empty()).await;
}

/// Starts a server whose program is named `python3`, and returns the `PYTHONSAFEPATH` that it gets.
async fn safe_path(scope: Scope, args: &[&str], own: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    let script = format!("#!/bin/sh\necho \"${{PYTHONSAFEPATH-unset}}\" >{}\n", folder.path().join("seen").display());
    std::fs::write(&python, script).unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let env = own.map(|value| ("PYTHONSAFEPATH".to_owned(), Secret::new(value))).into_iter().collect();
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let launch = StdioConfig { command: python.to_str().unwrap().to_owned(), args, env, cwd: None };
    let fleet = open([Server::new(name("py"), scope, TransportConfig::Stdio(launch))]);
    soon(fleet.settled(LONG)).await;
    soon(fleet.close()).await;
    std::fs::read_to_string(folder.path().join("seen")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_python_module_does_not_import_from_the_working_directory() {
    for scope in [Scope::User, Scope::Enterprise] {
        for args in [&["-m", "server"][..], &["-um", "server"], &["-c", "import server"]] {
            assert_eq!(safe_path(scope, args, None).await, "1", "{scope} {args:?}");
        }
        assert_eq!(safe_path(scope, &["server.py", "-m"], None).await, "unset", "a script imports its siblings");
        assert_eq!(safe_path(scope, &["-m", "server"], Some("")).await, "", "the entry decides");
    }
    // Approved, or written for this directory.
    for scope in [Scope::Project, Scope::Local, Scope::Dynamic] {
        assert_eq!(safe_path(scope, &["-m", "server"], None).await, "unset", "{scope}");
    }
}
