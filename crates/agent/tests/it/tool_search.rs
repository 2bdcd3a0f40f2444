//! Finding the right tool among those of many servers.

mod deferral;

use serde::Deserialize;
use serde_json::json;
use wharf_agent::Bm25;
use wharf_protocol::{Json, SearchableTool, ToolIndex, ToolRanking};

/// A tool of a public server. Its description, which belongs to others, is left out: finding tools is harder without.
#[derive(Deserialize)]
struct PublicTool {
    server: String,
    name: String,
    arguments: Vec<String>,
}

/// What a user wants, and the tools that do it, as `server/tool`.
#[derive(Deserialize)]
struct Question {
    question: String,
    tools: Vec<String>,
}

/// How many of the questions must have the right tool among the first five, and as the first one.
const LEAST_IN_FIVE: usize = 39;
const LEAST_FIRST: usize = 21;

fn index(tools: &[PublicTool]) -> Box<dyn ToolIndex> {
    let schemas: Vec<Json> = tools
        .iter()
        .map(|tool| {
            let properties: serde_json::Map<_, _> =
                tool.arguments.iter().map(|name| (name.clone(), json!({}))).collect();
            json!({"type": "object", "properties": properties}).into()
        })
        .collect();
    let mut searchable = tools.iter().zip(&schemas).map(|(tool, schema)| SearchableTool {
        name: &tool.name,
        server: Some(&tool.server),
        description: "",
        input_schema: schema,
    });
    Bm25.index(&mut searchable)
}

fn public_tools() -> Vec<PublicTool> {
    serde_json::from_str(include_str!("tool_search/tools.json")).unwrap()
}

#[test]
fn most_of_60_hard_questions_find_the_right_tool_among_the_first_five() {
    let tools = public_tools();
    let questions: Vec<Question> = serde_json::from_str(include_str!("tool_search/questions.json")).unwrap();
    assert_eq!((tools.len(), questions.len()), (333, 60));
    let index = index(&tools);
    let mut first = 0;
    let mut missed = Vec::new();
    for Question { question, tools: wanted } in &questions {
        let found = index.search(question, 5);
        let names: Vec<String> = found.iter().map(|at| format!("{}/{}", tools[*at].server, tools[*at].name)).collect();
        first += usize::from(names.first().is_some_and(|name| wanted.contains(name)));
        if !names.iter().any(|name| wanted.contains(name)) {
            missed.push(format!("{question}\n  wanted {wanted:?}\n  found {names:?}"));
        }
    }
    let in_five = questions.len() - missed.len();
    let report = format!("first: {first}, among five: {in_five} of {}\n{}", questions.len(), missed.join("\n"));
    assert!(in_five >= LEAST_IN_FIVE && first >= LEAST_FIRST, "{report}");
}

#[test]
fn the_name_of_a_tool_finds_it_first() {
    let tools = public_tools();
    let index = index(&tools);
    for (at, tool) in tools.iter().enumerate() {
        let query = format!("{} {}", tool.server, tool.name);
        assert!(index.search(&query, 5).contains(&at), "{query}");
    }
}

#[test]
fn any_query_is_answered() {
    let tools = public_tools();
    let index = index(&tools);
    for query in ["", " ", "the of and", "qzxv", "日本語", "%%%", "a\u{0}b"] {
        assert!(index.search(query, 5).len() <= 5, "{query}");
    }
    assert_eq!(index.search("file", 0), Vec::<usize>::new());
    assert_eq!(index.search("file", 1_000).len(), index.search("file", 999).len());
    assert!(Bm25.index(&mut std::iter::empty()).search("file", 5).is_empty());
}
