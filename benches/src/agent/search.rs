//! The search in many tools.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wharf::agent::Bm25;
use wharf::{Json, SearchableTool, ToolRanking as _};

use crate::measure::median;

/// Number of tools.
const TOOLS: usize = 25_000;
/// Time limit of one search.
const SEARCH_LIMIT: Duration = Duration::from_millis(5);
/// Words of which names and descriptions consist.
const VERBS: [&str; 10] = ["create", "delete", "list", "get", "update", "search", "send", "move", "export", "archive"];
const NOUNS: [&str; 25] = [
    "issue", "file", "branch", "customer", "invoice", "message", "channel", "record", "table", "pod", "event", "page",
    "report", "ticket", "user", "build", "image", "order", "payment", "note", "task", "commit", "query", "alert",
    "log",
];
const QUERIES: [&str; 4] = [
    "send an invoice to a customer who has not paid",
    "why did the last build fail",
    "list all open issues of a user and export them as a table",
    "unheardof qwertyuiop words",
];

/// Prints the time of a search; returns whether the bar is met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
pub(super) fn measure() -> bool {
    let word = |words: &[&'static str], number: usize| words[number % words.len()];
    let named = |number: usize| {
        let (verb, noun) = (word(&VERBS, number), word(&NOUNS, number / VERBS.len()));
        let description = format!(
            "{verb}s the {noun} with the number {number} of a {}, and returns the {} that belongs to it, or an error if \
             there is no such {noun}.",
            word(&NOUNS, number / 7),
            word(&NOUNS, number / 11)
        );
        (format!("{verb}_{noun}_{number}"), description)
    };
    let tools: Vec<(String, String)> = (0..TOOLS).map(named).collect();
    let schema = Json::from(json!({"type": "object", "properties": {"id": {}, "query": {}, "limit": {}}}));
    let mut searchable = tools.iter().map(|(name, description)| SearchableTool {
        name,
        server: Some("server"),
        description,
        input_schema: &schema,
    });
    let began = Instant::now();
    let index = Bm25.index(&mut searchable);
    let built = began.elapsed();
    let mut slowest = Duration::ZERO;
    for query in QUERIES {
        let times = (0..50).map(|_| {
            let began = Instant::now();
            assert!(index.search(query, 5).len() <= 5);
            began.elapsed()
        });
        slowest = slowest.max(median(times));
    }
    println!(
        "a search in {TOOLS} tools: {:.2} ms, of the slowest of {} queries (bar: ≤ {} ms); their index: {:.0} ms",
        slowest.as_secs_f64() * 1e3,
        QUERIES.len(),
        SEARCH_LIMIT.as_millis(),
        built.as_secs_f64() * 1e3
    );
    slowest <= SEARCH_LIMIT
}
