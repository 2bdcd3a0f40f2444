//! The tools of several servers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wharf::config::{Scope, Server, TransportConfig};
use wharf::{InProcess, OVERALL_LIMIT, all_tools, connect_all, override_descriptions, tool_descriptions};
use wharf_testkit::{Script, Scripted, Step, eventually};

fn named(name: &str, script: Script) -> Server {
    let server = Scripted::new(script);
    let transport = InProcess::new(move |stream| server.clone().serve(stream));
    Server::new(name.parse().unwrap(), Scope::User, TransportConfig::Custom(name.into(), Arc::new(transport)))
}

fn delayed(milliseconds: u64) -> Script {
    Script::good().on("initialize", [Step::Wait(milliseconds), Step::Normally])
}

#[tokio::test(start_paused = true)]
async fn all_servers_connect_at_the_same_time_and_a_failure_affects_no_other() {
    let servers = [
        named("one", delayed(300)),
        named("two", delayed(300)),
        named("three", delayed(300)),
        named("four", delayed(300)),
        named("broken", Script::good().on("initialize", [Step::HangUp])),
    ];
    let began = Instant::now();
    let (fleet, failed) = eventually(connect_all(servers)).await;
    assert_eq!(began.elapsed().as_millis(), 300);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].name.as_str(), "broken");

    let tools = all_tools(&fleet);
    let owned: Vec<String> = tools.iter().map(|tool| format!("{}/{}", tool.server, tool.entry.tool.name)).collect();
    let expected = ["four", "one", "three", "two"].map(|name| [format!("{name}/echo"), format!("{name}/add")]);
    assert_eq!(owned, expected.concat());
    assert!(tools.iter().all(|tool| tool.session.is_connected()));

    eventually(fleet.close()).await;
    assert!(tools.iter().all(|tool| !tool.session.is_connected()));
}

#[tokio::test(start_paused = true)]
async fn descriptions_are_by_full_name_and_filtered_by_bare_and_full_names() {
    let servers = || vec![named("one", Script::good()), named("two", Script::good())];
    let all = eventually(tool_descriptions(servers(), None, None)).await.unwrap();
    let expected = [
        ("mcp__one__add", "Tool which performs add"),
        ("mcp__one__echo", "Says it again"),
        ("mcp__two__add", "Tool which performs add"),
        ("mcp__two__echo", "Says it again"),
    ];
    assert_eq!(all, expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
    let filter = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let described = async |names: &[&str]| {
        let filter = filter(names);
        eventually(tool_descriptions(servers(), Some(&filter), None)).await.unwrap().into_keys().collect::<Vec<_>>()
    };
    assert_eq!(described(&["add"]).await, ["mcp__one__add", "mcp__two__add"]);
    assert_eq!(described(&["mcp__two__add"]).await, ["mcp__two__add"]);
    assert!(described(&[]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_lists_is_named_after_thirty_seconds() {
    let mute = named("mute", Script::good().on("tools/list", [Step::Hang]));
    let began = Instant::now();
    let error = eventually(tool_descriptions(vec![named("one", Script::good()), mute], None, None)).await.unwrap_err();
    assert_eq!(error.to_string(), "mute: did not list its tools within 30 s");
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn stalled_servers_time_out_together_and_the_overall_limit_ends_them_earlier() {
    let stalled = |name| named(name, Script::good().on("tools/list", [Step::Hang]));
    let began = Instant::now();
    let servers = vec![stalled("one"), stalled("two"), stalled("three")];
    let error = eventually(tool_descriptions(servers, None, Some(OVERALL_LIMIT))).await.unwrap_err();
    assert_eq!((began.elapsed().as_secs(), error.to_string().contains("one")), (30, true));

    let began = Instant::now();
    let limit = Duration::from_secs(20);
    let error =
        eventually(tool_descriptions(vec![stalled("one"), stalled("two")], None, Some(limit))).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 20);
    let expected = "failed to list the tools of all servers within 20 s; still waiting for one, two";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn descriptions_are_overridden_by_bare_and_full_names_and_capped() {
    let (fleet, _) = eventually(connect_all([named("one", Script::good()), named("two", Script::good())])).await;
    let mut catalog = fleet.catalog();
    let long = "x".repeat(3000);
    let overrides = [("add", "Sums"), ("mcp__two__echo", long.as_str()), ("gone", "x")];
    let overrides: BTreeMap<_, _> = overrides.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    override_descriptions(&mut catalog, &overrides);
    let described: Vec<_> =
        catalog.offered().iter().map(|tool| (&*tool.name, tool.description.chars().count())).collect();
    assert_eq!(
        described,
        [("mcp__one__echo", 13), ("mcp__one__add", 4), ("mcp__two__echo", 2048), ("mcp__two__add", 4)]
    );
    assert_eq!(&*fleet.catalog().get("mcp__one__add").unwrap().description, "Tool which performs add");
    eventually(fleet.close()).await;
}
