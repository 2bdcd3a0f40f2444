//! `wharf context`: how many tokens the servers' tools cost in a model's context.

mod cost;

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::agent::middleware::ToolSearch;
use wharf::agent::{TOKENIZER, ToolBudget};
use wharf::fleet::{Fleet, SEARCH_TOOLS, ServerStatus, StateReason};

use crate::complete;
use crate::config::{FleetLifetime, ServerSelection, Setup};
use crate::exit::Exit;
use crate::failure;
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::term::{self, SETTLE_LIMIT, StatusLine};
use cost::{FleetCost, ServerCost, ToolCost};

/// How many of the most expensive tools are listed.
const MOST_EXPENSIVE: usize = 5;
/// The share of the window, in percent, above which a hint suggests fewer tools.
const HIGH_SHARE: u64 = 10;
/// How much of a tool's name a table shows.
const NAME_CHARS: usize = 40;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Estimates the tokens of OpenAI's o200k_base, typically within 5 % per server, over each tool's name, \
        description and arguments as one JSON object, and over the servers' instructions. Other models' tokenizers differ, \
        and each API adds some text of its own. With --verbose, or for one server, lists each tool. Counts what \
        the first request of a run has: if the tools take more than 10 % of the window, a model has to search for most of \
        them. For one server, counts all of its tools.\n\n\
        Examples:\n  wharf context\n  wharf context github --window 128000"
)]
pub(crate) struct Context {
    /// Only count this server, and list each of its tools
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: Option<String>,
    /// Size of the model's context window
    #[arg(long, value_name = "TOKENS", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,
    /// Count all tools, also those that a model would have to search for
    #[arg(long)]
    all_tools: bool,
}

pub(crate) async fn run(globals: &Globals, context: Context) -> Exit {
    let selection = context.server.as_deref().map_or(ServerSelection::All, ServerSelection::One);
    let opened = async { Setup::load_for(globals, selection).await?.open(selection, FleetLifetime::OneShot) };
    let fleet = match opened.await {
        Ok(fleet) => fleet,
        Err(error) => return term::usage_error(&error),
    };
    guarded(&fleet, async {
        let progress = StatusLine::new(globals.quiet);
        progress.show("connecting");
        fleet.settled(SETTLE_LIMIT).await;
        progress.show("counting");
        let counted = tokio::task::spawn_blocking({
            let fleet = fleet.clone();
            let counts_all = context.all_tools || context.server.is_some();
            let budget = ToolBudget::of_window(context.window, ToolSearch::default().trigger_fraction);
            let budget = if counts_all { ToolBudget(u64::MAX) } else { budget };
            move || cost::of(&fleet, budget)
        });
        let cost = counted.await.unwrap_or_default();
        drop(progress);
        let window = context.window;
        let written = if globals.json {
            term::json(&JsonContext::new(&fleet, &cost, window)).await
        } else {
            for status in fleet.statuses().iter().filter(|status| fleet.session(&status.name).is_none()) {
                failure::print_status(status, globals);
            }
            if cost.servers.iter().any(|cost| cost.is_connected) {
                term::out(text(&cost, window, globals.is_verbose() || context.server.is_some())).await
            } else {
                Exit::Done
            }
        };
        let total = cost.tokens();
        if total.saturating_mul(100) > window.saturating_mul(HIGH_SHARE) && !globals.quiet {
            let share = share(total, window);
            term::hint(&format!(
                "the tools take {share} of the window; allow only those you need in a server's entry: \
                 \"tools\": {{\"allow\": [\"search_*\"]}}"
            ));
        }
        let statuses = fleet.statuses();
        let exits = statuses.iter().filter(|status| status.required).map(Exit::from);
        exits.max().unwrap_or(Exit::Done).max(written)
    })
    .await
}

fn text(cost: &FleetCost, window: u64, each: bool) -> String {
    let costs = &cost.servers;
    let row = |name: &str, tools: u64, tokens: u64| {
        vec![name.to_owned(), term::grouped(tools), term::grouped(tokens), share(tokens, window)]
    };
    let count = |cost: &ServerCost| cost.offered().count() as u64;
    let mut rows: Vec<Vec<String>> = costs
        .iter()
        .filter(|cost| cost.is_connected)
        .map(|cost| row(cost.server.as_str(), count(cost), cost.tokens()))
        .collect();
    if cost.search > 0 {
        rows.push(row(SEARCH_TOOLS, 1, cost.search));
    }
    let searching = u64::from(cost.search > 0);
    rows.push(row("total", costs.iter().map(count).sum::<u64>() + searching, cost.tokens()));
    let mut parts = vec![table(&["server", "tools", "est. tokens", "share"], rows, 1)];
    let instructions: Vec<String> = costs.iter().filter_map(instructions_line).collect();
    let saved: Vec<String> = costs.iter().filter_map(deferred_line).chain(costs.iter().flat_map(saved_lines)).collect();
    let tools = most_expensive(costs);
    if each && !tools.is_empty() {
        parts.push(tool_table(&tools));
    } else if !tools.is_empty() {
        parts.push(format!("Most expensive tools:\n{}", tool_table(&tools[..tools.len().min(MOST_EXPENSIVE)])));
    }
    parts.extend([instructions, saved].into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n")));
    parts.join("\n\n")
}

/// Returns all tools of the first request with their servers, the most expensive first.
fn most_expensive(costs: &[ServerCost]) -> Vec<(&ServerCost, &ToolCost)> {
    let mut tools: Vec<_> = costs.iter().flat_map(|cost| cost.offered().map(move |tool| (cost, tool))).collect();
    tools.sort_by_key(|(_, tool)| std::cmp::Reverse(tool.tokens));
    tools
}

fn tool_table(tools: &[(&ServerCost, &ToolCost)]) -> String {
    let row = |(cost, tool): &(&ServerCost, &ToolCost)| {
        let numbers = [tool.tokens, tool.description, tool.arguments].map(term::grouped);
        [vec![cost.server.to_string(), term::brief(&term::name(&tool.tool), NAME_CHARS)], numbers.to_vec()].concat()
    };
    let rows = tools.iter().map(row).collect();
    table(&["server", "tool", "est. tokens", "description", "arguments"], rows, 2)
}

fn instructions_line(cost: &ServerCost) -> Option<String> {
    (cost.instructions > 0)
        .then(|| format!("{}: includes {} tokens of instructions", cost.server, term::grouped(cost.instructions)))
}

fn deferred_line(cost: &ServerCost) -> Option<String> {
    let tokens: u64 = cost.deferred().map(|tool| tool.tokens).sum();
    let count = cost.deferred().count();
    let (tools, tokens) = (term::counted(count, "tool"), term::grouped(tokens));
    (count > 0).then(|| format!("{}: {tools} behind `{SEARCH_TOOLS}`, which saves {tokens} tokens", cost.server))
}

fn saved_lines(cost: &ServerCost) -> Vec<String> {
    let saved = &cost.saved;
    let server = &cost.server;
    let mut lines = Vec::new();
    if saved.left_out > 0 {
        let tools = term::counted(saved.left_out, "tool");
        let tokens = term::grouped(saved.by_leaving_out);
        lines.push(format!("{server}: {tools} excluded by the configuration, which saves {tokens} tokens"));
    }
    if saved.too_large > 0 {
        let tools = term::counted(saved.too_large, "tool");
        let whose = if saved.too_large == 1 { "its" } else { "their" };
        lines.push(format!("{server}: {tools} left out for {whose} size; see `wharf tools {server}`"));
    }
    if saved.cut > 0 {
        let texts = term::counted(saved.cut, "text");
        let tokens = term::grouped(saved.by_cutting);
        lines.push(format!("{server}: {texts} cut, which saves about {tokens} tokens"));
    }
    lines
}

/// Returns a percentage, for example `23.1 %`.
fn share(tokens: u64, window: u64) -> String {
    let tenths = tokens.saturating_mul(1000).saturating_add(window / 2) / window;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Renders a table whose columns from `first` on are right-aligned numbers.
fn table(head: &[&str], mut rows: Vec<Vec<String>>, first: usize) -> String {
    for (column, title) in head.iter().enumerate().skip(first) {
        let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(title.len());
        for row in &mut rows {
            row[column] = format!("{:>width$}", row[column]);
        }
    }
    term::table(head, rows)
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonContext<'a> {
    version: u32,
    tokenizer: &'static str,
    window: u64,
    tokens: u64,
    /// The tokens of the search tool, if tools are deferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    search_tool: Option<u64>,
    servers: Vec<JsonServer<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonServer<'a> {
    name: &'a str,
    state: &'static str,
    reason: Option<String>,
    tokens: u64,
    instructions: u64,
    tools: &'a [ToolCost],
    saved: &'a cost::Saved,
}

impl<'a> JsonContext<'a> {
    fn new(fleet: &Fleet, cost: &'a FleetCost, window: u64) -> Self {
        let server = |cost: &'a ServerCost| {
            let status: Option<ServerStatus> = fleet.status(&cost.server);
            JsonServer {
                name: cost.server.as_str(),
                state: status.as_ref().map_or("failed", |status| status.state.as_str()),
                reason: status.and_then(|status| status.reason.as_ref().map(StateReason::to_string)),
                tokens: cost.tokens(),
                instructions: cost.instructions,
                tools: &cost.tools,
                saved: &cost.saved,
            }
        };
        let servers = cost.servers.iter().map(server).collect();
        let search_tool = (cost.search > 0).then_some(cost.search);
        Self { version: 1, tokenizer: TOKENIZER, window, tokens: cost.tokens(), search_tool, servers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 46_120, 1_234_567].map(term::grouped), ["0", "999", "1,000", "46,120", "1,234,567"]);
        assert_eq!([share(0, 200_000), share(46_120, 200_000), share(5, 1)], ["0.0 %", "23.1 %", "500.0 %"]);
    }
}
