//! The tools of several servers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;
use wharf::{
    InProcess, NoHost, OVERALL_LIMIT, ServerName, Session, SessionOptions, SessionStack, all_tools, connect_all,
    override_descriptions, tool_descriptions,
};
use wharf_testkit::{Script, Scripted, Step, eventually};

fn named(name: &str, script: Script) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    let transport = InProcess::new(move |stream| copy.clone().serve(stream));
    (Session::new(name.parse().unwrap(), transport, NoHost, SessionOptions::default()), server)
}

fn delayed(milliseconds: u64) -> Script {
    Script::good().on("initialize", [Step::Wait(milliseconds), Step::Normally])
}

#[tokio::test(start_paused = true)]
async fn all_servers_connect_at_the_same_time_and_one_that_fails_takes_nobody_along() {
    let (sessions, _servers): (Vec<Session>, Vec<Scripted>) = [
        named("one", delayed(300)),
        named("two", delayed(300)),
        named("three", delayed(300)),
        named("broken", Script::good().on("initialize", [Step::HangUp])),
    ]
    .into_iter()
    .unzip();
    let (began, mut stack) = (Instant::now(), SessionStack::default());
    let (connected, failed) = eventually(connect_all(&mut stack, sessions)).await;
    assert_eq!(began.elapsed().as_millis(), 300);
    assert_eq!(connected.keys().map(ServerName::as_str).collect::<Vec<_>>(), ["one", "three", "two"]);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].server.as_str(), "broken");

    let tools = eventually(all_tools(&connected)).await.unwrap();
    let owned: Vec<String> = tools.iter().map(|one| format!("{}/{}", one.server, one.tool.name)).collect();
    assert_eq!(owned, ["one/echo", "one/add", "three/echo", "three/add", "two/echo", "two/add"]);

    eventually(stack.close()).await;
    assert!(connected.values().all(|session| !session.is_connected()));
}

#[tokio::test(start_paused = true)]
async fn a_stack_closes_what_it_connected() {
    let (session, server) = named("one", Script::good());
    let mut stack = SessionStack::default();
    let session = eventually(stack.connect(session)).await.unwrap();
    assert!(session.is_connected());
    eventually(stack.close()).await;
    assert!(!session.is_connected());
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn descriptions_are_told_by_name_and_filtered() {
    let sessions = || vec![named("one", Script::good()).0];
    let all = eventually(tool_descriptions(sessions(), None, None)).await.unwrap();
    let expected = [("add", "Tool which performs add"), ("echo", "Says it again")];
    assert_eq!(all, expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
    let filter = BTreeSet::from(["add".to_owned()]);
    let some = eventually(tool_descriptions(sessions(), Some(&filter), None)).await.unwrap();
    assert_eq!(some.keys().collect::<Vec<_>>(), ["add"]);
    let nothing = eventually(tool_descriptions(sessions(), Some(&BTreeSet::new()), None)).await.unwrap();
    assert!(nothing.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_lists_is_named_after_thirty_seconds() {
    let (mute, _server) = named("mute", Script::good().on("tools/list", [Step::Hang]));
    let began = Instant::now();
    let error =
        eventually(tool_descriptions(vec![named("one", Script::good()).0, mute], None, None)).await.unwrap_err();
    assert_eq!(error.to_string(), "mute: its tools were not listed within 30 s");
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn three_stalled_servers_cost_thirty_seconds_together_and_never_more_than_forty_five() {
    let stalled = |name| named(name, Script::good().on("tools/list", [Step::Hang])).0;
    let began = Instant::now();
    let sessions = vec![stalled("one"), stalled("two"), stalled("three")];
    let error = eventually(tool_descriptions(sessions, None, Some(OVERALL_LIMIT))).await.unwrap_err();
    assert_eq!((began.elapsed().as_secs(), error.to_string().contains("one")), (30, true));

    // An overall limit below the limit of each is what ends them.
    let (began, limit) = (Instant::now(), std::time::Duration::from_secs(20));
    let error =
        eventually(tool_descriptions(vec![stalled("one"), stalled("two")], None, Some(limit))).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 20);
    assert_eq!(error.to_string(), "the tools of all servers were not listed within 20 s; still waiting for one, two");
}

#[tokio::test(start_paused = true)]
async fn descriptions_are_replaced_in_place_and_only_where_asked() {
    let (session, _server) = named("one", Script::good());
    let mut tools = eventually(session.list_tools()).await.unwrap().items;
    let overrides = BTreeMap::from([("add".to_owned(), "Sums".to_owned()), ("gone".to_owned(), "x".to_owned())]);
    override_descriptions(&mut tools, &overrides);
    let told: Vec<_> = tools.iter().map(|tool| (tool.name.to_string(), tool.description.as_deref().unwrap())).collect();
    assert_eq!(told, [("echo".to_owned(), "Says it again"), ("add".to_owned(), "Sums")]);
    assert_eq!(Arc::strong_count(&tools[1]), 1);
}
