//! Lists: pages, malformed items and endless lists.

use serde_json::{Value, json};
use wharf_client::{InProcess, NoHost, Session, SessionOptions};
use wharf_testkit::{Script, Scripted, Step, eventually};

use crate::{in_memory, legacy};

fn tools(count: usize) -> Script {
    let tool = |n| json!({"name": format!("tool{n}"), "inputSchema": {"type": "object"}});
    Script { tools: (0..count).map(tool).collect(), ..Script::default() }
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_in_order() {
    let (session, server) = in_memory(Script { page_size: Some(40), ..tools(312) });
    let listed = eventually(session.list_tools()).await.unwrap();
    let names: Vec<&str> = listed.items.iter().map(|tool| &*tool.name).collect();
    assert_eq!((names.len(), names[0], names[311]), (312, "tool0", "tool311"));
    assert_eq!(server.log().count("tools/list"), 8);
    assert!(listed.notes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_malformed_tool_is_reported_and_the_others_are_listed() {
    let mut script = tools(312);
    script.tools[7] = json!({"name": "broken", "inputSchema": null});
    let (session, _server) = in_memory(Script { page_size: Some(100), ..script });
    let listed = eventually(session.list_tools()).await.unwrap();
    assert_eq!(listed.items.len(), 311);
    assert_eq!(listed.quarantined.len(), 1);
    assert_eq!(listed.quarantined[0].name.as_deref(), Some("broken"));
    assert_eq!(listed.quarantined[0].reason, "has no `inputSchema`");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_cursor_ends_the_list_with_a_note() {
    let endless = json!({"tools": [{"name": "again", "inputSchema": {}}], "nextCursor": "same"});
    let (session, server) = in_memory(Script::default().on("tools/list", [Step::Result(endless)]));
    let listed = eventually(session.list_tools()).await.unwrap();
    assert_eq!(listed.notes, ["the server repeated the cursor \"same\"; the list ends there"]);
    assert_eq!((listed.items.len(), server.log().count("tools/list")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_endless_list_is_cut_at_the_page_limit() {
    let (session, server) = in_memory(Script { page_size: Some(1), ..tools(200) });
    let listed = eventually(session.list_tools()).await.unwrap();
    assert_eq!((listed.items.len(), server.log().count("tools/list")), (64, 64));
    assert_eq!(listed.notes, ["the list has more than 64 pages; the rest was not read"]);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_list_is_an_error_with_its_reason() {
    let refusal = async |result: Value| {
        let (session, _server) = in_memory(Script::default().on("tools/list", [Step::Result(result)]));
        eventually(session.list_tools()).await.unwrap_err().kind.to_string()
    };
    assert_eq!(refusal(json!({})).await, "the server's response is malformed: the list has no `tools`");
    let expected = "the server's response is malformed: the list `tools` is an object, not an array";
    assert_eq!(refusal(json!({"tools": {}})).await, expected);
    assert_eq!(refusal(json!([])).await, "the server's response is malformed: the list is an array, not an object");
}

#[tokio::test(start_paused = true)]
async fn prompts_resources_and_templates_can_be_listed_and_read() {
    let script = Script {
        prompts: vec![json!({"name": "greet", "description": "Says hello"}), json!({"title": "nameless"})],
        resources: vec![json!({"uri": "note://a", "name": "a", "mimeType": "text/plain"}), json!({"uri": 5})],
        templates: vec![json!({"uriTemplate": "note://{id}"})],
        ..Script::default()
    }
    .on("prompts/get", [Step::Result(json!({"messages": [{"role": "user"}]}))])
    .on("resources/read", [Step::Result(json!({"contents": []}))]);
    let (session, server) = in_memory(script);
    let prompts = eventually(session.list_prompts()).await.unwrap();
    assert_eq!((prompts.items[0].name.as_str(), prompts.quarantined.len()), ("greet", 1));
    let resources = eventually(session.list_resources()).await.unwrap();
    assert_eq!((resources.items[0].uri.as_str(), resources.quarantined.len()), ("note://a", 1));
    let templates = eventually(session.list_resource_templates()).await.unwrap();
    assert_eq!(templates.items[0].name, "note://{id}");
    let prompt = eventually(session.get_prompt("greet", &json!({"name": "Ada"}).into())).await.unwrap();
    assert_eq!(prompt.as_str(), r#"{"messages":[{"role":"user"}]}"#);
    eventually(session.read_resource("note://a")).await.unwrap();
    assert_eq!(server.log().last_params("prompts/get"), Some(json!({"name": "greet", "arguments": {"name": "Ada"}})));
    assert_eq!(server.log().last_params("resources/read"), Some(json!({"uri": "note://a"})));
}

#[tokio::test(start_paused = true)]
async fn long_descriptions_are_truncated_if_a_limit_is_set() {
    let tool =
        |n| json!({"name": format!("t{n}"), "description": "x".repeat(30_000), "inputSchema": {"type": "object"}});
    let server = Scripted::new(Script { tools: (0..500).map(tool).collect(), ..Script::default() });
    let connect = |options: SessionOptions| {
        let copy = server.clone();
        let transport = InProcess::new(move |stream| copy.clone().serve(stream));
        Session::new("scripted".parse().unwrap(), transport, NoHost, options)
    };
    let whole = eventually(connect(legacy()).list_tools()).await.unwrap();
    assert_eq!(whole.items[499].description.as_ref().unwrap().len(), 30_000);
    let session = connect(SessionOptions { max_description_chars: Some(2_048), ..legacy() });
    let listed = eventually(session.list_tools()).await.unwrap();
    assert_eq!(listed.items.len(), 500);
    for tool in &listed.items {
        assert_eq!(tool.description.as_ref().unwrap().chars().count(), 2_048);
        assert!(tool.raw.as_str().len() < 2_200 && tool.raw.as_str().contains("… [cut]"), "{}", tool.raw);
        assert_eq!(tool.notes, ["`description` has 30000 characters and was cut to 2048"]);
        assert_eq!(tool.input_schema.as_str(), r#"{"type":"object"}"#);
    }
}
