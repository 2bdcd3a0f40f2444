//! Servers that connect when they are first used.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_fleet::{
    Catalog, DisabledReason, Dispatcher, Fleet, FleetError, FleetOptions, FleetTools, ServerSpec, ServerState,
    Settings, Turn,
};
use wharf_protocol::{Json, Listed, Tool, ToolCall, ToolSource as _, Tools as _};
use wharf_testkit::{Script, Scripted, Step, eventually};

use super::{LONG, in_memory, name, open, summary};

fn on_demand(server: &Scripted) -> Fleet {
    let spec = ServerSpec { server: in_memory("s", server), disabled: Some(DisabledReason::OnDemand) };
    Fleet::open([spec], FleetOptions::default())
}

fn listed(tools: &Value) -> Listed<Tool> {
    let mut listed = Listed::default();
    let page: Vec<Json> = tools.as_array().unwrap().iter().cloned().map(Json::from).collect();
    listed.add_page(&page);
    listed
}

/// A turn with the tool `add` as a definition describes it.
fn turn(fleet: &Fleet, schema: &Value) -> Turn {
    let tools = listed(&json!([{"name": "add", "description": "Adds", "inputSchema": schema}]));
    let preset = fleet.preset_tools(&name("s"), Settings::default(), &tools).unwrap();
    Turn::new(Arc::new(Catalog::new(vec![preset], Vec::new())), Arc::default())
}

fn numbers() -> Value {
    json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
}

fn add(a: i64) -> ToolCall {
    ToolCall { id: "1".into(), name: "mcp__s__add".into(), arguments: json!({"a": a, "b": 1}).into() }
}

#[tokio::test(start_paused = true)]
async fn a_server_on_demand_connects_with_the_first_call_and_again_after_a_disconnect() {
    let server = Scripted::new(Script::good());
    let fleet = on_demand(&server);
    assert!(fleet.settled(LONG).await);
    assert_eq!((summary(&fleet).as_str(), server.connections()), ("s pending 0: connects on first use", 0));
    let turn = turn(&fleet, &numbers());
    assert_eq!(server.connections(), 0);
    assert_eq!(eventually(turn.call(&add(1))).await.unwrap().text(), "2");
    assert_eq!((summary(&fleet).as_str(), server.connections()), ("s connected 2", 1));

    fleet.disconnect(&name("s")).await.unwrap();
    assert_eq!(summary(&fleet), "s pending 0: connects on first use");
    assert_eq!(eventually(turn.call(&add(2))).await.unwrap().text(), "3");
    assert_eq!(server.connections(), 2);
    fleet.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_preset_tool_is_checked_against_the_servers_list() {
    let server = Scripted::new(Script::good());
    let fleet = on_demand(&server);
    let text = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}});
    let call = ToolCall { arguments: json!({"a": "1", "b": 1}).into(), ..add(1) };
    let output = eventually(turn(&fleet, &text).call(&call)).await.unwrap();
    assert!(output.is_error && output.text().contains("it has changed on its server"), "{}", output.text());
    assert_eq!(server.log().count("tools/call"), 0);
    let unknown = fleet.preset_tools(&name("other"), Settings::default(), &Listed::default());
    assert_eq!(unknown.unwrap_err(), FleetError::Unknown(name("other")));
    fleet.close().await;
}

#[tokio::test(start_paused = true)]
async fn connect_returns_the_status_after_the_attempt() {
    let refusing = Script::good().on("initialize", [Step::Error(-32000, "not you".into())]);
    let refusing = refusing.on("server/discover", [Step::Error(-32000, "not you".into())]);
    let fleet = on_demand(&Scripted::new(refusing));
    let status = eventually(fleet.connect(&name("s"))).await.unwrap();
    assert_eq!(status.state, ServerState::Failed);
    // A call makes another attempt.
    let failed = eventually(turn(&fleet, &numbers()).call(&add(1))).await.unwrap_err();
    assert!(failed.reason.contains("not you"), "{failed}");
    let fleet = on_demand(&Scripted::new(Script::good()));
    assert_eq!(eventually(fleet.connect(&name("s"))).await.unwrap().state, ServerState::Connected);
    fleet.close().await;
}

#[tokio::test(start_paused = true)]
async fn fleet_tools_take_the_catalog_of_each_turn() {
    let fleet = open([in_memory("one", &Scripted::new(Script::good()))]);
    fleet.settled(LONG).await;
    let source = FleetTools::new(fleet.clone(), Arc::new(Dispatcher::default()));
    let first = source.turn();
    fleet.add(in_memory("two", &Scripted::new(Script::good()))).unwrap();
    fleet.settled(LONG).await;
    assert_eq!((first.offered().len(), source.turn().offered().len()), (2, 4));
    let call = ToolCall { name: "mcp__one__add".into(), ..add(1) };
    assert_eq!(eventually(first.call(&call)).await.unwrap().text(), "2");
    fleet.close().await;
}
