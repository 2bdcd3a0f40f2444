//! What a model is offered, and what people are told about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_config::Pattern;
use wharf_config::ToolChoice;
use wharf_fleet::Settings;
use wharf_fleet::catalog::{Catalog, InvalidOwnTool, OwnTool, ServerTools, ServerToolsParts};
use wharf_protocol::ToolOutput;

use crate::dispatch_kit::{Fake, listed, shelf};

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
    Catalog::new(vec![shelf("files", settings, three(), Fake::echo())], Vec::new())
}

#[test]
fn no_filter_means_all_tools_and_an_empty_one_means_none() {
    assert_eq!(names(&filtered(choice(None, &[], &[]))).len(), 3);
    assert!(names(&filtered(choice(Some(&[]), &[], &[]))).is_empty());
}

#[test]
fn a_filter_takes_own_names_full_names_and_stars_and_what_is_rejected_goes_after_that() {
    let all = choice(Some(&["search", "mcp__files__read_*"]), &[], &[]);
    assert_eq!(names(&filtered(all)), ["mcp__files__search", "mcp__files__read_file"]);
    assert_eq!(names(&filtered(choice(Some(&["*_file"]), &["write_file"], &[]))), ["mcp__files__read_file"]);
    assert_eq!(names(&filtered(choice(None, &["mcp__files"], &[]))), Vec::<&str>::new());
    let expression = choice(Some(&["/(read|write)_file/"]), &["/mcp__files__w.+/"], &[]);
    assert_eq!(names(&filtered(expression)), ["mcp__files__read_file"]);
}

#[test]
fn code_chooses_by_what_the_model_would_be_shown() {
    let catalog = filtered(choice(None, &["write_file"], &[("search", "finds things")]));
    let kept = catalog.keep(|tool| &*tool.name == "mcp__files__search" && &*tool.description == "finds things");
    assert_eq!(names(&kept), ["mcp__files__search"]);
    assert!(kept.get("mcp__files__read_file").is_none() && catalog.get("mcp__files__read_file").is_some());
}

#[test]
fn a_name_that_means_no_tool_is_told_with_what_may_have_been_meant() {
    let slips = choice(Some(&["serch", "read_file"]), &["mail"], &[("write_fil", "writes")]);
    insta::assert_snapshot!(notes(&filtered(slips)), @"
    files: a description is given for `write_fil`, which is no tool here; did you mean `write_file`?
    files: the tool filter names `mail`, which is no tool here
    files: the tool filter names `serch`, which is no tool here; did you mean `search`?
    ");
}

#[test]
fn descriptions_are_overridden_first_and_capped_then() {
    let long = "é".repeat(3000);
    let tools = json!([{"name": "a", "description": long, "inputSchema": {}}, {"name": "b", "inputSchema": {}},
        {"name": "c", "description": " ", "inputSchema": {}}, simple("d")]);
    let tools_choice = choice(None, &[], &[("b", &long), ("mcp__s__d", "other words")]);
    let settings = Settings { tools: tools_choice, ..Settings::default() };
    let catalog = Catalog::new(vec![shelf("s", settings, tools, Fake::echo())], Vec::new());
    let words: Vec<&str> = catalog.offered().iter().map(|tool| &*tool.description).collect();
    for cut in &words[..2] {
        assert!(cut.chars().count() == 2048 && cut.ends_with("… [cut]"), "{cut}");
    }
    assert_eq!(words[2..], ["Tool which performs c", "other words"]);
    insta::assert_snapshot!(notes(&catalog), @"
    s: `a`: its schema is shown changed: it did not say that it is for an object; `properties` was added
    s: `a`: its description was cut to 2048 characters
    s: `b`: its schema is shown changed: it did not say that it is for an object; `properties` was added
    s: `b`: its description is overridden
    s: `b`: its description was cut to 2048 characters
    s: `c`: its schema is shown changed: it did not say that it is for an object; `properties` was added
    s: `d`: its description is overridden
    ");
}

#[test]
fn what_a_server_says_about_itself_is_capped_too() {
    let none = wharf_protocol::Listed::default();
    let parts = |instructions| ServerToolsParts {
        server: "s".parse().unwrap(),
        scope: wharf_fleet::Scope::User,
        transport: wharf_config::TransportKind::Stdio,
        settings: Arc::default(),
        instructions,
        tools: &none,
        callee: Fake::echo(),
    };
    let long = "x".repeat(60_000);
    let catalog = Catalog::new(
        vec![Arc::new(ServerTools::new(parts(Some(&long)))), Arc::new(ServerTools::new(parts(None)))],
        Vec::new(),
    );
    let told: Vec<usize> = catalog.instructions().map(|(_, words)| words.chars().count()).collect();
    assert_eq!(told, [2048]);
    assert_eq!(notes(&catalog), "s: its instructions were cut to 2048 characters");
}

#[test]
fn one_bad_schema_costs_its_tool_and_nothing_else() {
    let tools = json!([simple("good"), {"name": "text", "inputSchema": {"type": "string"}}, {"name": "none"},
        {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}},
        {"name": "either", "inputSchema": {"oneOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {}}, "required": ["b"]}]}}]);
    let catalog = Catalog::new(vec![shelf("s", Settings::default(), tools, Fake::echo())], Vec::new());
    assert_eq!(names(&catalog), ["mcp__s__good", "mcp__s__either"]);
    insta::assert_snapshot!(notes(&catalog), @r#"
    s: `none`: it is left out: it has no `inputSchema`
    s: `text`: it is left out: its schema cannot be used: it is for "string", and arguments are an object
    s: `remote`: it is left out: its schema cannot be used: at `/properties/a`: it refers to `http://127.0.0.1:9/x`, and nothing is fetched
    s: `either`: its schema is shown changed: `oneOf` at its root was merged
    "#);
}

#[test]
fn the_servers_own_schema_stays_byte_equal_and_is_shared_where_it_can_be_shown() {
    let raw = r#"{"name":"t","inputSchema":{ "type":"object", "properties":{"b":{},"a":{"minimum":1e0}}}}"#;
    let tools = json!([simple("other")]);
    let mut list = listed(&tools);
    list.add_page(&[wharf_protocol::Json::parse(raw).unwrap()]);
    let shelf = ServerTools::new(ServerToolsParts {
        server: "s".parse().unwrap(),
        scope: wharf_fleet::Scope::User,
        transport: wharf_config::TransportKind::Stdio,
        settings: Arc::default(),
        instructions: None,
        tools: &list,
        callee: Fake::echo(),
    });
    let entry = &shelf.entries()[1];
    assert_eq!(entry.tool.input_schema.as_str(), r#"{ "type":"object", "properties":{"b":{},"a":{"minimum":1e0}}}"#);
    let (ours, theirs) = (entry.offered().input_schema, &entry.tool.raw);
    assert!(theirs.as_str().as_bytes().as_ptr_range().contains(&ours.as_str().as_ptr()), "the text was copied");
}

#[test]
fn a_tool_is_listed_with_its_kind_its_name_for_people_its_place_and_its_slug() {
    let tools = json!([{"name": "Do It", "title": "Does it", "inputSchema": {}},
        {"name": "b", "inputSchema": {}, "annotations": {"title": "The b"}}, simple("c")]);
    let shelf = shelf("My.Server", Settings::default(), tools, Fake::echo());
    let all: Vec<String> =
        shelf.entries().iter().map(|entry| serde_json::to_string(&entry.metadata()).unwrap()).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    {"tool_type":"mcp","display_name":"Does it","folder_path":"My.Server","slug":"my.server/do-it"}
    {"tool_type":"mcp","display_name":"The b","folder_path":"My.Server","slug":"my.server/b"}
    {"tool_type":"mcp","display_name":"c","folder_path":"My.Server","slug":"my.server/c"}
    "#);
}

#[test]
fn hints_are_taken_over_and_what_is_not_said_is_not_made_up() {
    let tools = json!([{"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": true, "destructiveHint": null}},
        {"name": "b", "inputSchema": {}, "annotations": {"readOnlyHint": false, "destructiveHint": true}},
        simple("c")]);
    let catalog = Catalog::new(vec![shelf("s", Settings::default(), tools, Fake::echo())], Vec::new());
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
    let catalog = Catalog::new(vec![shelf("s", settings, tools, Fake::echo())], Vec::new());
    let schema = &catalog.offered()[0].input_schema;
    assert_eq!(schema.as_str(), r#"{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}"#);
    assert_eq!(notes(&catalog), "s: arguments are set for `u`, which is no tool here");
}

#[test]
fn a_run_chooses_among_the_servers_tools_and_keeps_the_hosts_own() {
    let own = OwnTool::new("clock", "tells the time", json!({})).run_by(|_| async { Ok(ToolOutput::said("noon")) });
    let shelves = ["a", "b"].map(|server| shelf(server, Settings::default(), three(), Fake::echo()));
    let catalog = Catalog::new(shelves.to_vec(), vec![own.unwrap()]);
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
    b: `search`: its description is overridden for this run
    b: `read_file`: its description is overridden for this run
    a description is given for `x`, which is no tool here
    ");
    let none = catalog.choose(&choice(Some(&[]), &[], &[]));
    assert_eq!(names(&none), ["clock"]);
    assert_eq!(names(&catalog).len(), 7, "the catalog itself does not change");
}

#[test]
fn of_two_tools_with_one_name_the_first_stays_and_the_other_is_told_of() {
    let first = shelf("s", Settings::default(), json!([simple("t")]), Fake::echo());
    let catalog = Catalog::new(vec![Arc::clone(&first), first], Vec::new());
    assert_eq!(names(&catalog), ["mcp__s__t"]);
    assert_eq!(notes(&catalog), "s: `t`: it is left out: another tool is called `mcp__s__t` too");
}

#[test]
fn two_servers_with_one_tool_are_both_there_and_a_name_alone_finds_them_both() {
    let shelves = ["a", "b"].map(|server| shelf(server, Settings::default(), three(), Fake::echo()));
    let catalog = Catalog::new(shelves.to_vec(), Vec::new());
    assert_eq!(catalog.get("mcp__a__search").unwrap().server.as_ref().unwrap().as_str(), "a");
    assert!(catalog.get("search").is_none());
    assert_eq!(catalog.nearest("search"), ["mcp__a__search", "mcp__b__search"]);
    assert_eq!(catalog.nearest("mcp__a__serach"), ["mcp__a__search"]);
    assert_eq!(catalog.nearest("writefile"), ["mcp__a__write_file", "mcp__b__write_file"]);
    assert!(catalog.nearest("weather").is_empty());
}

#[test]
fn a_tool_of_the_hosts_own_cannot_pass_for_a_servers() {
    let refusal = |name: &str, schema: Value| {
        OwnTool::new(name, "", schema).run_by(|_| async { Ok(ToolOutput::said("")) }).unwrap_err()
    };
    assert_eq!(refusal("mcp__github__x", json!({})), InvalidOwnTool::Reserved("mcp__github__x".to_owned()));
    assert_eq!(
        refusal("a b", json!({})).to_string(),
        "`a b` cannot name a tool; use 1 to 64 letters, digits, `_` and `-`"
    );
    assert!(matches!(refusal("x", json!({"type": "string"})), InvalidOwnTool::Schema { .. }));
}

#[test]
fn many_tools_share_what_they_can() {
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
        callee: Fake::echo(),
    };
    let shelf = Arc::new(ServerTools::new(parts));
    let catalog = Catalog::new(vec![Arc::clone(&shelf)], Vec::new());
    for (entry, tool) in catalog.entries().iter().zip(&list.items) {
        assert!(Arc::ptr_eq(&entry.tool, tool) && Arc::ptr_eq(&entry.settings, &settings));
        assert!(Arc::ptr_eq(&entry.description, tool.description.as_ref().unwrap()));
    }
    assert!(std::mem::size_of::<wharf_fleet::Entry>() <= 256, "{}", std::mem::size_of::<wharf_fleet::Entry>());
}
