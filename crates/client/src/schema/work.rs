//! Counts the work of checking a value before the value is checked.

use std::collections::BTreeMap;

use serde_json::Value;

use super::document;
use super::error::SchemaError;
use super::graph::{Graph, NodeId, graph};
use super::size::{Size, compared_with_each_other, parsed_as_regex, scanned};
use super::total::Total;

/// The largest weight of a schema when every reference is replaced by its target. A subschema weighs one, and so does
/// each of its keywords, each name and value in them, and a step of reading long ones. The heaviest schema of the servers in the tests weighs less than a tenth of this.
pub(super) const MAX_WEIGHT: u64 = 50_000;
/// The most states of all patterns of a schema together. Compiling a state takes about a microsecond and 150 bytes.
const MAX_PATTERN_STATES: u64 = 500_000;
/// Patterns with more states are compiled where that delays nothing else.
const MAX_SMALL_PATTERN_STATES: u64 = 4_000;
/// The most bytes that explaining a violation may copy: each failed alternative copies the value.
const MAX_EXPLAINED_BYTES: u64 = 16 << 20;
/// The most violations that may be collected: each takes some hundred bytes, and each evaluation can be one.
const MAX_COLLECTED: u64 = 50_000;
/// The most work that is done where the value arrives: a few milliseconds.
const MAX_SMALL_WORK: u64 = 20_000;
/// The most work that is done at all: under a second.
const MAX_WORK: u64 = 2_000_000;
/// How many subschemas may be nested in the evaluation of a value where it arrives.
const MAX_SMALL_STACK: u64 = 256;
/// How many subschemas may be nested in the evaluation of a value at all.
const MAX_STACK: u64 = 20_000;

/// Which violations are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explanation {
    /// All, up to the maximum of a report.
    All,
    /// The first.
    First,
    /// None.
    None,
}

/// How much work the checks of one schema are.
#[derive(Debug)]
pub(super) struct Work {
    graph: Graph,
    total: Total,
    /// For each subschema, how many are nested in its evaluation of one value.
    nesting: Vec<u64>,
    max_nesting: u64,
    /// The work of reading the whole document, whatever applies it.
    document: u64,
}

impl Work {
    /// Analyzes a schema.
    pub(super) fn new(document: &Value) -> Result<Self, SchemaError> {
        let read = document::work(document)?;
        let graph = graph(document, usize::try_from(MAX_WEIGHT).unwrap_or(usize::MAX))?;
        let total = Total::of(&graph);
        if total.sum.weight > MAX_WEIGHT {
            let reason = "its references multiply: checking a value would take too much work";
            return Err(SchemaError::OverBudget(reason.to_owned()));
        }
        if graph.pattern_states > MAX_PATTERN_STATES {
            return Err(SchemaError::patterns_too_large());
        }
        let nesting = nesting(&graph);
        let max_nesting = nesting.iter().copied().max().unwrap_or_default();
        Ok(Self { graph, total, nesting, max_nesting, document: read })
    }

    pub(super) fn weight(&self) -> u64 {
        self.total.sum.weight
    }

    /// All patterns of the schema.
    pub(super) fn patterns(&self) -> &[String] {
        &self.graph.patterns
    }

    /// Whether compiling the schema is so little work that it can be done immediately.
    pub(super) fn is_quickly_compiled(&self) -> bool {
        const MAX_SUBSCHEMAS: usize = 1_000;
        document::is_small(self.document)
            && self.graph.pattern_states <= MAX_SMALL_PATTERN_STATES
            && self.graph.nodes.len() <= MAX_SUBSCHEMAS
            && !self.may_be_deep()
    }

    /// How a violation by this value can be explained without using much memory.
    pub(super) fn explanation(&self, value: &Value) -> Explanation {
        const BYTES_PER_VALUE: u64 = 64;
        let size = Size::of(value, 1);
        let nested = if self.total.is_recursive { size.depth } else { 1 };
        let evaluations = self.total.sum.weight.saturating_mul(nested);
        let copied = size.values.saturating_mul(BYTES_PER_VALUE).saturating_add(size.bytes);
        if copied.saturating_mul(evaluations) > MAX_EXPLAINED_BYTES {
            Explanation::None
        } else if size.values.saturating_mul(evaluations) > MAX_COLLECTED {
            Explanation::First
        } else {
            Explanation::All
        }
    }

    /// Whether references can make the compiler recurse deeply. Without any, the parser's limit on depth holds.
    pub(super) fn may_be_deep(&self) -> bool {
        const MAX_SHALLOW: usize = 100;
        self.graph.has_references && self.graph.nodes.len() > MAX_SHALLOW
    }

    /// Whether checking a value is so little work that it can be done immediately. Finding out is no more work.
    pub(super) fn is_small(&self, value: &Value) -> bool {
        let size = Size::of(value, 1);
        let sum = self.total.sum;
        let bytes = size.bytes.saturating_mul(sum.byte_weight).saturating_add(scanned(size.bytes, sum.scans));
        // Regular expressions are rare: their values are always walked.
        let must_be_walked = self.total.is_recursive || self.total.parses_regex;
        let compared = if self.total.compares_elements { size.values.saturating_mul(size.steps()) } else { 0 };
        let most = size.values.saturating_mul(sum.weight).saturating_add(bytes).saturating_add(compared);
        let stack = size.depth.saturating_mul(self.max_nesting);
        let is_small = most <= MAX_SMALL_WORK && stack <= MAX_SMALL_STACK;
        // Most values are small enough whatever they contain.
        (is_small && !must_be_walked) || self.is_within(value, SMALL)
    }

    /// Whether a value is checked at all. Finding out may take as long as the check.
    pub(super) fn is_feasible(&self, value: &Value) -> bool {
        self.is_within(value, FEASIBLE)
    }

    fn is_within(&self, value: &Value, limits: Limits) -> bool {
        let mut count = Count { work: self, limits, done: 0 };
        count.value(value, Applied::from([(self.graph.root, 1)]), 0).is_ok()
    }
}

/// Limits on the work of one check.
#[derive(Clone, Copy)]
struct Limits {
    work: u64,
    stack: u64,
}

const SMALL: Limits = Limits { work: MAX_SMALL_WORK, stack: MAX_SMALL_STACK };
const FEASIBLE: Limits = Limits { work: MAX_WORK, stack: MAX_STACK };

/// Subschemas for one value, and how often each is evaluated.
type Applied = BTreeMap<NodeId, u64>;

struct TooMuch;

/// Walks a value with the subschemas that apply to each part. It stops at the limits, and each step counts, so that the
/// walk itself is bounded too.
struct Count<'a> {
    work: &'a Work,
    limits: Limits,
    done: u64,
}

impl Count<'_> {
    fn value(&mut self, value: &Value, mut applied: Applied, stack: u64) -> Result<(), TooMuch> {
        let nodes = &self.work.graph.nodes;
        let bytes = value.as_str().map_or(0, |text| text.len() as u64);
        let nested = applied.keys().map(|id| self.work.nesting[*id]).max().unwrap_or_default();
        let stack = stack + nested;
        if stack > self.limits.stack {
            return Err(TooMuch);
        }
        let mut all = Vec::with_capacity(applied.len());
        // A subschema has a lower index than those that it applies in place, so each is complete when it is taken.
        while let Some((id, times)) = applied.pop_first() {
            let node = &nodes[id];
            let mut own = node.weight.saturating_add(node.string_weight.saturating_mul(bytes));
            own = own.saturating_add(scanned(bytes, node.scans));
            if node.parses_regex {
                own = own.saturating_add(parsed_as_regex(bytes));
            }
            if node.compares_elements {
                own = own.saturating_add(compared_with_each_other(value));
            }
            if node.deep_scans > 0 {
                let size = Size::of(value, 1);
                self.add(size.values)?;
                own = own.saturating_add(scanned(size.bytes, node.deep_scans));
            }
            self.add(own.saturating_mul(times))?;
            for (target, evaluations) in &node.in_place {
                add(&mut applied, *target, times.saturating_mul(*evaluations));
            }
            all.push((node, times));
        }
        match value {
            Value::Object(fields) => {
                for (name, one) in fields {
                    self.add(1 + all.len() as u64)?;
                    let mut next = Applied::new();
                    let mut for_name = Applied::new();
                    let bytes = name.len() as u64;
                    for (node, times) in &all {
                        let lookup = if node.name_scans > 0 { 1 + scanned(bytes, node.name_scans) } else { 0 };
                        let own = node.name_weight.saturating_mul(bytes).saturating_add(lookup);
                        self.add(own.saturating_mul(*times))?;
                        let named = node.properties.get(name);
                        node.values.iter().chain(named).for_each(|id| add(&mut next, *id, *times));
                        node.names.iter().for_each(|id| add(&mut for_name, *id, *times));
                    }
                    if !for_name.is_empty() {
                        self.value(&Value::String(name.clone()), for_name, stack)?;
                    }
                    self.part(one, next, stack)?;
                }
            }
            Value::Array(several) => {
                for (index, one) in several.iter().enumerate() {
                    self.add(1 + all.len() as u64)?;
                    let mut next = Applied::new();
                    for (node, times) in &all {
                        let at = node.prefix.get(index);
                        node.elements.iter().chain(at).for_each(|id| add(&mut next, *id, *times));
                    }
                    self.part(one, next, stack)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn part(&mut self, value: &Value, applied: Applied, stack: u64) -> Result<(), TooMuch> {
        if applied.is_empty() { Ok(()) } else { self.value(value, applied, stack) }
    }

    fn add(&mut self, work: u64) -> Result<(), TooMuch> {
        self.done = self.done.saturating_add(work);
        if self.done > self.limits.work { Err(TooMuch) } else { Ok(()) }
    }
}

fn add(applied: &mut Applied, id: NodeId, times: u64) {
    let sum = applied.entry(id).or_default();
    *sum = sum.saturating_add(times);
}

/// Returns for each subschema how many are nested in its evaluation of one value.
fn nesting(graph: &Graph) -> Vec<u64> {
    let mut nesting = vec![1; graph.nodes.len()];
    for id in (0..graph.nodes.len()).rev() {
        let inner = graph.nodes[id].in_place.iter().map(|(target, _)| nesting[*target]).max();
        nesting[id] = 1 + inner.unwrap_or_default();
    }
    nesting
}
