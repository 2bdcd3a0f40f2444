//! The graph of a scenario: which turns can follow each other, and how long a conversation can be.

use std::collections::{BTreeMap, BTreeSet};

use super::{END, Scenario, Turn};

impl Turn {
    /// Returns the names that may follow the turn; `end` is one of them.
    pub(super) fn targets(&self) -> impl Iterator<Item = &str> {
        let branches = self.branches.iter().map(|branch| branch.to.as_str());
        branches.chain([self.next.as_deref().unwrap_or(END)])
    }
}

impl Scenario {
    /// Returns the names of the turns that the first one leads to, itself included.
    pub(super) fn reachable(&self) -> BTreeSet<&str> {
        let mut reachable = BTreeSet::new();
        let mut open: Vec<&Turn> = self.first_turn().into_iter().collect();
        while let Some(turn) = open.pop() {
            if reachable.insert(turn.name.as_str()) {
                open.extend(turn.targets().filter_map(|name| self.turn(name)));
            }
        }
        reachable
    }

    /// Returns the minimum number of turns from each turn to the end, itself included. A turn that does not lead to the
    /// end is missing.
    pub(super) fn distances(&self) -> BTreeMap<&str, u32> {
        let mut distances: BTreeMap<&str, u32> = BTreeMap::new();
        for distance in 1..=u32::try_from(self.turns.len()).unwrap_or(u32::MAX) {
            let leads = |turn: &&Turn| {
                let mut targets = turn.targets();
                targets.any(|name| name == END || distances.get(name).is_some_and(|known| *known < distance))
            };
            let open = self.turns.iter().filter(|turn| !distances.contains_key(turn.name.as_str()));
            let found: Vec<&str> = open.filter(leads).map(|turn| turn.name.as_str()).collect();
            if found.is_empty() {
                break;
            }
            distances.extend(found.into_iter().map(|name| (name, distance)));
        }
        distances
    }

    /// Returns the minimum number of turns of a conversation.
    pub(crate) fn min_turns(&self) -> u32 {
        let first = self.first_turn().and_then(|turn| self.distances().get(turn.name.as_str()).copied());
        first.unwrap_or(1).min(self.max_turns)
    }

    /// Returns the maximum number of turns of a conversation: the longest way through a graph without cycles, or else what
    /// the limits allow.
    pub(crate) fn most_turns(&self) -> u32 {
        let mut longest = BTreeMap::new();
        let first = self.first_turn().map(|turn| self.longest(turn, &mut Vec::new(), &mut longest));
        let by_visits = || {
            let mut visits = self.turns.iter().map(|turn| turn.max_visits);
            visits.try_fold(0_u32, |sum, max| Some(sum.saturating_add(max?)))
        };
        first.flatten().or_else(by_visits).unwrap_or(self.max_turns).min(self.max_turns)
    }

    /// Returns the length of the longest way from a turn to the end. `None` if it can come back to a turn.
    fn longest<'a>(
        &'a self,
        turn: &'a Turn,
        before: &mut Vec<&'a str>,
        known: &mut BTreeMap<&'a str, u32>,
    ) -> Option<u32> {
        if let Some(length) = known.get(turn.name.as_str()) {
            return Some(*length);
        }
        if before.contains(&turn.name.as_str()) {
            return None;
        }
        before.push(&turn.name);
        let mut length = 0;
        for target in turn.targets().filter_map(|name| self.turn(name)) {
            length = length.max(self.longest(target, before, known)?);
        }
        before.pop();
        known.insert(&turn.name, length + 1);
        Some(length + 1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
    fn lengths(turns: Value) -> (u32, u32) {
        let scenario: Scenario = serde_json::from_value(json!({"turns": turns})).unwrap();
        (scenario.min_turns(), scenario.most_turns())
    }

    #[test]
    fn a_conversation_is_as_long_as_its_graph_allows() {
        let to = |name: &str| json!([{"when": {"visits": {"at_least": 1}}, "to": name}]);
        assert_eq!(lengths(json!([{"name": "a", "prompt": "?"}])), (1, 1));
        let line = json!([{"name": "a", "prompt": "?", "next": "b"}, {"name": "b", "prompt": "?", "next": "end"}]);
        assert_eq!(lengths(line), (2, 2));
        let fork = json!([
            {"name": "a", "prompt": "?", "branches": to("b"), "next": "c"},
            {"name": "b", "prompt": "?", "next": "c"},
            {"name": "c", "prompt": "?"},
        ]);
        assert_eq!(lengths(fork), (2, 3));
        let ring = json!([{"name": "a", "prompt": "?", "branches": to("a"), "next": "end"}]);
        assert_eq!(lengths(ring), (1, 20));
        let bounded = json!([
            {"name": "a", "prompt": "?", "branches": to("a"), "next": "b", "max_visits": 3},
            {"name": "b", "prompt": "?", "max_visits": 1},
        ]);
        assert_eq!(lengths(bounded), (2, 4));
    }
}
