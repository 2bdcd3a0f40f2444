//! Catalogs: what a model sees, and the notes on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_config::Pattern;
use wharf_config::ToolChoice;
use wharf_fleet::Settings;
use wharf_fleet::catalog::{
    AbsentServer, Catalog, InvalidOwnTool, OwnTool, Prospect, ServerTools, ServerToolsParts, StrictestHints,
};
use wharf_protocol::{Json, ToolOutput};

use crate::dispatch_kit::{Fake, listed, server_tools};

fn simple(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object", "properties": {}}})
}

fn three() -> Value {
    json!([simple("search"), simple("read_file"), simple("write_file")])
}

fn choice(allowed: Option<&[&str]>, rejected: &[&str], descriptions: &[(&str, &str)]) -> ToolChoice {
    let own = |names: &[&str]| names.iter().map(|name| Pattern::read(name).unwrap()).collect();
    let descriptions = descriptions.iter().map(|(name, words)| ((*name).to_owned(), (*words).to_owned()));
    ToolChoice { allowed: allowed.map(own), rejected: own(rejected), descriptions: descriptions.collect() }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.offered().iter().map(|tool| &*tool.name).collect()
}

fn notes(catalog: &Catalog) -> String {
    catalog.notes().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn filtered(tools: ToolChoice) -> Catalog {
    let settings = Settings { tools, ..Settings::default() };
    Catalog::new(vec![server_tools("files", settings, three(), Fake::echo())], Vec::new())
}

#[test]
fn no_filter_means_all_tools_and_an_empty_one_means_none() {
    assert_eq!(names(&filtered(choice(None, &[], &[]))).len(), 3);
    assert!(names(&filtered(choice(Some(&[]), &[], &[]))).is_empty());
}

#[test]
fn a_filter_matches_bare_and_full_names_and_patterns_and_rejection_comes_last() {
    let all = choice(Some(&["search", "mcp__files__read_*"]), &[], &[]);
    assert_eq!(names(&filtered(all)), ["mcp__files__search", "mcp__files__read_file"]);
    assert_eq!(names(&filtered(choice(Some(&["*_file"]), &["write_file"], &[]))), ["mcp__files__read_file"]);
    assert_eq!(names(&filtered(choice(None, &["mcp__files"], &[]))), Vec::<&str>::new());
    let expression = choice(Some(&["/(read|write)_file/"]), &["/mcp__files__w.+/"], &[]);
    assert_eq!(names(&filtered(expression)), ["mcp__files__read_file"]);
}

#[test]
fn a_predicate_sees_what_the_model_sees() {
    let catalog = filtered(choice(None, &["write_file"], &[("search", "finds things")]));
    let filtered = catalog.filter(|tool| &*tool.name == "mcp__files__search" && &*tool.description == "finds things");
    assert_eq!(names(&filtered), ["mcp__files__search"]);
    assert!(filtered.get("mcp__files__read_file").is_none() && catalog.get("mcp__files__read_file").is_some());
}

#[test]
fn unknown_names_in_settings_are_noted_with_suggestions() {
    let slips = choice(Some(&["serch", "read_file"]), &["mail"], &[("write_fil", "writes")]);
    insta::assert_snapshot!(notes(&filtered(slips)), @"
    files: description override `write_fil` matches no tool; did you mean `write_file`?
    files: tool filter `mail` matches no tool
    files: tool filter `serch` matches no tool; did you mean `search`?
    ");
}

#[test]
fn descriptions_are_overridden_and_then_capped() {
    let long = "é".repeat(3000);
    let tools = json!([{"name": "a", "description": long, "inputSchema": {}}, {"name": "b", "inputSchema": {}},
        {"name": "c", "description": " ", "inputSchema": {}}, simple("d")]);
    let tools_choice = choice(None, &[], &[("b", &long), ("mcp__s__d", "other words")]);
    let settings = Settings { tools: tools_choice, ..Settings::default() };
    let catalog = Catalog::new(vec![server_tools("s", settings, tools, Fake::echo())], Vec::new());
    let words: Vec<&str> = catalog.offered().iter().map(|tool| &*tool.description).collect();
    for cut in &words[..2] {
        assert!(cut.chars().count() == 2048 && cut.ends_with("… [cut]"), "{cut}");
    }
    assert_eq!(words[2..], ["Tool which performs c", "other words"]);
    insta::assert_snapshot!(notes(&catalog), @"
    s: `a`: schema adjusted for models: added the type; added `properties`
    s: `a`: description cut to 2048 characters
    s: `b`: schema adjusted for models: added the type; added `properties`
    s: `b`: description overridden
    s: `b`: description cut to 2048 characters
    s: `c`: schema adjusted for models: added the type; added `properties`
    s: `d`: description overridden
    ");
}

/// A server with instructions and some tools.
fn instructing(server: &str, settings: Settings, instructions: Option<&str>, tools: &[Value]) -> Arc<ServerTools> {
    let mut listed = wharf_protocol::Listed::default();
    listed.add_page(&tools.iter().map(|tool| tool.clone().into()).collect::<Vec<_>>());
    Arc::new(ServerTools::new(ServerToolsParts {
        server: server.parse().unwrap(),
        scope: wharf_fleet::Scope::User,
        transport: wharf_config::TransportKind::Stdio,
        settings: Arc::new(settings),
        instructions,
        tools: &listed,
        hints: &StrictestHints::default(),
        executor: Fake::echo(),
    }))
}

#[test]
fn instructions_are_capped_too() {
    let long = "x".repeat(60_000);
    let tools = [simple("t")];
    let one = instructing("s", Settings::default(), Some(&long), &tools);
    let other = instructing("other", Settings::default(), None, &tools);
    let catalog = Catalog::new(vec![one, other], Vec::new());
    let outputs: Vec<usize> = catalog.instructions().iter().map(|own| own.text.chars().count()).collect();
    assert_eq!(outputs, [2048]);
    assert_eq!(notes(&catalog), "s: instructions cut to 2048 characters");
}

#[test]
fn instructions_are_switched_off_by_the_entry_and_need_a_tool_of_the_server() {
    let tools = [simple("t")];
    let off = Settings { instructions: false, ..Settings::default() };
    let no_tools = Settings { tools: choice(Some(&[]), &[], &[]), ..Settings::default() };
    let servers = vec![
        instructing("on", Settings::default(), Some("Read first."), &tools),
        instructing("off", off, Some("Write first."), &tools),
        instructing("empty", no_tools, Some("Sleep first."), &tools),
        instructing("blank", Settings::default(), Some(" \n"), &tools),
    ];
    let catalog = Catalog::new(servers, Vec::new());
    let named = |catalog: &Catalog| -> Vec<(String, String)> {
        catalog.instructions().iter().map(|own| (own.server.to_string(), own.text.to_string())).collect()
    };
    assert_eq!(named(&catalog), [("on".to_owned(), "Read first.".to_owned())]);
    assert_eq!(named(&catalog.filter(|entry| entry.name.contains("off"))), []);
}

#[test]
fn an_unusable_schema_removes_only_its_tool() {
    let tools = json!([simple("good"), {"name": "text", "inputSchema": {"type": "string"}}, {"name": "none"},
        {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}},
        {"name": "either", "inputSchema": {"oneOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {}}, "required": ["b"]}]}}]);
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), tools, Fake::echo())], Vec::new());
    assert_eq!(names(&catalog), ["mcp__s__good", "mcp__s__either"]);
    insta::assert_snapshot!(notes(&catalog), @r#"
    s: `none`: left out: has no `inputSchema`
    s: `text`: left out: unusable schema: its type is "string", but arguments are an object
    s: `remote`: left out: unusable schema: at `/properties/a`: external `$ref` to `http://127.0.0.1:9/x` is not supported
    s: `either`: schema adjusted for models: merged `oneOf` at the root
    "#);
}

#[test]
fn a_tool_too_large_for_a_model_is_left_out_with_its_size() {
    let large = json!({"name": "large", "inputSchema": {"type": "object", "properties": {"a": {"description": "x".repeat(70_000)}}}});
    let count = |settings| {
        let catalog =
            Catalog::new(vec![server_tools("s", settings, json!([simple("good"), large]), Fake::echo())], Vec::new());
        (names(&catalog).len(), notes(&catalog))
    };
    let (tools, text) = count(Settings::default());
    assert_eq!(tools, 1);
    assert_eq!(text, "s: `large`: left out: its definition has 70093 bytes; the maximum is 65536");
    assert_eq!(count(Settings { max_tool_bytes: Some(80_000), ..Settings::default() }), (2, String::new()));
    assert_eq!(count(Settings { max_tool_bytes: Some(10), ..Settings::default() }).0, 0);
}

#[test]
fn a_schema_too_large_for_a_model_is_not_even_parsed() {
    // Without its limit it would be left out because of the reference.
    let broken = json!({"name": "broken", "inputSchema": {"$ref": "#/none", "description": "x".repeat(70_000)}});
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), json!([broken]), Fake::echo())], Vec::new());
    assert_eq!(notes(&catalog), "s: `broken`: left out: its definition has 70074 bytes; the maximum is 65536");
    let output = json!({"name": "output", "inputSchema": {"type": "object", "properties": {}},
        "outputSchema": {"$ref": "#/none", "description": "x".repeat(5 << 20)}});
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), json!([output]), Fake::echo())], Vec::new());
    assert_eq!(notes(&catalog), "s: `output`: output schema ignored: it has more than 4194304 bytes");
}

#[test]
fn a_schema_that_multiplies_is_left_out_or_ignored() {
    let mut definitions = serde_json::Map::new();
    for level in 0..26 {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        definitions.insert(format!("a{level}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert("a26".to_owned(), json!({"type": "integer"}));
    let bomb = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": definitions});
    let hidden = Json::parse(bomb.to_string().replace("$ref", "\\u0024ref")).unwrap().to_string();
    let tools = format!(
        r#"[{{"name":"input","inputSchema":{bomb}}},{{"name":"hidden","inputSchema":{hidden}}},
        {{"name":"output","inputSchema":{{"type":"object","properties":{{}}}},"outputSchema":{bomb}}}]"#
    );
    let tools = Json::parse(tools).unwrap();
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), tools, Fake::echo())], Vec::new());
    assert_eq!(names(&catalog), ["mcp__s__output"]);
    insta::assert_snapshot!(notes(&catalog), @r"
    s: `input`: left out: unusable schema: its references multiply: checking a value would take too much work
    s: `hidden`: left out: unusable schema: its references multiply: checking a value would take too much work
    s: `output`: output schema ignored: its references multiply: checking a value would take too much work
    ");
}

#[test]
fn the_strictest_hints_of_all_lists_count() {
    let hints = StrictestHints::default();
    let entry = |tool: serde_json::Value| {
        let tools = listed(&json!([tool]));
        let server_tools = ServerTools::new(ServerToolsParts {
            server: "s".parse().unwrap(),
            scope: wharf_fleet::Scope::User,
            transport: wharf_config::TransportKind::Stdio,
            settings: Arc::default(),
            instructions: None,
            tools: &tools,
            hints: &hints,
            executor: Fake::echo(),
        });
        let entry = &server_tools.entries()[0];
        (entry.hints.read_only, entry.hints.destructive, entry.requires_user)
    };
    let tool = |annotations, meta| json!({"name": "t", "inputSchema": {}, "annotations": annotations, "_meta": meta});
    let asks = json!({"anthropic/requiresUserInteraction": true});
    let safe = json!({"readOnlyHint": true, "destructiveHint": false});
    assert_eq!(entry(tool(safe.clone(), json!({}))), (Some(true), Some(false), false));
    assert_eq!(entry(tool(json!({}), json!({}))), (None, None, false));
    assert_eq!(
        entry(tool(json!({"readOnlyHint": false, "destructiveHint": true}), asks)),
        (Some(false), Some(true), true)
    );
    assert_eq!(entry(tool(safe, json!({}))), (Some(false), Some(true), true));
}

#[test]
fn the_servers_schema_stays_byte_equal_and_is_shared_if_unchanged() {
    let raw = r#"{"name":"t","inputSchema":{ "type":"object", "properties":{"b":{},"a":{"minimum":1e0}}}}"#;
    let tools = json!([simple("other")]);
    let mut list = listed(&tools);
    list.add_page(&[wharf_protocol::Json::parse(raw).unwrap()]);
    let server_tools = ServerTools::new(ServerToolsParts {
        server: "s".parse().unwrap(),
        scope: wharf_fleet::Scope::User,
        transport: wharf_config::TransportKind::Stdio,
        settings: Arc::default(),
        instructions: None,
        tools: &list,
        hints: &StrictestHints::default(),
        executor: Fake::echo(),
    });
    let entry = &server_tools.entries()[1];
    assert_eq!(entry.tool.input_schema.as_str(), r#"{ "type":"object", "properties":{"b":{},"a":{"minimum":1e0}}}"#);
    let ours = entry.offered().input_schema;
    let theirs = &entry.tool.raw;
    assert!(theirs.as_str().as_bytes().as_ptr_range().contains(&ours.as_str().as_ptr()), "the text was copied");
}

#[test]
fn metadata_has_type_display_name_folder_and_slug() {
    let tools = json!([{"name": "Do It", "title": "Does it", "inputSchema": {}},
        {"name": "b", "inputSchema": {}, "annotations": {"title": "The b"}}, simple("c")]);
    let server_tools = server_tools("My.Server", Settings::default(), tools, Fake::echo());
    let all: Vec<String> =
        server_tools.entries().iter().map(|entry| serde_json::to_string(&entry.metadata()).unwrap()).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    {"tool_type":"mcp","display_name":"Does it","folder_path":"My.Server","slug":"my.server/do-it"}
    {"tool_type":"mcp","display_name":"The b","folder_path":"My.Server","slug":"my.server/b"}
    {"tool_type":"mcp","display_name":"c","folder_path":"My.Server","slug":"my.server/c"}
    "#);
}

#[test]
fn hints_are_copied_and_absent_ones_stay_absent() {
    let tools = json!([{"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": true, "destructiveHint": null}},
        {"name": "b", "inputSchema": {}, "annotations": {"readOnlyHint": false, "destructiveHint": true}},
        simple("c")]);
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), tools, Fake::echo())], Vec::new());
    let hints: Vec<_> = catalog.offered().iter().map(|tool| (tool.hints.read_only, tool.hints.destructive)).collect();
    assert_eq!(hints, [(Some(true), None), (Some(false), Some(true)), (None, None)]);
}

#[test]
fn bound_arguments_are_not_shown() {
    let tools = json!([{"name": "t", "inputSchema": {"type": "object", "required": ["key", "q"],
        "properties": {"key": {"type": "string"}, "q": {"type": "string"}}}}]);
    let bound = json!({"key": "k"}).as_object().unwrap().clone();
    let bindings = BTreeMap::from([("t".to_owned(), bound.clone()), ("u".to_owned(), bound)]);
    let settings = Settings { bindings, ..Settings::default() };
    let catalog = Catalog::new(vec![server_tools("s", settings, tools, Fake::echo())], Vec::new());
    let schema = &catalog.offered()[0].input_schema;
    assert_eq!(schema.as_str(), r#"{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}"#);
    assert_eq!(notes(&catalog), "s: bound arguments for `u`, which matches no tool");
}

#[test]
fn a_run_chooses_among_the_servers_tools_and_keeps_the_hosts_own() {
    let own = OwnTool::new("clock", "tells the time", json!({})).run_by(|_| async { Ok(ToolOutput::said("noon")) });
    let servers = ["a", "b"].map(|server| server_tools(server, Settings::default(), three(), Fake::echo()));
    let catalog = Catalog::new(servers.to_vec(), vec![own.unwrap()]);
    assert_eq!(names(&catalog).len(), 7);
    let chosen =
        catalog.choose(&choice(Some(&["search", "mcp__b__read_file"]), &[], &[("mcp__b__*", "of b"), ("x", "y")]));
    let offered: Vec<String> =
        chosen.offered().iter().map(|tool| format!("{}: {}", tool.name, tool.description)).collect();
    insta::assert_snapshot!(offered.join("\n"), @"
    mcp__a__search: does search
    mcp__b__search: of b
    mcp__b__read_file: of b
    clock: tells the time
    ");
    insta::assert_snapshot!(notes(&chosen), @"
    b: `search`: description overridden for this run
    b: `read_file`: description overridden for this run
    description override `x` matches no tool
    ");
    let none = catalog.choose(&choice(Some(&[]), &[], &[]));
    assert_eq!(names(&none), ["clock"]);
    assert_eq!(names(&catalog).len(), 7, "the catalog itself does not change");
}

#[test]
fn of_two_tools_with_one_name_the_first_stays_and_the_other_is_noted() {
    let first = server_tools("s", Settings::default(), json!([simple("t")]), Fake::echo());
    let catalog = Catalog::new(vec![Arc::clone(&first), first], Vec::new());
    assert_eq!(names(&catalog), ["mcp__s__t"]);
    assert_eq!(notes(&catalog), "s: `t`: left out: another tool has the name `mcp__s__t` too");
}

#[test]
fn a_bare_name_suggests_the_same_tool_of_both_servers() {
    let servers = ["a", "b"].map(|server| server_tools(server, Settings::default(), three(), Fake::echo()));
    let catalog = Catalog::new(servers.to_vec(), Vec::new());
    assert_eq!(catalog.get("mcp__a__search").unwrap().server.as_ref().unwrap().as_str(), "a");
    assert!(catalog.get("search").is_none());
    assert_eq!(catalog.nearest("search"), ["mcp__a__search", "mcp__b__search"]);
    assert_eq!(catalog.nearest("mcp__a__serach"), ["mcp__a__search"]);
    assert_eq!(catalog.nearest("mcp_a__search"), ["mcp__a__search"]);
    assert!(catalog.nearest("mcp_c__search").is_empty());
    assert_eq!(catalog.nearest("writefile"), ["mcp__a__write_file", "mcp__b__write_file"]);
    assert!(catalog.nearest("weather").is_empty());
    // A tool of another server is not a substitute.
    assert!(catalog.nearest("mcp__c__search").is_empty() && catalog.nearest("mcp__b__serach") == ["mcp__b__search"]);
}

#[test]
fn the_server_of_a_tool_is_found_although_it_is_not_connected() {
    let connected = server_tools("a", Settings::default(), three(), Fake::echo());
    let absent = |server: &str, tools: &[&str]| AbsentServer {
        server: server.parse().unwrap(),
        prospect: Prospect::Reconnecting,
        reason: "gone".to_owned(),
        tools: tools.iter().map(|tool| Arc::from(*tool)).collect(),
    };
    let down = vec![absent("a-long-one", &["mcp__cut__search_12345678"]), absent("b", &[]), absent("a__b", &[])];
    let catalog = Catalog::new(vec![connected], Vec::new()).with_absent(down).filter(|_| true);
    let server = |name: &str| catalog.absent_server(name).map(|absent| absent.server.to_string());
    assert_eq!(server("mcp__cut__search_12345678").as_deref(), Some("a-long-one"));
    assert_eq!(server("mcp__b__anything").as_deref(), Some("b"));
    assert_eq!(server("mcp__a__b__x").as_deref(), Some("a__b"), "the longest prefix counts");
    for name in ["mcp__a__unknown", "mcp__c__x", "search", "mcp__b"] {
        assert_eq!(server(name), None, "{name}");
    }
    assert_eq!(catalog.absent()[1].to_string(), "server `b` is down: gone; reconnecting");
}

#[test]
fn the_hosts_own_tools_cannot_use_the_prefix_of_servers() {
    let refusal = |name: &str, schema: Value| {
        OwnTool::new(name, "", schema).run_by(|_| async { Ok(ToolOutput::said("")) }).unwrap_err()
    };
    assert_eq!(refusal("mcp__github__x", json!({})), InvalidOwnTool::Reserved("mcp__github__x".to_owned()));
    assert_eq!(
        refusal("a b", json!({})).to_string(),
        "invalid tool name `a b`: expected 1 to 64 letters, digits, `_` and `-`"
    );
    assert!(matches!(refusal("x", json!({"type": "string"})), InvalidOwnTool::Schema { .. }));
}

#[test]
fn entries_share_their_tools_and_settings() {
    let tools: Vec<Value> = (0..500).map(|number| simple(&format!("tool_{number}"))).collect();
    let list = listed(&Value::Array(tools));
    let settings = Arc::new(Settings::default());
    let parts = ServerToolsParts {
        server: "s".parse().unwrap(),
        scope: wharf_fleet::Scope::User,
        transport: wharf_config::TransportKind::Stdio,
        settings: Arc::clone(&settings),
        instructions: None,
        tools: &list,
        hints: &StrictestHints::default(),
        executor: Fake::echo(),
    };
    let server_tools = Arc::new(ServerTools::new(parts));
    let catalog = Catalog::new(vec![Arc::clone(&server_tools)], Vec::new());
    for (entry, tool) in catalog.entries().iter().zip(&list.items) {
        assert!(Arc::ptr_eq(&entry.tool, tool) && Arc::ptr_eq(&entry.settings, &settings));
        assert!(Arc::ptr_eq(&entry.description, tool.description.as_ref().unwrap()));
    }
    assert!(std::mem::size_of::<wharf_fleet::Entry>() <= 256, "{}", std::mem::size_of::<wharf_fleet::Entry>());
}
