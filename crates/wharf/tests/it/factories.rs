//! Tools made from the definition of an agent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf::factories::{
    AgentDefinition, AgentTool, ClientOptions, FactoryError, McpClient, McpResource, Platform, ToolError,
    create_mcp_tools, create_mcp_tools_from_agent, create_mcp_tools_from_metadata_for_mcp_server,
};
use wharf::{DialTo, Dialed, HttpSettings, Json};
use wharf_testkit::{HttpScripted, Script, Step, eventually, soon};

/// A server with these tools, in the folder `Shared`.
fn server(slug: &str, tools: &[&str]) -> Value {
    let tool = |name: &&str| {
        json!({"name": name, "description": format!("Does {name}"), "inputSchema":
            {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}})
    };
    json!({"$resourceType": "mcp", "name": format!("The {slug}"), "description": "", "slug": slug,
        "folderPath": "Shared", "isEnabled": true, "availableTools": tools.iter().map(tool).collect::<Vec<_>>()})
}

fn agent(resources: &[Value]) -> AgentDefinition {
    json!({"name": "helper", "resources": resources}).try_into().unwrap()
}

fn resource(value: Value) -> McpResource {
    agent(&[value]).resources.remove(0)
}

/// A platform where nobody is.
fn nowhere() -> Platform {
    Platform::new("http://127.0.0.1:9/org/tenant/", "t0ken".to_owned())
}

/// What the one server of an agent has.
async fn tools(value: Value) -> Vec<AgentTool> {
    let client = McpClient::new("any".parse().unwrap(), "http://127.0.0.1:9/mcp", ClientOptions::default()).unwrap();
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
        tools(server("docs", &["find it"])).await.remove(0)
    }

    #[tokio::test]
    async fn every_tool_says_that_it_is_of_mcp() {
        assert_eq!(one().await.metadata.tool_type, "mcp");
    }

    #[tokio::test]
    async fn the_name_for_people_is_what_the_server_calls_it() {
        assert_eq!(one().await.metadata.display_name, "find it");
    }

    #[tokio::test]
    async fn the_folder_is_told() {
        assert_eq!(one().await.metadata.folder_path, "Shared");
    }

    #[tokio::test]
    async fn the_slug_is_told() {
        assert_eq!(one().await.metadata.slug, "docs");
    }

    #[tokio::test]
    async fn all_tools_of_a_server_have_all_of_it() {
        let tools = tools(server("docs", &["a", "b", "c"])).await;
        let told: Vec<_> = tools.iter().map(|tool| &tool.metadata).collect();
        assert!(told.iter().all(|it| (it.tool_type, &*it.folder_path, &*it.slug) == ("mcp", "Shared", "docs")));
        assert_eq!(told.iter().map(|it| &*it.display_name).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}

mod creation {
    use super::*;

    #[tokio::test]
    async fn a_server_has_several_tools() {
        assert_eq!(names(&tools(server("docs", &["search", "read"])).await), ["search", "read"]);
    }

    #[tokio::test]
    async fn descriptions_and_schemas_are_taken_over() {
        let tool = tools(server("docs", &["search"])).await.remove(0);
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
    async fn every_server_gets_a_client_of_its_own() {
        let agent = agent(&[server("docs", &["search", "read"]), server("time", &["now"])]);
        let (tools, clients) = create_mcp_tools_from_agent(&agent, &nowhere()).await.unwrap();
        assert_eq!(names(&tools), ["search", "read", "now"]);
        let urls: Vec<&str> = clients.iter().map(McpClient::url).collect();
        let base = "http://127.0.0.1:9/org/tenant/agenthub_/mcp/Shared";
        assert_eq!(urls, [format!("{base}/docs"), format!("{base}/time")]);
        assert_eq!((clients[0].max_retries(), clients[0].timeout().as_secs()), (1, 600));
        assert_eq!(tools[2].client().url(), clients[1].url());
    }

    #[tokio::test]
    async fn making_them_connects_to_nobody() {
        // Nobody is there, and nothing is wrong with that.
        let (_, clients) = create_mcp_tools_from_agent(&agent(&[server("docs", &["a"])]), &nowhere()).await.unwrap();
        assert!(!clients[0].is_client_initialized());
        assert_eq!(clients[0].session_id(), None);
    }

    #[tokio::test]
    async fn disabled_servers_are_passed_over() {
        let mut off = server("docs", &["search"]);
        off["isEnabled"] = json!(false);
        let mut unsaid = server("time", &["now"]);
        unsaid.as_object_mut().unwrap().remove("isEnabled");
        let (tools, clients) = create_mcp_tools_from_agent(&agent(&[off, unsaid]), &nowhere()).await.unwrap();
        assert_eq!((names(&tools), clients.len()), (vec!["now"], 1));
    }

    #[tokio::test]
    async fn an_agent_without_servers_has_neither_tools_nor_clients_and_needs_no_platform() {
        let others = [json!({"$resourceType": "context", "name": "x"}), json!({"$resourceType": "tool"})];
        for agent in [agent(&[]), agent(&others), "{}".parse().unwrap()] {
            let platform = Platform::from_variables(|_| None);
            let (tools, clients) = create_mcp_tools_from_agent(&agent, &platform).await.unwrap();
            assert!(tools.is_empty() && clients.is_empty());
        }
    }

    #[tokio::test]
    async fn a_missing_variable_is_named_when_it_is_needed() {
        let agent = agent(&[server("docs", &["a"])]);
        for (set, missing) in [("", "UIPATH_URL"), ("UIPATH_URL", "UIPATH_ACCESS_TOKEN")] {
            let platform = Platform::from_variables(move |name| (name == set).then(|| "http://127.0.0.1:9".to_owned()));
            let error = create_mcp_tools_from_agent(&agent, &platform).await.unwrap_err();
            assert!(matches!(error, FactoryError::Variable(name) if name == missing), "{error}");
            assert!(error.to_string().contains(missing), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_without_an_address_is_an_error_that_says_so() {
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
    async fn a_call_goes_through_the_real_protocol_by_the_servers_own_name_and_survives_a_lost_session() {
        let script = Script::default()
            .tool(json!({"name": "find it", "inputSchema": {"type": "object"}}))
            .on_call("find it", [Step::Text("found".into())]);
        let scripted = HttpScripted::new(script);
        let listening = scripted.listen().await;
        let base = listening.url().trim_end_matches("/mcp").to_owned();
        let platform = Platform::new(base, "t0ken".to_owned());
        let mut server = server("my docs", &["find it"]);
        server["folderPath"] = json!("Shared/My Folder");
        let (tools, clients) = create_mcp_tools_from_agent(&agent(&[server]), &platform).await.unwrap();
        assert_eq!(scripted.requests().len(), 0);

        assert_eq!(names(&tools), ["find_it"]);
        assert_eq!(soon(tools[0].call(&question())).await.unwrap().text(), "found");
        let call = scripted.log().last_params("tools/call").unwrap();
        assert_eq!((&call["name"], &call["arguments"]), (&json!("find it"), &json!({"q": "why"})));
        let seen = scripted.requests();
        assert!(seen.iter().all(|seen| seen.path == "/agenthub_/mcp/Shared/My%20Folder/my%20docs"), "{seen:?}");
        assert!(seen.iter().all(|seen| seen.headers["authorization"] == "Bearer t0ken"));

        assert!(clients[0].is_client_initialized());
        scripted.wipe();
        assert_eq!(soon(tools[0].call(&question())).await.unwrap().text(), "found");

        // Closed, it says so, and can be used again.
        soon(clients[0].close()).await;
        assert!(!clients[0].is_client_initialized() && clients[0].session_id().is_none());
        assert_eq!(soon(tools[0].call(&question())).await.unwrap().text(), "found");
        soon(clients[0].close()).await;
    }
}

mod name_sanitization {
    use super::*;

    #[tokio::test]
    async fn white_space_becomes_one_underscore() {
        let tools = tools(server("docs", &["find  all \t things", " edge "])).await;
        assert_eq!(names(&tools), ["find_all_things", "edge"]);
    }

    #[tokio::test]
    async fn other_characters_are_left_out_and_no_two_tools_share_a_name() {
        let long = "x".repeat(90);
        let listed = server("docs", &["a.b/c!", "abc", "get-it_2", "日本", "語", &long, "twice", "twice"]);
        let given = |tools: &[AgentTool]| names(tools).join("\n");
        let ours = tools(listed.clone()).await;
        insta::assert_snapshot!(given(&ours), @"
        abc_698e5150
        abc
        get-it_2
        tool_008c85a1
        tool_85e350d0
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        twice_8af60c50
        twice_030f4737
        ");
        assert!(ours.iter().all(|tool| tool.name.len() <= 64));

        // The same tool of two servers is two tools, whatever order they come in.
        let (one, other) = (server("one", &["search"]), server("other", &["search"]));
        let both = async |servers: [Value; 2]| {
            let (tools, _) = create_mcp_tools_from_agent(&agent(&servers), &nowhere()).await.unwrap();
            let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
            names.sort();
            names
        };
        let forth = both([one.clone(), other.clone()]).await;
        assert_eq!(forth, both([other, one]).await);
        assert!(forth[0] != forth[1] && forth.iter().all(|name| name.starts_with("search_")), "{forth:?}");
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
async fn live_tools_are_what_the_server_has_now_and_end_with_their_scope() {
    let (scripted, _listening, mut definition) = live(Script::good(), &["echo", "gone"]).await;
    let platform = Platform::from_variables(|_| None);
    let live = soon(create_mcp_tools(&[resource(definition.clone())], &platform)).await.unwrap();
    assert_eq!(names(live.tools()), ["echo"]);
    // Our token is for the platform, and for nobody else.
    assert!(scripted.requests().iter().all(|seen| !seen.headers.contains_key("authorization")));
    let tool = live.tools()[0].clone();
    assert!(tool.client().is_client_initialized());
    soon(live.close()).await;
    assert!(!tool.client().is_client_initialized());
    let error = soon(tool.call(&question())).await.unwrap_err();
    assert!(matches!(error, ToolError::Ended { .. }), "{error}");
    insta::assert_snapshot!(error, @"`echo` of live was called after its session had ended; call it while the `LiveTools` it came from are there, or make the tools anew with `create_mcp_tools`");

    definition["dynamicTools"] = json!("all");
    let live = soon(create_mcp_tools(&[resource(definition)], &platform)).await.unwrap();
    assert_eq!(names(live.tools()), ["echo", "add"]);
    let tool = live.tools()[1].clone();
    drop(live);
    assert!(matches!(soon(tool.call(&question())).await, Err(ToolError::Ended { .. })));
}

#[tokio::test]
async fn one_server_that_cannot_be_listed_ends_the_sessions_of_the_others() {
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
    let (server, tasks) = (server.clone(), Mutex::new(tokio::task::JoinSet::new()));
    let http = HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tasks.lock().unwrap().spawn(server.clone().serve_connection(theirs));
        async move { Ok(Dialed::new(ours)) }
    });
    Platform::new("http://platform.test", "t0ken".to_owned()).with_http(http)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_lists_its_tools_is_given_up_after_a_minute() {
    let platform = in_memory(&HttpScripted::new(Script::good().on("tools/list", [Step::Hang])));
    let began = Instant::now();
    let error = eventually(create_mcp_tools(&[resource(server("docs", &["echo"]))], &platform)).await.err().unwrap();
    assert_eq!(error.to_string(), "the MCP server `The docs` did not list its tools within 60 s");
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn five_servers_are_listed_at_a_time() {
    let slow = Script::good().on("tools/list", [Step::Wait(1_000), Step::Normally]);
    let platform = in_memory(&HttpScripted::new(slow));
    let configs: Vec<McpResource> = (0..7).map(|n| resource(server(&format!("s{n}"), &["echo"]))).collect();
    let began = Instant::now();
    let live = eventually(create_mcp_tools(&configs, &platform)).await.unwrap();
    assert_eq!((live.tools().len(), began.elapsed().as_secs()), (7, 2));
    eventually(live.close()).await;
}

#[tokio::test]
async fn a_server_that_is_to_be_asked_is_asked_when_the_tools_are_made() {
    let script = Script::good().tool(json!({"name": "extra", "inputSchema": {"type": "object"}}));
    for (mode, expected) in [("curated", vec!["add"]), ("schema", vec!["add"]), ("all", vec!["echo", "add", "extra"])] {
        let (_scripted, _listening, mut definition) = live(script.clone(), &["add"]).await;
        definition["dynamicTools"] = json!(mode);
        let (tools, clients) = soon(create_mcp_tools_from_agent(&agent(&[definition]), &nowhere())).await.unwrap();
        assert_eq!(names(&tools), expected, "{mode}");
        soon(clients[0].close()).await;
    }
}

#[tokio::test]
async fn arguments_that_are_decided_already_are_hidden_from_the_model_and_sent() {
    let script = Script::default().on_call("search", [Step::Text("done".into())]);
    let (scripted, _listening, mut definition) = live(script, &["search"]).await;
    let schema = json!({"type": "object", "required": ["q", "site"],
        "properties": {"q": {"type": "string"}, "site": {"type": "string"}, "depth": {"type": "integer"}}});
    definition["availableTools"][0]["inputSchema"] = schema;
    definition["availableTools"][0]["argumentProperties"] =
        json!({"$['site']": {"variant": "static", "value": "docs", "isSensitive": false}});
    definition["argumentProperties"] = json!({"search": {"depth": {"variant": "static", "value": 3},
        "site": {"variant": "static", "value": "overruled"}, "q": {"variant": "argument", "argumentPath": "x"}}});
    let (tools, clients) = create_mcp_tools_from_agent(&agent(&[definition]), &nowhere()).await.unwrap();
    let shown = r#"{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}"#;
    assert_eq!(tools[0].input_schema.as_str(), shown);
    let asked = json!({"q": "why", "site": "elsewhere"}).into();
    assert_eq!(soon(tools[0].call(&asked)).await.unwrap().text(), "done");
    let sent = scripted.log().last_params("tools/call").unwrap()["arguments"].clone();
    assert_eq!(sent, json!({"q": "why", "site": "docs", "depth": 3}));
    assert!(matches!(tools[0].call(&json!([1]).into()).await, Err(ToolError::Arguments(_))));
    soon(clients[0].close()).await;
}

/// Hears warnings.
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
async fn dropping_a_client_that_was_not_closed_is_warned_of() {
    let (_scripted, _listening, definition) = live(Script::good(), &["echo"]).await;
    let warnings = Warnings::default();
    let _heard = tracing::subscriber::set_default(warnings.clone());
    let agent = agent(&[definition]);
    let made = async || {
        let (tools, clients) = create_mcp_tools_from_agent(&agent, &nowhere()).await.unwrap();
        soon(tools[0].call(&json!({"text": "x"}).into())).await.unwrap();
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
fn nothing_that_is_printed_holds_the_token() {
    let platform = Platform::new("https://example.com", "t0ken".to_owned());
    let headers = vec![("Authorization".to_owned(), "Bearer t0ken".to_owned())];
    let options = ClientOptions { headers, ..ClientOptions::default() };
    let client = McpClient::new("any".parse().unwrap(), "https://example.com/mcp", options.clone()).unwrap();
    let printed = format!("{platform:?} {options:?} {client:?}");
    assert!(!printed.contains("t0ken"), "{printed}");
}
