//! Tools created from the definition of an agent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf::agent::middleware::{NextTool, ToolLayer};
use wharf::agent::{Agent, Limits, Run, Scripted as ScriptedModel};
use wharf::factories::{
    AgentDefinition, AgentTool, AgentTools, ClientOptions, FactoryError, McpClient, McpResource, Platform, ToolError,
    create_mcp_tools, create_mcp_tools_from_agent, create_mcp_tools_from_metadata_for_mcp_server,
};
use wharf::fleet::{Dispatcher, Policy};
use wharf::{
    BoxFuture, CallFailed, DialTo, Dialed, HttpSettings, Json, Message, Role, ToolCall, ToolOutput, ToolSource as _,
};
use wharf_testkit::{HttpScripted, Script, Step, eventually, soon};

/// The schema of the tools in definitions.
fn schema() -> Value {
    json!({"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}})
}

/// A script with a tool as definitions describe it.
fn offering(name: &str) -> Script {
    Script::default().tool(json!({"name": name, "inputSchema": schema()})).on_call(name, [Step::Text("found".into())])
}

/// A server with these tools, in the folder `Shared`.
fn server(slug: &str, tools: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "description": format!("Does {name}"), "inputSchema": schema()});
    json!({"$resourceType": "mcp", "name": format!("The {slug}"), "description": "", "slug": slug,
        "folderPath": "Shared", "isEnabled": true, "availableTools": tools.iter().map(tool).collect::<Vec<_>>()})
}

fn agent(resources: &[Value]) -> AgentDefinition {
    json!({"name": "helper", "resources": resources}).try_into().unwrap()
}

fn resource(value: Value) -> McpResource {
    agent(&[value]).resources.remove(0)
}

/// A platform without a server.
fn nowhere() -> Platform {
    Platform::new("http://127.0.0.1:9/org/tenant/", "t0ken".to_owned())
}

/// The tools of one server.
async fn tools(value: Value) -> AgentTools {
    let client = McpClient::new("any".parse().unwrap(), "http://127.0.0.1:9/mcp", &ClientOptions::default()).unwrap();
    create_mcp_tools_from_metadata_for_mcp_server(&resource(value), &client).await.unwrap()
}

fn names(tools: &[AgentTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn question() -> Json {
    json!({"q": "why"}).into()
}

mod metadata {
    use super::*;

    async fn one() -> AgentTool {
        tools(server("docs", &["find it"])).await[0].clone()
    }

    #[tokio::test]
    async fn the_tool_type_is_mcp() {
        assert_eq!(one().await.metadata.tool_type, "mcp");
    }

    #[tokio::test]
    async fn the_display_name_is_the_name_on_the_server() {
        assert_eq!(one().await.metadata.display_name, "find it");
    }

    #[tokio::test]
    async fn the_folder_path_is_that_of_the_server() {
        assert_eq!(one().await.metadata.folder_path, "Shared");
    }

    #[tokio::test]
    async fn the_slug_is_that_of_the_server() {
        assert_eq!(one().await.metadata.slug, "docs");
    }

    #[tokio::test]
    async fn all_tools_of_a_server_have_metadata() {
        let tools = tools(server("docs", &["a", "b", "c"])).await;
        let metadata: Vec<_> = tools.iter().map(|tool| &tool.metadata).collect();
        assert!(metadata.iter().all(|it| (it.tool_type, &*it.folder_path, &*it.slug) == ("mcp", "Shared", "docs")));
        assert_eq!(metadata.iter().map(|it| &*it.display_name).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}

mod creation {
    use super::*;

    #[tokio::test]
    async fn a_server_has_several_tools() {
        let tools = tools(server("docs", &["search", "read"])).await;
        assert_eq!(names(&tools), ["mcp__any__search", "mcp__any__read"]);
    }

    #[tokio::test]
    async fn descriptions_and_schemas_are_copied() {
        let tool = tools(server("docs", &["search"])).await[0].clone();
        assert_eq!(tool.description, "Does search");
        let schema = r#"{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}"#;
        assert_eq!((tool.input_schema.as_str(), tool.output_schema), (schema, None));
    }

    #[tokio::test]
    async fn a_disabled_server_has_none() {
        let mut server = server("docs", &["search"]);
        server["isEnabled"] = json!(false);
        assert!(tools(server).await.is_empty());
    }
}

mod from_agent {
    use super::*;

    #[tokio::test]
    async fn every_server_has_its_own_client() {
        let agent = agent(&[server("docs", &["search", "read"]), server("time", &["now"])]);
        let (tools, clients) = create_mcp_tools_from_agent(&agent, &nowhere()).await.unwrap();
        assert_eq!(names(&tools), ["mcp__docs__search", "mcp__docs__read", "mcp__time__now"]);
        let urls: Vec<&str> = clients.iter().map(McpClient::url).collect();
        let base = "http://127.0.0.1:9/org/tenant/agenthub_/mcp/Shared";
        assert_eq!(urls, [format!("{base}/docs"), format!("{base}/time")]);
        assert_eq!((clients[0].max_retries(), clients[0].timeout().as_secs()), (1, 600));
        assert_eq!(tools[2].client().url(), clients[1].url());
    }

    #[tokio::test]
    async fn creating_them_connects_to_no_server() {
        // The server does not exist, and nothing fails.
        let (_, clients) = create_mcp_tools_from_agent(&agent(&[server("docs", &["a"])]), &nowhere()).await.unwrap();
        assert!(!clients[0].is_client_initialized());
        assert_eq!(clients[0].session_id(), None);
    }

    #[tokio::test]
    async fn disabled_servers_are_skipped() {
        let mut off = server("docs", &["search"]);
        off["isEnabled"] = json!(false);
        let mut unsaid = server("time", &["now"]);
        unsaid.as_object_mut().unwrap().remove("isEnabled");
        let (tools, clients) = create_mcp_tools_from_agent(&agent(&[off, unsaid]), &nowhere()).await.unwrap();
        assert_eq!((names(&tools), clients.len()), (vec!["mcp__time__now"], 1));
    }

    #[tokio::test]
    async fn an_agent_without_servers_has_no_tools_and_no_clients_and_needs_no_platform() {
        let others = [json!({"$resourceType": "context", "name": "x"}), json!({"$resourceType": "tool"})];
        for agent in [agent(&[]), agent(&others), "{}".parse().unwrap()] {
            let platform = Platform::from_variables(|_| None);
            let (tools, clients) = create_mcp_tools_from_agent(&agent, &platform).await.unwrap();
            assert!(tools.is_empty() && clients.is_empty());
        }
    }

    #[tokio::test]
    async fn a_missing_variable_is_named() {
        let agent = agent(&[server("docs", &["a"])]);
        for (set, missing) in [("", "UIPATH_URL"), ("UIPATH_URL", "UIPATH_ACCESS_TOKEN")] {
            let platform = Platform::from_variables(move |name| (name == set).then(|| "http://127.0.0.1:9".to_owned()));
            let error = create_mcp_tools_from_agent(&agent, &platform).await.unwrap_err();
            assert!(matches!(error, FactoryError::Variable(name) if name == missing), "{error}");
            assert!(error.to_string().contains(missing), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_without_a_url_is_an_error() {
        for (folder, slug) in [("", "docs"), ("Shared", ""), ("Shared/..", "docs"), ("Shared", "..")] {
            let mut server = server(slug, &["a"]);
            (server["folderPath"], server["name"]) = (json!(folder), json!("Docs"));
            let error = create_mcp_tools_from_agent(&agent(&[server]), &nowhere()).await.unwrap_err();
            assert!(error.to_string().starts_with("the MCP server `Docs` has no URL configured"), "{error}");
        }
        let error = "{\"resources\": [{\"$resourceType\": \"mcp\", \"name\": \"Docs\", \"slug\": 5}]}";
        let error = error.parse::<AgentDefinition>().unwrap_err();
        assert!(error.to_string().contains("the MCP server `Docs`: invalid type"), "{error}");
    }
}

mod invocation {
    use super::*;

    #[tokio::test]
    async fn a_call_uses_the_real_protocol_and_the_bare_name_and_survives_a_lost_session() {
        let scripted = HttpScripted::new(offering("find it"));
        let listening = scripted.listen().await;
        let base = listening.url().trim_end_matches("/mcp").to_owned();
        let platform = Platform::new(base, "t0ken".to_owned());
        let mut server = server("my docs", &["find it"]);
        server["folderPath"] = json!("Shared/My Folder");
        let (tools, clients) = create_mcp_tools_from_agent(&agent(&[server]), &platform).await.unwrap();
        assert_eq!(scripted.requests().len(), 0);

        assert!(tools[0].name.starts_with("mcp__my-docs__find_it_"), "{}", tools[0].name);
        assert_eq!(soon(tools[0].call(&question())).await.unwrap().text(), "found");
        let call = scripted.log().last_params("tools/call").unwrap();
        assert_eq!((&call["name"], &call["arguments"]), (&json!("find it"), &json!({"q": "why"})));
        let seen = scripted.requests();
        assert!(seen.iter().all(|seen| seen.path == "/agenthub_/mcp/Shared/My%20Folder/my%20docs"), "{seen:?}");
        assert!(seen.iter().all(|seen| seen.headers["authorization"] == "Bearer t0ken"));

        assert!(clients[0].is_client_initialized());
        scripted.wipe();
        assert_eq!(soon(tools[0].call(&question())).await.unwrap().text(), "found");

        // After closing it is not initialized, and the next call connects it again.
        soon(clients[0].close()).await;
        assert!(!clients[0].is_client_initialized() && clients[0].session_id().is_none());
        assert_eq!(soon(tools[0].call(&question())).await.unwrap().text(), "found");
        soon(clients[0].close()).await;
    }
}

mod name_sanitization {
    use super::*;

    #[tokio::test]
    async fn characters_that_models_do_not_accept_are_replaced_and_the_name_gets_a_digest() {
        let tools = tools(server("docs", &["find  all \t things", "get-it_2"])).await;
        assert!(tools[0].name.starts_with("mcp__any__find__all___things_"), "{}", tools[0].name);
        assert_eq!(tools[1].name, "mcp__any__get-it_2");
    }

    #[tokio::test]
    async fn no_two_tools_share_a_name() {
        let long = "x".repeat(90);
        let listed = server("docs", &["a.b/c!", "abc", "get-it_2", "日本", "語", &long, "twice", "twice"]);
        let tools = tools(listed.clone()).await;
        // A tool that is defined twice is one tool.
        assert_eq!(tools.len(), 7);
        let unique: std::collections::BTreeSet<&str> = names(&tools).into_iter().collect();
        assert_eq!(unique.len(), 7);
        assert!(unique.iter().all(|name| name.len() <= 64), "{unique:?}");

        // The same tool of two servers is two tools, in any order, even if the servers have the same slug.
        let one = server("one", &["search"]);
        let mut other = server("one", &["search"]);
        other["folderPath"] = json!("Other");
        let both = async |servers: [Value; 2]| {
            let (tools, _) = create_mcp_tools_from_agent(&agent(&servers), &nowhere()).await.unwrap();
            let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
            names.sort();
            names
        };
        let forth = both([one.clone(), other.clone()]).await;
        assert_eq!(forth, both([other, one]).await);
        assert!(forth[0] != forth[1] && forth.iter().all(|name| name.starts_with("mcp__one-")), "{forth:?}");
    }
}

/// A server over real HTTP, and the definition of it with these tools.
async fn live(script: Script, tools: &[&str]) -> (HttpScripted, wharf_testkit::Listening, Value) {
    let scripted = HttpScripted::new(script);
    let listening = scripted.listen().await;
    let mut server = server("live", tools);
    server["serverUrl"] = json!(listening.url());
    (scripted, listening, server)
}

#[tokio::test]
async fn live_tools_are_those_of_the_server_and_end_with_their_scope() {
    let (scripted, _listening, mut definition) = live(Script::good(), &["echo", "gone"]).await;
    let platform = Platform::from_variables(|_| None);
    let live = soon(create_mcp_tools(&[resource(definition.clone())], &platform)).await.unwrap();
    assert_eq!(names(live.tools()), ["mcp__live__echo"]);
    // The token is sent to the platform only.
    assert!(scripted.requests().iter().all(|seen| !seen.headers.contains_key("authorization")));
    let tool = live.tools()[0].clone();
    assert!(tool.client().is_client_initialized());
    soon(live.close()).await;
    assert!(!tool.client().is_client_initialized());
    let error = soon(tool.call(&question())).await.unwrap_err();
    assert!(matches!(error, ToolError::Closed { .. }), "{error}");
    insta::assert_snapshot!(error, @"`echo` of live was called after its session was closed; call it before the `LiveTools` is dropped, or create the tools again with `create_mcp_tools`");

    definition["dynamicTools"] = json!("all");
    let live = soon(create_mcp_tools(&[resource(definition)], &platform)).await.unwrap();
    assert_eq!(names(live.tools()), ["mcp__live__echo", "mcp__live__add"]);
    let tool = live.tools()[1].clone();
    drop(live);
    assert!(matches!(soon(tool.call(&question())).await, Err(ToolError::Closed { .. })));
}

#[tokio::test]
async fn a_server_that_cannot_be_listed_ends_the_sessions_of_the_others() {
    let (good, _one, first) = live(Script::good(), &["echo"]).await;
    let broken = Script::good().on("tools/list", [Step::Error(-32603, "broken".into())]);
    let (_bad, _other, second) = live(broken, &["echo"]).await;
    let configs = [resource(first), resource(second)];
    let error = soon(create_mcp_tools(&configs, &nowhere())).await.err().unwrap();
    assert!(matches!(error, FactoryError::List(_)), "{error}");
    assert!(good.requests().iter().any(|seen| seen.method == "DELETE"));
}

/// A platform whose connections all lead to this server, in memory.
fn in_memory(server: &HttpScripted) -> Platform {
    let server = server.clone();
    let tasks = Mutex::new(tokio::task::JoinSet::new());
    let http = HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tasks.lock().unwrap().spawn(server.clone().serve_connection(theirs));
        async move { Ok(Dialed::new(ours)) }
    });
    Platform::new("http://platform.test", "t0ken".to_owned()).with_http(http)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_lists_its_tools_times_out_after_a_minute() {
    let platform = in_memory(&HttpScripted::new(Script::good().on("tools/list", [Step::Hang])));
    let began = Instant::now();
    let error = eventually(create_mcp_tools(&[resource(server("docs", &["echo"]))], &platform)).await.err().unwrap();
    assert_eq!(error.to_string(), "the MCP server `The docs` did not list its tools within 60 s");
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn five_servers_list_their_tools_at_the_same_time() {
    let slow = Script::good().on("tools/list", [Step::Wait(1_000), Step::Normally]);
    let platform = in_memory(&HttpScripted::new(slow));
    let configs: Vec<McpResource> = (0..7).map(|n| resource(server(&format!("s{n}"), &["echo"]))).collect();
    let began = Instant::now();
    let live = eventually(create_mcp_tools(&configs, &platform)).await.unwrap();
    assert_eq!((live.tools().len(), began.elapsed().as_secs()), (7, 2));
    eventually(live.close()).await;
}

#[tokio::test]
async fn dynamic_tools_are_listed_at_creation() {
    let script = Script::good().tool(json!({"name": "extra", "inputSchema": {"type": "object"}}));
    for (mode, expected) in [("curated", &["add"][..]), ("schema", &["add"]), ("all", &["echo", "add", "extra"])] {
        let (_scripted, _listening, mut definition) = live(script.clone(), &["add"]).await;
        definition["dynamicTools"] = json!(mode);
        let (tools, clients) = soon(create_mcp_tools_from_agent(&agent(&[definition]), &nowhere())).await.unwrap();
        let expected: Vec<String> = expected.iter().map(|name| format!("mcp__live__{name}")).collect();
        assert_eq!(names(&tools), expected, "{mode}");
        soon(clients[0].close()).await;
    }
}

#[tokio::test]
async fn bound_arguments_are_hidden_from_the_model_and_sent() {
    let schema = json!({"type": "object", "required": ["q", "site"],
        "properties": {"q": {"type": "string"}, "site": {"type": "string"}, "depth": {"type": "integer"}}});
    let script = Script::default().tool(json!({"name": "search", "inputSchema": schema.clone()}));
    let script = script.on_call("search", [Step::Text("done".into())]);
    let (scripted, _listening, mut definition) = live(script, &["search"]).await;
    definition["availableTools"][0]["inputSchema"] = schema;
    definition["availableTools"][0]["argumentProperties"] =
        json!({"$['site']": {"variant": "static", "value": "docs", "isSensitive": false}});
    definition["argumentProperties"] = json!({"search": {"depth": {"variant": "static", "value": 3},
        "site": {"variant": "static", "value": "overruled"}, "q": {"variant": "argument", "argumentPath": "x"}}});
    let (tools, clients) = create_mcp_tools_from_agent(&agent(&[definition]), &nowhere()).await.unwrap();
    let shown = r#"{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}"#;
    assert_eq!(tools[0].input_schema.as_str(), shown);
    let arguments = json!({"q": "why", "site": "elsewhere"}).into();
    assert_eq!(soon(tools[0].call(&arguments)).await.unwrap().text(), "done");
    let sent = scripted.log().last_params("tools/call").unwrap()["arguments"].clone();
    assert_eq!(sent, json!({"q": "why", "site": "docs", "depth": 3}));
    assert!(matches!(tools[0].call(&json!([1]).into()).await, Err(ToolError::Arguments { .. })));
    soon(clients[0].close()).await;
}

/// Records warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message<'a>(&'a Warnings);
        impl tracing::field::Visit for Message<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0.0.lock().unwrap().push(format!("{value:?}"));
                }
            }
        }
        event.record(&mut Message(self));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn dropping_a_client_that_was_not_closed_logs_a_warning() {
    let (_scripted, _listening, definition) = live(offering("find"), &["find"]).await;
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let agent = agent(&[definition]);
    let made = async || {
        let (tools, clients) = create_mcp_tools_from_agent(&agent, &nowhere()).await.unwrap();
        soon(tools[0].call(&question())).await.unwrap();
        (tools, clients)
    };
    let (tools, clients) = made().await;
    soon(clients[0].close()).await;
    drop((tools, clients));
    assert!(warnings.0.lock().unwrap().is_empty());
    drop(made().await);
    assert_eq!(*warnings.0.lock().unwrap(), ["an MCP client was dropped without being closed"]);
}

#[test]
fn debug_output_does_not_contain_the_token() {
    let platform = Platform::new("https://example.com", "t0ken".to_owned());
    let headers = vec![("Authorization".to_owned(), "Bearer t0ken".to_owned())];
    let options = ClientOptions { headers, ..ClientOptions::default() };
    let client = McpClient::new("any".parse().unwrap(), "https://example.com/mcp", &options).unwrap();
    let printed = format!("{platform:?} {options:?} {client:?}");
    assert!(!printed.contains("t0ken"), "{printed}");
}

#[tokio::test]
async fn a_tool_that_has_changed_on_the_server_is_not_called() {
    let changed = json!({"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}});
    let script = Script::default().tool(json!({"name": "find", "inputSchema": changed}));
    let (scripted, _listening, definition) = live(script, &["find", "gone"]).await;
    let (tools, clients) = create_mcp_tools_from_agent(&agent(&[definition]), &nowhere()).await.unwrap();
    let reason = |error: ToolError| match error {
        ToolError::Refused { reason, .. } => reason,
        other => panic!("{other}"),
    };
    let changed = reason(soon(tools[0].call(&question())).await.unwrap_err());
    assert_eq!(changed, "it has changed on its server: `q` was removed; `query` is required now");
    assert_eq!(reason(soon(tools[1].call(&question())).await.unwrap_err()), "its server no longer offers it");
    assert_eq!(scripted.log().count("tools/call"), 0);
    soon(clients[0].close()).await;
}

#[tokio::test]
async fn the_dispatcher_of_the_tools_applies_its_policy() {
    let (scripted, _listening, mut definition) = live(offering("find"), &["find"]).await;
    definition["availableTools"][0]["description"] = json!("x".repeat(3000));
    let (tools, clients) = create_mcp_tools_from_agent(&agent(&[definition]), &nowhere()).await.unwrap();
    assert_eq!(tools[0].description.chars().count(), 2048);
    let policy: Policy = serde_json::from_value(json!({"deny": ["mcp__live__find"]})).unwrap();
    let tools = tools.with_dispatcher(Arc::new(Dispatcher::new(policy)));
    let error = soon(tools[0].call(&question())).await.unwrap_err();
    assert!(
        matches!(&error, ToolError::Refused { reason, .. } if reason.starts_with("denied by the policy")),
        "{error}"
    );
    assert_eq!(scripted.log().count("tools/call"), 0);
    soon(clients[0].close()).await;
}

/// Counts the calls that pass.
#[derive(Default)]
struct Counter(Mutex<Vec<String>>);

impl ToolLayer for Counter {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        self.0.lock().unwrap().push(call.name.to_string());
        next.call(call)
    }
}

#[tokio::test]
async fn an_agent_runs_with_the_tools_and_its_own_tool_layer() {
    let (scripted, _listening, definition) = live(offering("find"), &["find"]).await;
    let (tools, clients) = create_mcp_tools_from_agent(&agent(&[definition]), &nowhere()).await.unwrap();
    assert_eq!(tools.turn().offered().len(), 1);
    let turns = "- tools: [{name: mcp__live__find, arguments: {q: why}}]\n- text: It is found.\n";
    let model = ScriptedModel::parse("turns", turns).unwrap();
    let counter = Arc::new(Counter::default());
    let agent = Agent::new(Arc::new(model), Arc::new(tools)).with_tool_layer(Arc::clone(&counter) as _);
    let mut run = Run::new("r", vec![Message::text(Role::User, "Where?")], Limits::default());
    let result = soon(agent.run(&mut run, std::future::pending())).await.unwrap();
    assert_eq!(result.final_response.as_deref(), Some("It is found."));
    assert_eq!(json!(result.trace_messages)[1]["content"], "found");
    assert_eq!(*counter.0.lock().unwrap(), ["mcp__live__find"]);
    assert_eq!(scripted.log().count("tools/call"), 1);
    soon(clients[0].close()).await;
}
