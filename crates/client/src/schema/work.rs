//! Counts the work of checking a value before the value is checked.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::SchemaError;
use super::graph::{Graph, NodeId, graph};

/// The largest weight of a schema when every reference is replaced by its target. A subschema weighs one, and so does
/// each of its keywords. The heaviest schema of the servers in the tests weighs less than a tenth of this.
pub(super) const MAX_WEIGHT: u64 = 50_000;
/// The largest weight of all patterns of a schema together: compiling them takes time.
const MAX_PATTERN_WEIGHT: u64 = 4_000_000;
/// Patterns of more weight are compiled where that delays nothing else.
const MAX_SMALL_PATTERN_WEIGHT: u64 = 20_000;
/// The most bytes that explaining a violation may copy: each failed alternative copies the value.
const MAX_EXPLAINED_BYTES: u64 = 16 << 20;
/// The most work that is done where the value arrives: a few milliseconds.
const MAX_SMALL_WORK: u64 = 20_000;
/// The most work that is done at all: under a second.
const MAX_WORK: u64 = 2_000_000;
/// How many subschemas may be nested in the evaluation of a value where it arrives.
const MAX_SMALL_STACK: u64 = 256;
/// How many subschemas may be nested in the evaluation of a value at all.
const MAX_STACK: u64 = 20_000;

/// How much work the checks of one schema are.
#[derive(Debug)]
pub(super) struct Work {
    graph: Graph,
    total: Total,
    /// For each subschema, how many are nested in its evaluation of one value.
    nesting: Vec<u64>,
    max_nesting: u64,
}

/// The weight of a whole schema when every reference is replaced by its target.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    weight: u64,
    /// The weight for each byte of a string or a name.
    byte_weight: u64,
    /// How often each string is scanned.
    scans: u64,
    /// Whether elements of arrays are compared with each other.
    compares_elements: bool,
    /// Whether a subschema contains itself, so that the work also depends on a value's depth.
    is_recursive: bool,
}

impl Work {
    /// Analyzes a schema.
    pub(super) fn new(document: &Value) -> Result<Self, SchemaError> {
        let graph = graph(document, usize::try_from(MAX_WEIGHT).unwrap_or(usize::MAX))?;
        let total = total(&graph);
        if total.weight > MAX_WEIGHT {
            let reason = "its references multiply: checking a value would take too much work";
            return Err(SchemaError::OverBudget(reason.to_owned()));
        }
        if graph.patterns > MAX_PATTERN_WEIGHT {
            return Err(SchemaError::OverBudget("its patterns are too large".to_owned()));
        }
        let nesting = nesting(&graph);
        let max_nesting = nesting.iter().copied().max().unwrap_or_default();
        Ok(Self { graph, total, nesting, max_nesting })
    }

    pub(super) fn weight(&self) -> u64 {
        self.total.weight
    }

    /// Whether compiling the schema is so little work that it can be done immediately.
    pub(super) fn is_quickly_compiled(&self) -> bool {
        const MAX_SUBSCHEMAS: usize = 1_000;
        self.graph.patterns <= MAX_SMALL_PATTERN_WEIGHT
            && self.graph.nodes.len() <= MAX_SUBSCHEMAS
            && !self.may_be_deep()
    }

    /// Whether a violation by this value can be explained without using much memory.
    pub(super) fn can_be_explained(&self, value: &Value) -> bool {
        const BYTES_PER_VALUE: u64 = 64;
        let size = Size::of(value, 1);
        let copied = size.values.saturating_mul(BYTES_PER_VALUE).saturating_add(size.bytes);
        copied.saturating_mul(self.total.weight).saturating_mul(if self.total.is_recursive { size.depth } else { 1 })
            <= MAX_EXPLAINED_BYTES
    }

    /// Whether references can make the compiler recurse deeply. Without any, the parser's limit on depth holds.
    pub(super) fn may_be_deep(&self) -> bool {
        const MAX_SHALLOW: usize = 100;
        self.graph.has_references && self.graph.nodes.len() > MAX_SHALLOW
    }

    /// Whether checking a value is so little work that it can be done immediately. Finding out is no more work.
    pub(super) fn is_small(&self, value: &Value) -> bool {
        let size = Size::of(value, 1);
        let bytes = size.bytes.saturating_mul(self.total.byte_weight);
        let bytes = bytes.saturating_add(scanned(size.bytes, self.total.scans));
        let compared = if self.total.compares_elements { size.values.saturating_mul(size.values) } else { 0 };
        let most = size.values.saturating_mul(self.total.weight).saturating_add(bytes).saturating_add(compared);
        let stack = size.depth.saturating_mul(self.max_nesting);
        let is_small = most <= MAX_SMALL_WORK && stack <= MAX_SMALL_STACK;
        // Most values are small enough whatever they contain.
        (is_small && !self.total.is_recursive) || self.is_within(value, SMALL)
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

/// The size of a value.
struct Size {
    values: u64,
    /// The bytes of its strings and names.
    bytes: u64,
    depth: u64,
}

impl Size {
    fn of(value: &Value, depth: u64) -> Self {
        let mut size = Self { values: 1, bytes: 0, depth };
        match value {
            Value::String(text) => size.bytes = text.len() as u64,
            Value::Array(several) => several.iter().for_each(|one| size.add(&Self::of(one, depth + 1))),
            Value::Object(fields) => {
                for (name, one) in fields {
                    size.bytes += name.len() as u64;
                    size.add(&Self::of(one, depth + 1));
                }
            }
            _ => {}
        }
        size
    }

    fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.bytes += other.bytes;
        self.depth = self.depth.max(other.depth);
    }
}

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
            if node.compares_elements {
                own = own.saturating_add(comparisons(value));
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
                    for (node, times) in &all {
                        self.add(node.name_weight.saturating_mul(name.len() as u64).saturating_mul(*times))?;
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

/// Returns the work of scanning bytes.
fn scanned(bytes: u64, scans: u64) -> u64 {
    const BYTES_PER_STEP: u64 = 64;
    bytes.saturating_mul(scans) / BYTES_PER_STEP
}

/// Returns the work of comparing all elements of a value. Scalars are found by their hash; those of arrays, objects and
/// fractions can be made to collide, so each may be compared with each.
fn comparisons(value: &Value) -> u64 {
    let Value::Array(elements) = value else { return 0 };
    let count = elements.len() as u64;
    let collides = |element: &Value| element.is_array() || element.is_object() || element.is_f64();
    if elements.iter().any(collides) { count.saturating_mul(Size::of(value, 1).values) } else { count }
}

fn add(applied: &mut Applied, id: NodeId, times: u64) {
    let sum = applied.entry(id).or_default();
    *sum = sum.saturating_add(times);
}

/// Adds up a schema with every reference replaced by its target. A subschema inside itself is counted once.
fn total(graph: &Graph) -> Total {
    #[derive(Clone, Copy)]
    enum State {
        New,
        Open,
        Done(u64, u64),
    }
    let mut is_recursive = false;
    let mut states = vec![State::New; graph.nodes.len()];
    let mut open = vec![graph.root];
    while let Some(id) = open.last().copied() {
        let node = &graph.nodes[id];
        let parts = node.in_place.iter().copied().chain(node.parts().map(|part| (part, 1)));
        if matches!(states[id], State::New) {
            states[id] = State::Open;
            let before = open.len();
            for (part, _) in parts {
                match states[part] {
                    State::New => open.push(part),
                    State::Open => is_recursive = true,
                    State::Done(..) => {}
                }
            }
            if open.len() > before {
                continue;
            }
        }
        open.pop();
        if matches!(states[id], State::Done(..)) {
            continue;
        }
        let mut weight = node.weight;
        let mut bytes = node.string_weight.saturating_add(node.name_weight);
        let parts = node.in_place.iter().copied().chain(node.parts().map(|part| (part, 1)));
        for (part, times) in parts {
            if let State::Done(more, more_bytes) = states[part] {
                weight = weight.saturating_add(more.saturating_mul(times));
                bytes = bytes.saturating_add(more_bytes.saturating_mul(times));
            }
        }
        states[id] = State::Done(weight, bytes);
    }
    let compares_elements = graph.nodes.iter().any(|node| node.compares_elements);
    // Each scan counts as often as the heaviest subschema can be evaluated, which is never too low.
    let scans = graph.nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.scans));
    match states[graph.root] {
        State::Done(weight, byte_weight) => {
            let scans = scans.saturating_mul(if graph.has_references { weight } else { 1 });
            Total { weight, byte_weight, scans, compares_elements, is_recursive }
        }
        _ => Total { weight: u64::MAX, byte_weight: u64::MAX, scans: u64::MAX, compares_elements, is_recursive },
    }
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
