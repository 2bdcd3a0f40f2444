//! Checks of assertions. Each returns why it does not hold.

use std::collections::BTreeMap;

use super::arguments::shown;
use super::calls::{Call, calls, number};
use super::{ArgumentMatch, Assertion, OutputText, ToolPattern, TraceFacts};
use crate::problem::quoted;

/// What was found instead.
type Reason = String;

pub(super) fn check(assertion: &Assertion, facts: &TraceFacts<'_>) -> Result<(), Reason> {
    expect_known_tools(assertion, facts)?;
    let calls = calls(facts);
    match assertion {
        Assertion::Called { tool, arguments } => called(tool, arguments, &calls),
        Assertion::NotCalled { tool, arguments } => {
            match of(tool, &calls).find(|call| arguments.fits(&call.arguments)) {
                None => Ok(()),
                Some(call) => Err(format!("`{}` was called with {}", shown_name(call.name), shown(&call.arguments))),
            }
        }
        Assertion::MaxCalls(max) => expect_count(calls.len(), None, Some(*max), &calls),
        Assertion::MinCalls(min) => expect_count(calls.len(), Some(*min), None, &calls),
        Assertion::Count { tool, at_least, at_most } => {
            expect_count(of(tool, &calls).count(), *at_least, *at_most, &calls)
        }
        Assertion::Order { tools, strict } => order(tools, *strict, &calls),
        Assertion::SuccessRate { tool, at_least } => success_rate(tool, *at_least, &calls),
        Assertion::OutputMatches { tool, text } => output_matches(tool, text, &calls),
        Assertion::PathEfficiency { optimal, at_least } => path_efficiency(*optimal, *at_least, calls.len()),
    }
}

/// Fails if a tool is named that was neither offered nor called.
pub(super) fn expect_known_tools(assertion: &Assertion, facts: &TraceFacts<'_>) -> Result<(), Reason> {
    let tools = assertion.tools();
    // Without tools, or without a record of the offered ones, there is nothing to compare.
    if tools.is_empty() || facts.tools.is_none() {
        return Ok(());
    }
    let calls = calls(facts);
    tools.iter().try_for_each(|tool| expect_known(tool, &calls, facts))
}

fn of<'a, 'b>(tool: &'a ToolPattern, calls: &'a [Call<'b>]) -> impl Iterator<Item = &'a Call<'b>> {
    calls.iter().filter(move |call| call.is_of(tool))
}

/// Fails if a single tool is named that was neither offered nor called: a misspelled name must not make `not_called` hold.
/// If the offered tools are not on record, every name may be one of them.
fn expect_known(tool: &ToolPattern, calls: &[Call<'_>], facts: &TraceFacts<'_>) -> Result<(), Reason> {
    let Some(offered) = facts.tools else { return Ok(()) };
    let is_known =
        !tool.is_exact() || offered.tools.iter().any(|offered| tool.fits(offered)) || of(tool, calls).next().is_some();
    if is_known {
        return Ok(());
    }
    let names = offered.tools.iter().flat_map(|offered| [offered.tool.as_str(), offered.name.as_str()]);
    let hint = match wharf_protocol::nearest(&tool.to_string(), names) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    };
    Err(format!("the tool `{tool}` was not offered to the model{hint}"))
}

fn called(tool: &ToolPattern, arguments: &ArgumentMatch, calls: &[Call<'_>]) -> Result<(), Reason> {
    if of(tool, calls).any(|call| arguments.fits(&call.arguments)) {
        return Ok(());
    }
    match of(tool, calls).last() {
        Some(last) => {
            let count = number(of(tool, calls).count());
            Err(format!("{count} of `{tool}` with other arguments, the last with {}", shown(&last.arguments)))
        }
        None => Err(format!("no call of `{tool}`; {}", summary(calls))),
    }
}

fn expect_count(
    count: usize,
    at_least: Option<usize>,
    at_most: Option<usize>,
    calls: &[Call<'_>],
) -> Result<(), Reason> {
    if at_least.is_none_or(|min| count >= min) && at_most.is_none_or(|max| count <= max) {
        return Ok(());
    }
    Err(format!("{}; {}", number(count), summary(calls)))
}

/// Looks for the tools as a subsequence of the calls, or as neighbors.
fn order(tools: &[ToolPattern], strict: bool, calls: &[Call<'_>]) -> Result<(), Reason> {
    let holds = if strict {
        let is_here = |window: &[Call<'_>]| window.iter().zip(tools).all(|(call, tool)| call.is_of(tool));
        !tools.is_empty() && calls.windows(tools.len()).any(is_here)
    } else {
        let mut rest = calls.iter();
        tools.iter().all(|tool| rest.any(|call| call.is_of(tool)))
    };
    if holds {
        return Ok(());
    }
    let names: Vec<String> = calls.iter().take(MAX_SHOWN_CALLS).map(|call| shown_name(call.name)).collect();
    let more = if calls.len() > MAX_SHOWN_CALLS { ", …" } else { "" };
    Err(if names.is_empty() { "no calls".to_owned() } else { format!("called {}{more}", names.join(", ")) })
}

fn success_rate(tool: &ToolPattern, at_least: f64, calls: &[Call<'_>]) -> Result<(), Reason> {
    let count = of(tool, calls).count();
    let succeeded = of(tool, calls).filter(|call| call.succeeded()).count();
    if count == 0 || ratio(succeeded, count) >= at_least {
        return Ok(());
    }
    Err(format!("{succeeded} of {} succeeded", number(count)))
}

fn output_matches(tool: &ToolPattern, text: &OutputText, calls: &[Call<'_>]) -> Result<(), Reason> {
    let is_match = |output: &str| match text {
        OutputText::Regex(expression) => expression.is_match(output),
        OutputText::Contains(text) => output.contains(text),
    };
    let mut outputs = of(tool, calls).filter_map(|call| call.result.as_ref());
    if outputs.any(|output| is_match(output.text)) {
        return Ok(());
    }
    match of(tool, calls).filter_map(|call| call.result.as_ref()).last() {
        Some(last) => Err(format!("the last output of `{tool}` is {}", quoted(last.text))),
        None => Err(format!("no output of `{tool}`; {}", summary(calls))),
    }
}

fn path_efficiency(optimal: usize, at_least: f64, calls: usize) -> Result<(), Reason> {
    let Some(efficiency) = efficiency(optimal, calls) else { return Err("no calls".to_owned()) };
    if efficiency >= at_least { Ok(()) } else { Err(format!("{}, an efficiency of {efficiency:.2}", number(calls))) }
}

/// Returns the efficiency that an assertion measures. `None` if it measures none, or if no necessary call was made.
pub(super) fn measured_efficiency(assertion: &Assertion, facts: &TraceFacts<'_>) -> Option<f64> {
    match assertion {
        Assertion::PathEfficiency { optimal, .. } => efficiency(*optimal, calls(facts).len()),
        _ => None,
    }
}

fn efficiency(optimal: usize, calls: usize) -> Option<f64> {
    match (optimal, calls) {
        (0, 0) => Some(1.0),
        (_, 0) => None,
        (optimal, calls) => Some(ratio(optimal, calls).min(1.0)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls are small")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// The maximum length of a usual name of a tool, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Returns the name of a called tool for a message. The model wrote it, so it may be any text.
fn shown_name(name: &str) -> String {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
    if name.len() <= MAX_NAME_BYTES && name.bytes().all(is_usual) { name.to_owned() } else { quoted(name) }
}

/// The maximum number of calls or tools that a reason lists.
const MAX_SHOWN_CALLS: usize = 20;

/// Lists the tools that were called, with the number of calls.
fn summary(calls: &[Call<'_>]) -> String {
    if calls.is_empty() {
        return "no tool was called".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *counts.entry(call.name).or_default() += 1;
    }
    let shown = counts.iter().take(MAX_SHOWN_CALLS).map(|(name, count)| match count {
        1 => shown_name(name),
        count => format!("{} {count} times", shown_name(name)),
    });
    format!("the model called {}", shown.collect::<Vec<_>>().join(", "))
}
