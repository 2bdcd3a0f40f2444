//! The work of a whole schema, when every reference is replaced by its target.

use super::graph::{Graph, Node};

/// The work of a whole schema, when every reference is replaced by its target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total {
    pub(super) sum: Sum,
    /// Whether elements of arrays are compared with each other.
    pub(super) compares_elements: bool,
    /// Whether strings are parsed as regular expressions.
    pub(super) parses_regex: bool,
    /// Whether a subschema contains itself, so that the work also depends on a value's depth.
    pub(super) is_recursive: bool,
}

/// What subschemas add up to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) weight: u64,
    /// The weight for each byte of a string or a name.
    pub(super) byte_weight: u64,
    /// How often each string and name is scanned.
    pub(super) scans: u64,
}

impl Sum {
    const MAX: Self = Self { weight: u64::MAX, byte_weight: u64::MAX, scans: u64::MAX };

    fn of(node: &Node) -> Self {
        Self {
            weight: node.weight,
            byte_weight: node.string_weight.saturating_add(node.name_weight),
            scans: node.scans.saturating_add(node.name_scans).saturating_add(node.deep_scans),
        }
    }

    fn add(&mut self, other: Self, times: u64) {
        self.weight = self.weight.saturating_add(other.weight.saturating_mul(times));
        self.byte_weight = self.byte_weight.saturating_add(other.byte_weight.saturating_mul(times));
        self.scans = self.scans.saturating_add(other.scans.saturating_mul(times));
    }
}

impl Total {
    /// Adds up a schema. A subschema inside itself is counted once.
    pub(super) fn of(graph: &Graph) -> Self {
        #[derive(Clone, Copy)]
        enum State {
            New,
            Open,
            Done(Sum),
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
                        State::Done(_) => {}
                    }
                }
                if open.len() > before {
                    continue;
                }
            }
            open.pop();
            if matches!(states[id], State::Done(_)) {
                continue;
            }
            let mut sum = Sum::of(node);
            let parts = node.in_place.iter().copied().chain(node.parts().map(|part| (part, 1)));
            for (part, times) in parts {
                if let State::Done(more) = states[part] {
                    sum.add(more, times);
                }
            }
            states[id] = State::Done(sum);
        }
        let sum = if let State::Done(sum) = states[graph.root] { sum } else { Sum::MAX };
        let compares_elements = graph.nodes.iter().any(|node| node.compares_elements);
        let parses_regex = graph.nodes.iter().any(|node| node.parses_regex);
        Self { sum, compares_elements, parses_regex, is_recursive }
    }
}
