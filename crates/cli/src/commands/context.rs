//! `wharf context`: what the servers' tools cost in a model's context, in tokens.

mod cost;
mod count;

use serde::Serialize;
use wharf::fleet::{Fleet, ServerStatus, StateReason};

use crate::args::Globals;
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::render;
use crate::render::Transient;
use crate::setup::{How, LONGEST, Setup, Which};
use cost::{ServerCost, ToolCost};

/// How many tools are named that cost the most.
const DEAREST: usize = 5;
/// The part of the window, in percent, from which on it is worth leaving tools out.
const MUCH: u64 = 10;
/// How much of a tool's name a table shows.
const NAME: usize = 40;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Token counts are estimates of what OpenAI's o200k_base tokenizer counts; for the tools of a server they are \
        typically within 5 %. They cover what a model sees of each tool (its name, description and arguments as one JSON \
        object) and the servers' instructions. Tokenizers of other models differ, and each model's API adds text of its \
        own.\n\n\
        Examples:\n  wharf context\n  wharf context github --window 128000"
)]
pub(crate) struct Context {
    /// Only this server, and each of its tools
    pub(crate) server: Option<String>,
    /// How many tokens the context of the model holds
    #[arg(long, value_name = "TOKENS", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) window: u64,
}

pub(crate) async fn run(globals: &Globals, context: Context) -> Exit {
    let which = context.server.as_deref().map_or(Which::All, Which::One);
    let opened = async { Setup::load_for(globals, which).await?.open(which, How::Once) };
    let fleet = match opened.await {
        Ok(fleet) => fleet,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    guarded(&fleet, async {
        let mut doing = Transient::new(globals.quiet);
        doing.show("connecting");
        fleet.settled(LONGEST).await;
        doing.show("counting");
        let counted = tokio::task::spawn_blocking({
            let fleet = fleet.clone();
            move || cost::of(&fleet)
        });
        let costs = counted.await.unwrap_or_default();
        drop(doing);
        let window = context.window;
        let written = if globals.json {
            render::json(&Shown::new(&fleet, &costs, window)).await
        } else {
            for status in fleet.statuses().iter().filter(|status| fleet.session(&status.name).is_none()) {
                render::status(status, globals);
            }
            // Of servers that are not there nothing is known, and that has been told.
            if costs.iter().any(|cost| cost.is_there) {
                render::out(text(&costs, window, globals.verbose || context.server.is_some())).await
            } else {
                Exit::Done
            }
        };
        let total = total(&costs);
        if total.saturating_mul(100) > window.saturating_mul(MUCH) && !globals.quiet {
            let share = share(total, window);
            render::hint(&format!(
                "the tools take {share} of the window; name those you need in a server's entry: \
                 \"tools\": {{\"allow\": [\"search_*\"]}}"
            ));
        }
        let statuses = fleet.statuses();
        let exits = statuses.iter().filter(|status| status.required).map(Exit::from);
        exits.max().unwrap_or(Exit::Done).max(written)
    })
    .await
}

fn total(costs: &[ServerCost]) -> u64 {
    costs.iter().map(ServerCost::tokens).sum()
}

fn text(costs: &[ServerCost], window: u64, each: bool) -> String {
    let row = |name: &str, tools: u64, tokens: u64| {
        vec![name.to_owned(), grouped(tools), grouped(tokens), share(tokens, window)]
    };
    let count = |cost: &ServerCost| cost.tools.len() as u64;
    let mut rows: Vec<Vec<String>> = costs
        .iter()
        .filter(|cost| cost.is_there)
        .map(|cost| row(cost.server.as_str(), count(cost), cost.tokens()))
        .collect();
    rows.push(row("total", costs.iter().map(count).sum(), total(costs)));
    let mut parts = vec![table(&["server", "tools", "est. tokens", "share"], rows, 1)];
    let instructions: Vec<String> = costs.iter().filter_map(instructions_told).collect();
    let saved: Vec<String> = costs.iter().flat_map(saved_told).collect();
    let tools = dearest(costs);
    if each && !tools.is_empty() {
        parts.push(table_of(&tools));
    } else if !tools.is_empty() {
        parts.push(format!("The most expensive tools:\n{}", table_of(&tools[..tools.len().min(DEAREST)])));
    }
    parts.extend([instructions, saved].into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n")));
    parts.join("\n\n")
}

/// All tools with their servers, the most expensive first.
fn dearest(costs: &[ServerCost]) -> Vec<(&ServerCost, &ToolCost)> {
    let mut tools: Vec<_> = costs.iter().flat_map(|cost| cost.tools.iter().map(move |tool| (cost, tool))).collect();
    tools.sort_by_key(|(_, tool)| std::cmp::Reverse(tool.tokens));
    tools
}

fn table_of(tools: &[(&ServerCost, &ToolCost)]) -> String {
    let row = |(cost, tool): &(&ServerCost, &ToolCost)| {
        let numbers = [tool.tokens, tool.description, tool.arguments].map(grouped);
        [vec![cost.server.to_string(), render::brief(&tool.tool, NAME)], numbers.to_vec()].concat()
    };
    let rows = tools.iter().map(row).collect();
    table(&["server", "tool", "est. tokens", "description", "arguments"], rows, 2)
}

fn instructions_told(cost: &ServerCost) -> Option<String> {
    (cost.instructions > 0)
        .then(|| format!("{}: {} of its tokens are its instructions", cost.server, grouped(cost.instructions)))
}

fn saved_told(cost: &ServerCost) -> Vec<String> {
    let (saved, server) = (&cost.saved, &cost.server);
    let mut told = Vec::new();
    if saved.left_out > 0 {
        let (noun, tokens) = (plural(saved.left_out, "tool", "tools"), grouped(saved.by_leaving_out));
        told.push(format!("{server}: {noun} left out by the configuration would cost {tokens} tokens more"));
    }
    if saved.cut > 0 {
        let (noun, tokens) = (plural(saved.cut, "text was cut", "texts were cut"), grouped(saved.by_cutting));
        told.push(format!("{server}: {noun}, which saves about {tokens} tokens"));
    }
    told
}

/// A count and its noun.
fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// For example `46,120`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let group = |(index, digit): (usize, char)| {
        let comma = index > 0 && (digits.len() - index).is_multiple_of(3);
        if comma { format!(",{digit}") } else { digit.to_string() }
    };
    digits.chars().enumerate().map(group).collect()
}

/// For example `23.1 %`, rounded.
fn share(tokens: u64, window: u64) -> String {
    let tenths = tokens.saturating_mul(1000).saturating_add(window / 2) / window;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// A table whose columns from `first` on are numbers, which stand under each other.
fn table(head: &[&str], mut rows: Vec<Vec<String>>, first: usize) -> String {
    for (column, title) in head.iter().enumerate().skip(first) {
        let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(title.len());
        for row in &mut rows {
            row[column] = format!("{:>width$}", row[column]);
        }
    }
    render::table(head, rows)
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    tokenizer: &'static str,
    window: u64,
    tokens: u64,
    servers: Vec<ShownServer<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownServer<'a> {
    name: &'a str,
    state: &'static str,
    reason: Option<String>,
    tokens: u64,
    instructions: u64,
    tools: &'a [ToolCost],
    saved: &'a cost::Saved,
}

impl<'a> Shown<'a> {
    fn new(fleet: &Fleet, costs: &'a [ServerCost], window: u64) -> Self {
        let shown = |cost: &'a ServerCost| {
            let status: Option<ServerStatus> = fleet.status(&cost.server);
            ShownServer {
                name: cost.server.as_str(),
                state: status.as_ref().map_or("failed", |status| status.state.as_str()),
                reason: status.and_then(|status| status.reason.as_ref().map(StateReason::to_string)),
                tokens: cost.tokens(),
                instructions: cost.instructions,
                tools: &cost.tools,
                saved: &cost.saved,
            }
        };
        let servers = costs.iter().map(shown).collect();
        Self { version: 1, tokenizer: count::TOKENIZER, window, tokens: total(costs), servers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_can_be_read() {
        assert_eq!([0, 999, 1_000, 46_120, 1_234_567].map(grouped), ["0", "999", "1,000", "46,120", "1,234,567"]);
        assert_eq!([share(0, 200_000), share(46_120, 200_000), share(5, 1)], ["0.0 %", "23.1 %", "500.0 %"]);
    }
}
