//! The fleet as its users see it.

mod authenticate;
mod changes;
mod failing;
mod gates;
mod logging;
mod managed;
mod many;
mod on_demand;
mod processes;
mod resuming;
mod token_provider;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{CallOptions, InProcess, Transport};
use wharf_config::{OAuthSettings, RemoteConfig, Scope, Server, StdioConfig, TransportConfig};
use wharf_fleet::{DisabledReason, Entry, ExecutionError, Fleet, FleetError, FleetOptions, ServerSpec, ServerState};
use wharf_protocol::{Json, ServerName, ToolOutput};
use wharf_testkit::{HttpScripted, Listening, Script, Scripted, Step, eventually, scripted_server};

/// Longer than any test should take.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

/// A server in memory.
pub(crate) fn in_memory(text: &str, server: &Scripted) -> Server {
    let copy = server.clone();
    custom(text, InProcess::new(move |stream| copy.clone().serve(stream)))
}

pub(crate) fn custom(text: &str, transport: impl Transport) -> Server {
    Server::new(name(text), Scope::User, TransportConfig::Custom(text.into(), Arc::new(transport)))
}

/// A server behind a real socket.
pub(crate) async fn over_http(text: &str, server: &HttpScripted) -> (Server, Listening) {
    let listening = server.listen().await;
    (at(text, &format!("http://{}/mcp", listening.address())), listening)
}

pub(crate) fn at(text: &str, url: &str) -> Server {
    let remote = RemoteConfig {
        url: url.to_owned(),
        headers: Vec::new(),
        headers_helper: None,
        oauth: OAuthSettings::default(),
    };
    Server::new(name(text), Scope::User, TransportConfig::Http(remote))
}

/// A server in its own process; `$` in the script stands for the folder.
pub(crate) fn child(text: &str, script: &Script, folder: &std::path::Path) -> Server {
    let file = folder.join(format!("{text}.script"));
    std::fs::write(&file, serde_json::to_string(script).unwrap().replace('$', folder.to_str().unwrap())).unwrap();
    let args = [file, folder.join(format!("{text}.log"))].map(|path| path.to_str().unwrap().to_owned()).to_vec();
    let command = scripted_server().to_str().unwrap().to_owned();
    Server::new(
        name(text),
        Scope::User,
        TransportConfig::Stdio(StdioConfig { command, args, env: [].into(), cwd: None }),
    )
}

pub(crate) fn open(servers: impl IntoIterator<Item = Server>) -> Fleet {
    Fleet::open(servers.into_iter().map(ServerSpec::from), FleetOptions::default())
}

/// The status of every server, one line each.
pub(crate) fn summary(fleet: &Fleet) -> String {
    let line = |status: wharf_fleet::ServerStatus| {
        let reason = status.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{} {} {}{reason}", status.name, status.state, status.tools)
    };
    fleet.statuses().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The names in the catalog.
pub(crate) fn offered(fleet: &Fleet) -> Vec<String> {
    fleet.catalog().entries().iter().map(|entry| entry.name.to_string()).collect()
}

pub(crate) fn entry(fleet: &Fleet, full: &str) -> Arc<Entry> {
    let catalog = fleet.catalog();
    Arc::clone(catalog.entries().iter().find(|entry| *entry.name == *full).unwrap())
}

/// Calls the executor of a catalog entry.
pub(crate) async fn call(entry: &Entry, arguments: Value) -> Result<ToolOutput, ExecutionError> {
    entry.executor.call(&entry.tool, &Json::from(arguments), CallOptions::default()).await
}

/// Waits until a server is in a state.
pub(crate) async fn reaches(fleet: &Fleet, text: &str, state: ServerState) {
    let mut changes = fleet.changes();
    while fleet.status(&name(text)).is_none_or(|status| status.state != state) {
        changes.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn opening_returns_at_once_and_servers_connect_independently() {
    let slow = Scripted::new(Script::good().once("initialize", [Step::Wait(900), Step::Normally]));
    let fleet = open([in_memory("slow", &slow), in_memory("quick", &Scripted::new(Script::good()))]);
    assert_eq!(summary(&fleet), "quick pending 0: queued\nslow pending 0: queued");
    assert!(offered(&fleet).is_empty());
    eventually(reaches(&fleet, "quick", ServerState::Connected)).await;
    assert_eq!(summary(&fleet), "quick connected 2\nslow pending 0: connecting");
    assert_eq!(offered(&fleet), ["mcp__quick__echo", "mcp__quick__add"]);
    assert!(fleet.settled(LONG).await);
    assert_eq!(summary(&fleet), "quick connected 2\nslow connected 2");
    assert_eq!(call(&entry(&fleet, "mcp__slow__add"), json!({"a": 1, "b": 2})).await.unwrap().text(), "3");
    fleet.close().await;
    assert_eq!((summary(&fleet), offered(&fleet).len()), (String::new(), 0));
    assert_eq!(fleet.add(in_memory("late", &slow)), Err(FleetError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_catalog_does_not_change() {
    let fleet = open([in_memory("one", &Scripted::new(Script::good()))]);
    fleet.settled(LONG).await;
    let before = fleet.catalog();
    assert!(Arc::ptr_eq(&before, &fleet.catalog()), "nothing has changed");
    fleet.add(in_memory("two", &Scripted::new(Script::good()))).unwrap();
    fleet.settled(LONG).await;
    fleet.disable(&name("one")).await.unwrap();
    assert_eq!(before.entries().len(), 2);
    assert_eq!(offered(&fleet), ["mcp__two__echo", "mcp__two__add"]);
    let gone = call(&before.entries()[0], json!({"text": "hello"})).await.unwrap_err().to_string();
    assert_eq!(gone, "one: the server is disabled: disabled by the host");
}

#[tokio::test(start_paused = true)]
async fn disabled_held_and_refused_servers_are_never_contacted_and_have_a_reason() {
    let servers = [(); 5].map(|()| Scripted::new(Script::good()));
    let held = |text, server, disabled| ServerSpec { server: in_memory(text, server), disabled: Some(disabled) };
    let mut off = in_memory("off", &servers[0]);
    off.settings.enabled = false;
    let fleet = Fleet::open(
        [
            off.into(),
            held("unasked", &servers[1], DisabledReason::Approval("needs approval".into())),
            held("forbidden", &servers[2], DisabledReason::Refused("it is on the deny list".into())),
            held("locked", &servers[4], DisabledReason::Locked("switched off, and nobody approved it".into())),
            held("silenced", &servers[3], DisabledReason::SwitchedOff("`wharf disable` switched it off".into())),
        ],
        FleetOptions::default(),
    );
    assert!(fleet.settled(LONG).await);
    insta::assert_snapshot!(summary(&fleet), @"
    forbidden failed 0: it is on the deny list
    locked disabled 0: switched off, and nobody approved it
    off disabled 0: disabled in its configuration
    silenced disabled 0: `wharf disable` switched it off
    unasked pending 0: needs approval
    ");
    assert!(fleet.enable(&name("forbidden")).await.is_err());
    assert!(matches!(fleet.enable(&name("locked")).await, Err(FleetError::Held(..))));
    assert!(fleet.retry(&name("unasked")).await.is_err());
    assert!(fleet.prompts().await.is_empty() && fleet.resources().await.is_empty());
    assert_eq!(servers.iter().map(Scripted::connections).sum::<u64>(), 0);
    fleet.enable(&name("silenced")).await.unwrap();
    eventually(reaches(&fleet, "silenced", ServerState::Connected)).await;
}

#[tokio::test(start_paused = true)]
async fn servers_can_be_added_disabled_enabled_and_removed() {
    let server = Scripted::new(Script::good());
    let fleet = open([]);
    fleet.add(in_memory("one", &server)).unwrap();
    assert_eq!(fleet.add(in_memory("one", &server)), Err(FleetError::Exists(name("one"))));
    fleet.settled(LONG).await;
    assert_eq!(fleet.status(&name("one")).unwrap().scope, Scope::Dynamic);
    fleet.disable(&name("one")).await.unwrap();
    assert_eq!(summary(&fleet), "one disabled 0: disabled by the host");
    fleet.enable(&name("one")).await.unwrap();
    eventually(reaches(&fleet, "one", ServerState::Connected)).await;
    assert_eq!(server.connections(), 2);
    fleet.remove(&name("one")).await.unwrap();
    assert_eq!((summary(&fleet), offered(&fleet).len()), (String::new(), 0));
    assert_eq!(fleet.remove(&name("one")).await, Err(FleetError::Unknown(name("one"))));
}

#[tokio::test(start_paused = true)]
async fn the_server_filter_applies_to_added_servers() {
    let server_filter = Arc::new(|server: &Server| match server.name.as_str() {
        "bad" => Err("it is on the deny list".to_owned()),
        _ => Ok(()),
    });
    let fleet = Fleet::open([], FleetOptions { server_filter, ..FleetOptions::default() });
    let refused = fleet.add(in_memory("bad", &Scripted::new(Script::good()))).unwrap_err().to_string();
    assert_eq!(refused, "server `bad` is not permitted: it is on the deny list");
    assert!(fleet.statuses().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_added_server_is_removed_when_the_rules_no_longer_permit_it() {
    let strict = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let rule = Arc::clone(&strict);
    let server_filter = Arc::new(move |_: &Server| {
        let is_strict = rule.load(std::sync::atomic::Ordering::Relaxed);
        if is_strict { Err("nothing is allowed any more".to_owned()) } else { Ok(()) }
    });
    let fleet = Fleet::open([], FleetOptions { server_filter, ..FleetOptions::default() });
    fleet.add(in_memory("added", &Scripted::new(Script::good()))).unwrap();
    fleet.apply([]).await;
    assert_eq!(fleet.statuses().len(), 1);
    strict.store(true, std::sync::atomic::Ordering::Relaxed);
    fleet.apply([]).await;
    assert!(fleet.statuses().is_empty());
}

#[tokio::test(start_paused = true)]
async fn needed_returns_the_servers_that_are_missing() {
    let broken = || custom("broken", || async { Err(wharf_client::OpenError::Unusable("no such thing".into())) });
    let fleet = open([in_memory("good", &Scripted::new(Script::good())), broken()]);
    assert!(fleet.needed(false, LONG).await.is_ok(), "no server is required");
    let missing = |statuses: Vec<wharf_fleet::ServerStatus>| {
        statuses.into_iter().map(|it| it.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(missing(fleet.needed(true, LONG).await.unwrap_err()), ["broken"]);
    fleet.close().await;

    let mut required = broken();
    required.settings.required = true;
    let fleet = open([in_memory("good", &Scripted::new(Script::good())), required]);
    assert_eq!(missing(fleet.needed(false, LONG).await.unwrap_err()), ["broken"]);
    fleet.disable(&name("broken")).await.unwrap();
    assert!(fleet.needed(true, LONG).await.is_ok(), "a disabled server is not required");
}

/// The list of one server.
fn of<'a, T>(server: &str, offers: &'a [wharf_fleet::ServerListing<T>]) -> &'a wharf_protocol::Listed<T> {
    offers.iter().find(|(name, _)| name.as_str() == server).unwrap().1.as_ref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn prompts_are_commands_and_resources_are_read_from_connected_servers_only() {
    let mut script = Script::good();
    script.prompts.push(json!({"name": "greet", "arguments": [{"name": "who"}]}));
    script.resources.push(json!({"uri": "note://1", "name": "One"}));
    script.templates.push(json!({"uriTemplate": "note://{id}", "name": "Note"}));
    let script = script
        .on(
            "prompts/get",
            [Step::Result(json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]}))],
        )
        .on("resources/read", [Step::Result(json!({"contents": [{"uri": "note://1", "text": "first"}]}))]);
    let server = Scripted::new(script);
    let fleet = open([in_memory("notes", &server), in_memory("bare", &Scripted::new(Script::good()))]);
    fleet.settled(LONG).await;
    let commands = fleet.commands().await;
    assert_eq!(commands.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["mcp__notes__greet"]);
    let messages = fleet.run_command("mcp__notes__greet", &Json::from(json!({"who": "me"}))).await.unwrap();
    assert!(messages.as_str().contains("Hi"), "{messages}");
    assert!(fleet.run_command("mcp__notes__nothing", &Json::from(json!({}))).await.is_err());
    let resources = fleet.resources().await;
    assert_eq!(of("notes", &resources).items[0].uri, "note://1");
    assert_eq!(of("notes", &fleet.resource_templates().await).items.len(), 1);
    assert!(fleet.read(&name("notes"), "note://1").await.unwrap().as_str().contains("first"));
    fleet.disable(&name("notes")).await.unwrap();
    let before = server.log().lines().len();
    assert!(fleet.commands().await.is_empty());
    fleet.resources().await;
    let refused = fleet.read(&name("notes"), "note://1").await.unwrap_err().to_string();
    assert_eq!(refused, "server `notes` is disabled: disabled by the host");
    assert_eq!(fleet.read(&name("other"), "x").await.unwrap_err().to_string(), "server `other` is not configured");
    assert_eq!(server.log().lines().len(), before);
}
