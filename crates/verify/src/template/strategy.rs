//! Strategies: which fields must pass, in three-valued logic, and what their scores amount to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Field, FieldResult};

/// Which fields must pass for the answer to pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// All of them.
    AllOf(Vec<Strategy>),
    /// At least one of them.
    AnyOf(Vec<Strategy>),
    /// At least `n` of them.
    AtLeastN {
        /// The minimum number.
        n: usize,
        /// The candidates.
        of: Vec<Strategy>,
    },
    /// The field with this name.
    #[serde(untagged)]
    Field(String),
}

impl Strategy {
    /// Returns whether the strategy is satisfied. `None` if fields that could not be checked decide it.
    pub(super) fn decide(&self, fields: &BTreeMap<&str, Option<bool>>) -> Option<bool> {
        match self {
            Self::Field(name) => fields.get(name.as_str()).copied().flatten(),
            Self::AllOf(inner) => at_least(inner.len(), inner, fields),
            Self::AnyOf(inner) => at_least(1, inner, fields),
            Self::AtLeastN { n, of } => at_least(*n, of, fields),
        }
    }

    /// Returns the strategies directly below.
    pub(super) fn inner(&self) -> &[Self] {
        match self {
            Self::AllOf(inner) | Self::AnyOf(inner) | Self::AtLeastN { of: inner, .. } => inner,
            Self::Field(_) => &[],
        }
    }
}

/// Decides from the results so far whether `n` can or must be reached.
fn at_least(n: usize, strategies: &[Strategy], fields: &BTreeMap<&str, Option<bool>>) -> Option<bool> {
    let results: Vec<Option<bool>> = strategies.iter().map(|strategy| strategy.decide(fields)).collect();
    let passed = results.iter().filter(|result| **result == Some(true)).count();
    let unknown = results.iter().filter(|result| result.is_none()).count();
    if passed >= n {
        Some(true)
    } else if passed + unknown < n {
        Some(false)
    } else {
        None
    }
}

/// Returns the granular score: the weighted mean of the scores of all fields.
///
/// A field that could not be checked has no credit and keeps its weight. Under `any_of` only the best contribution counts,
/// under `at_least_n` the best `n`; the total is the weight of all fields in every case.
pub(super) fn granular_score(strategy: Option<&Strategy>, fields: &[Field], results: &[FieldResult]) -> Option<f64> {
    if fields.is_empty() {
        return None;
    }
    let total: f64 = fields.iter().map(|field| field.weight).sum();
    if total <= 0.0 || !total.is_finite() {
        return Some(0.0);
    }
    let mut contributions: Vec<f64> =
        fields.iter().zip(results).map(|(field, result)| field.weight * result.score.unwrap_or(0.0)).collect();
    contributions.sort_by(|one, other| other.total_cmp(one));
    let counted = match strategy {
        Some(Strategy::AnyOf(_)) => 1,
        Some(Strategy::AtLeastN { n, .. }) => *n,
        Some(Strategy::AllOf(_) | Strategy::Field(_)) | None => contributions.len(),
    };
    Some((contributions.iter().take(counted).sum::<f64>() / total).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Option<bool> = Some(true);
    const F: Option<bool> = Some(false);
    const U: Option<bool> = None;

    fn decide(strategy: &str, results: [Option<bool>; 3]) -> Option<bool> {
        let strategy: Strategy = serde_json::from_str(strategy).unwrap();
        let fields = ["a", "b", "c"].into_iter().zip(results).collect();
        strategy.decide(&fields)
    }

    #[test]
    fn unknown_fields_decide_only_where_they_matter() {
        let all = r#"{"all_of": ["a", "b", "c"]}"#;
        assert_eq!(decide(all, [T, T, T]), T);
        assert_eq!(decide(all, [T, U, F]), F);
        assert_eq!(decide(all, [T, U, T]), U);
        let any = r#"{"any_of": ["a", "b", "c"]}"#;
        assert_eq!(decide(any, [F, U, T]), T);
        assert_eq!(decide(any, [F, U, F]), U);
        assert_eq!(decide(any, [F, F, F]), F);
        let two = r#"{"at_least_n": {"n": 2, "of": ["a", "b", "c"]}}"#;
        assert_eq!(decide(two, [T, F, T]), T);
        assert_eq!(decide(two, [T, U, F]), U);
        assert_eq!(decide(two, [U, F, F]), F);
        assert_eq!(decide(r#""b""#, [T, U, T]), U);
    }

    #[test]
    fn strategies_nest() {
        let strategy = r#"{"all_of": ["a", {"any_of": ["b", {"all_of": ["c"]}]}]}"#;
        assert_eq!(decide(strategy, [T, F, T]), T);
        assert_eq!(decide(strategy, [T, F, F]), F);
        assert_eq!(decide(strategy, [T, U, F]), U);
        assert_eq!(decide(strategy, [F, U, U]), F);
    }
}
