//! Rubrics: what traits are, after an answer was evaluated. Pure functions, no I/O.

pub(crate) mod form;
pub(crate) mod matrix;
mod pattern;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::benchmark::{NamedTrait, Trait, TraitKind};
use crate::evaluation::{DeepJudgmentOptions, DeepRubric, EvaluationOptions, RubricStrategy};
use crate::evidence::ExcerptRules;
pub use matrix::MetricValue;
pub(crate) use pattern::match_pattern;

/// The results of all traits of a question, in the order of the benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RubricResult {
    /// The results of the traits.
    pub traits: Vec<TraitResult>,
}

/// The result of one trait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraitResult {
    /// Name of the trait.
    pub name: String,
    /// Whether higher values are better. `None` if the value has no direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub higher_is_better: Option<bool>,
    /// The value, or why it has none.
    #[serde(flatten)]
    pub outcome: TraitOutcome,
    /// The judge's reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// What the evaluation of a trait resulted in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraitOutcome {
    /// The value.
    Value(TraitValue),
    /// The concept of the trait is not present in the answer, for the reason given.
    Absent(String),
    /// The trait could not be evaluated, for the reason given.
    Failed(String),
}

/// The value of a trait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraitValue {
    /// Yes or no.
    Boolean(bool),
    /// A score in a range.
    Score(ScoreValue),
    /// One of several classes.
    Class(ClassValue),
    /// An object.
    Object(Value),
    /// Metrics over what the answer contains.
    Metrics(MetricValue),
}

/// A score in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreValue {
    /// The score.
    pub score: i64,
    /// The lowest possible score.
    pub min: i64,
    /// The highest possible score.
    pub max: i64,
}

/// A class that a judge chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassValue {
    /// Index of the class, from 0. It is -1 if none applies.
    pub index: i64,
    /// Name of the class. `None` if none applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl TraitResult {
    /// Creates the result of a trait without reasoning.
    pub(crate) fn new(of: &NamedTrait, outcome: TraitOutcome) -> Self {
        let higher_is_better = of.definition.direction();
        Self { name: of.name.clone(), higher_is_better, outcome, reasoning: None }
    }
}

/// Returns how a judge supports a trait with excerpts. `None` if it does not.
pub(crate) fn excerpt_rules(of: &Trait, options: &DeepJudgmentOptions) -> Option<ExcerptRules> {
    let own = of.judge_settings()?.deep_judgment.as_ref();
    let is_required = match options.rubric {
        DeepRubric::UseBenchmark => own.is_some_and(|own| own.excerpts),
        DeepRubric::EnableAll => own.is_none_or(|own| own.excerpts),
        DeepRubric::Disabled => false,
    };
    is_required.then(|| ExcerptRules {
        max: own.and_then(|own| own.max_excerpts).unwrap_or(options.rubric_max_excerpts) as usize,
        threshold: own.and_then(|own| own.fuzzy_threshold).unwrap_or(options.fuzzy_threshold),
        retries: own.and_then(|own| own.retries).unwrap_or(options.retries),
    })
}

/// Returns the requests for traits that a judge evaluates in one step, as positions in `traits`.
///
/// Traits whose judge sees the reference answer never share a request with others: their judge must not see it. Objects
/// have a request of their own, because their schema is the whole form. Traits with excerpts have several requests, and are
/// not among these.
pub(crate) fn requests(traits: &[NamedTrait], evaluation: &EvaluationOptions) -> Vec<Vec<usize>> {
    let mut requests: Vec<Vec<usize>> = Vec::new();
    let mut batches: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    for (index, of) in traits.iter().enumerate() {
        let Some(settings) = of.definition.judge_settings() else { continue };
        if excerpt_rules(&of.definition, &evaluation.deep_judgment).is_some() {
            continue;
        }
        let is_object = matches!(of.definition.kind, TraitKind::LlmStructured(_));
        if is_object || evaluation.rubric_strategy == RubricStrategy::Sequential {
            requests.push(vec![index]);
        } else {
            batches[usize::from(settings.include_ground_truth)].push(index);
        }
    }
    batches.into_iter().filter(|batch| !batch.is_empty()).chain(requests).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn traits() -> Vec<NamedTrait> {
        let definitions = [
            json!({"kind": "llm_boolean", "description": "d"}),
            json!({"kind": "regex", "pattern": "x"}),
            json!({"kind": "llm_score", "description": "d", "include_ground_truth": true}),
            json!({"kind": "llm_structured", "description": "d", "schema": {"type": "object"}}),
            json!({"kind": "llm_literal", "description": "d", "classes": []}),
            json!({"kind": "metric", "metrics": ["f1"], "tp_instructions": ["a"]}),
        ];
        let named = |(index, definition)| NamedTrait {
            name: format!("t{index}"),
            definition: serde_json::from_value(definition).unwrap(),
        };
        definitions.into_iter().enumerate().map(named).collect()
    }

    #[test]
    fn a_batch_has_all_traits_except_objects_and_those_with_the_reference_answer() {
        let requests = |traits: &[NamedTrait], rubric_strategy| {
            requests(traits, &EvaluationOptions { rubric_strategy, ..EvaluationOptions::default() })
        };
        assert_eq!(requests(&traits(), RubricStrategy::Batch), [vec![0, 4], vec![2], vec![3]]);
        assert_eq!(requests(&traits(), RubricStrategy::Sequential), [vec![0], vec![2], vec![3], vec![4]]);
        assert!(requests(&traits()[1..2], RubricStrategy::Batch).is_empty());
        let mut deep = traits();
        deep[0].definition =
            serde_json::from_value(json!({"kind": "llm_boolean", "description": "d", "deep_judgment": {}})).unwrap();
        assert_eq!(requests(&deep, RubricStrategy::Batch), [vec![4], vec![2], vec![3]]);
    }

    #[test]
    fn a_result_is_written_with_its_value_or_the_reason_for_none() {
        let traits = traits();
        let class = TraitValue::Class(ClassValue { index: -1, name: None });
        let results = RubricResult {
            traits: vec![
                TraitResult::new(&traits[0], TraitOutcome::Value(TraitValue::Boolean(true))),
                TraitResult::new(&traits[4], TraitOutcome::Value(class)),
                TraitResult::new(&traits[3], TraitOutcome::Failed("no".to_owned())),
                TraitResult::new(&traits[5], TraitOutcome::Absent("not there".to_owned())),
            ],
        };
        let text = serde_json::to_string(&results).unwrap();
        insta::assert_snapshot!(text, @r#"{"traits":[{"name":"t0","higher_is_better":true,"value":{"boolean":true}},{"name":"t4","higher_is_better":true,"value":{"class":{"index":-1}}},{"name":"t3","failed":"no"},{"name":"t5","absent":"not there"}]}"#);
        assert_eq!(serde_json::from_str::<RubricResult>(&text).unwrap(), results);
    }
}
