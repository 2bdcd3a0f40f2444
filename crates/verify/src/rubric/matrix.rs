//! Metric traits: what an answer contains, counted against what it should and should not contain.
//!
//! The judge only says which of the numbered descriptions apply. Code builds the lists from that, so every description is
//! in exactly one list, whatever the judge says.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::benchmark::{EvaluationMode, Metric, MetricTrait};
use crate::problem::shown_json;

/// The maximum number of items that a judge may list.
const MAX_ITEMS: usize = 1000;

/// Metrics, and the lists that they are computed from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The metrics, from 0 to 1. `None` if a metric is undefined, for example the precision of an answer without items.
    pub metrics: BTreeMap<Metric, Option<f64>>,
    /// What should be present and is.
    #[serde(rename = "tp")]
    pub true_positives: Vec<String>,
    /// What should be present and is not.
    #[serde(rename = "fn")]
    pub false_negatives: Vec<String>,
    /// What is present and should not be.
    #[serde(rename = "fp")]
    pub false_positives: Vec<String>,
    /// What should be absent and is. Empty without the full matrix.
    #[serde(rename = "tn", default, skip_serializing_if = "Vec::is_empty")]
    pub true_negatives: Vec<String>,
}

/// Returns the JSON Schema of the judge's counts.
pub(crate) fn schema(of: &MetricTrait) -> Value {
    let numbers =
        |description: &str| json!({"type": "array", "items": {"type": "integer"}, "description": description});
    let present = numbers("The numbers of the wanted items that the answer contains.");
    let (key, other) = match of.evaluation_mode {
        EvaluationMode::TpOnly => {
            let description = "Items of the same kind that the answer contains and that are not in the list, each in the \
                words of the answer.";
            ("others", json!({"type": "array", "items": {"type": "string"}, "description": description}))
        }
        EvaluationMode::FullMatrix => {
            ("unwanted", numbers("The numbers of the unwanted items that the answer contains."))
        }
    };
    json!({"type": "object", "additionalProperties": false, "required": ["reasoning", "present", key], "properties": {
        "reasoning": {"type": "string", "description": "The reasoning, in a few sentences."},
        "present": present,
        key: other}})
}

/// Reads the judge's counts, and returns the metrics and the reasoning.
pub(crate) fn read(of: &MetricTrait, answer: &Value) -> Result<(MetricValue, String), String> {
    let reasoning = answer.get("reasoning").and_then(Value::as_str).ok_or("`reasoning`: expected a text")?;
    let (true_positives, false_negatives) =
        split(&of.tp_instructions, &numbers(answer, "present", &of.tp_instructions)?);
    let (false_positives, true_negatives) = match of.evaluation_mode {
        EvaluationMode::TpOnly => (others(of, answer)?, Vec::new()),
        EvaluationMode::FullMatrix => split(&of.tn_instructions, &numbers(answer, "unwanted", &of.tn_instructions)?),
    };
    let mut value =
        MetricValue { metrics: BTreeMap::new(), true_positives, false_negatives, false_positives, true_negatives };
    value.metrics = of.metrics.iter().map(|metric| (*metric, value.compute(*metric))).collect();
    Ok((value, reasoning.to_owned()))
}

/// Returns the described items that are present, and those that are not.
fn split(described: &[String], present: &BTreeSet<usize>) -> (Vec<String>, Vec<String>) {
    let mut lists = (Vec::new(), Vec::new());
    for (index, item) in described.iter().enumerate() {
        let list = if present.contains(&(index + 1)) { &mut lists.0 } else { &mut lists.1 };
        list.push(item.clone());
    }
    lists
}

fn numbers(answer: &Value, key: &str, described: &[String]) -> Result<BTreeSet<usize>, String> {
    let expected = || format!("`{key}`: expected a list of numbers from 1 to {}", described.len());
    let list = answer.get(key).and_then(Value::as_array).ok_or_else(expected)?;
    let number = |value: &Value| {
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        let valid = number.filter(|number| (1..=described.len()).contains(number));
        valid.ok_or_else(|| format!("{}, found {}", expected(), shown_json(value)))
    };
    list.iter().map(number).collect()
}

fn others(of: &MetricTrait, answer: &Value) -> Result<Vec<String>, String> {
    let list = answer.get("others").and_then(Value::as_array).ok_or("`others`: expected a list of texts")?;
    if list.len() > MAX_ITEMS {
        return Err(format!("`others`: expected at most {MAX_ITEMS} texts, found {}", list.len()));
    }
    let mut seen = BTreeSet::new();
    let mut others = Vec::new();
    for value in list {
        let item =
            value.as_str().ok_or_else(|| format!("`others`: expected a text, found {}", shown_json(value)))?.trim();
        let is_new = seen.insert(item.to_lowercase());
        if !item.is_empty() && (is_new || !of.repeated_extraction) {
            others.push(item.to_owned());
        }
    }
    Ok(others)
}

impl MetricValue {
    fn compute(&self, metric: Metric) -> Option<f64> {
        let [tp, fn_, fp, tn] =
            [&self.true_positives, &self.false_negatives, &self.false_positives, &self.true_negatives].map(Vec::len);
        match metric {
            Metric::Precision => ratio(tp, tp + fp),
            Metric::Recall => ratio(tp, tp + fn_),
            Metric::F1 => ratio(2 * tp, 2 * tp + fp + fn_),
            Metric::Specificity => ratio(tn, tn + fp),
            Metric::Accuracy => ratio(tp + tn, tp + tn + fp + fn_),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mode: &str) -> MetricTrait {
        let mut of = json!({"evaluation_mode": mode, "metrics": ["precision", "recall", "f1"],
            "tp_instructions": ["asthma", "pneumonia", "flu"]});
        if mode == "full_matrix" {
            of["metrics"] = json!(["precision", "recall", "f1", "specificity", "accuracy"]);
            of["tn_instructions"] = json!(["fracture", "burn", "sprain", "cut"]);
        }
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn the_lists_and_the_metrics_follow_from_the_numbers() {
        let answer = json!({"reasoning": "r", "present": [1, 3, 1], "others": ["cold", " Cold", "", "cough"]});
        let (value, reasoning) = read(&of("tp_only"), &answer).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&value).unwrap(), @r#"{"metrics":{"precision":0.5,"recall":0.6666666666666666,"f1":0.5714285714285714},"tp":["asthma","flu"],"fn":["pneumonia"],"fp":["cold","cough"]}"#);
        assert_eq!(reasoning, "r");
        let answer = json!({"reasoning": "", "present": [2], "unwanted": [4]});
        let (value, _) = read(&of("full_matrix"), &answer).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&value).unwrap(), @r#"{"metrics":{"precision":0.5,"recall":0.3333333333333333,"f1":0.4,"specificity":0.75,"accuracy":0.5714285714285714},"tp":["pneumonia"],"fn":["asthma","flu"],"fp":["cut"],"tn":["fracture","burn","sprain"]}"#);
    }

    #[test]
    fn repeated_items_count_once_unless_the_trait_says_otherwise() {
        let answer = json!({"reasoning": "r", "present": [], "others": ["cold", "cold"]});
        let mut of = of("tp_only");
        of.repeated_extraction = false;
        assert_eq!(read(&of, &answer).unwrap().0.false_positives.len(), 2);
        of.repeated_extraction = true;
        let (value, _) = read(&of, &answer).unwrap();
        assert_eq!(value.false_positives, ["cold"]);
        let empty = read(&of, &json!({"reasoning": "r", "present": [], "others": []})).unwrap().0;
        assert_eq!(empty.metrics[&Metric::Precision], None, "nothing was found, so nothing was right or wrong");
        assert_eq!(empty.metrics[&Metric::Recall], Some(0.0));
    }

    #[test]
    fn counts_of_another_form_are_rejected_with_the_reason() {
        let cases = [
            json!({"present": [], "others": []}),
            json!({"reasoning": "r", "present": [0], "others": []}),
            json!({"reasoning": "r", "present": [4], "others": []}),
            json!({"reasoning": "r", "present": ["asthma"], "others": []}),
            json!({"reasoning": "r", "present": "all", "others": []}),
            json!({"reasoning": "r", "present": [], "others": [7]}),
            json!({"reasoning": "r", "present": []}),
            json!({"reasoning": "r", "present": [], "others": vec!["x"; 1001]}),
        ];
        let errors: Vec<String> = cases.iter().map(|case| read(&of("tp_only"), case).unwrap_err()).collect();
        insta::assert_snapshot!(errors.join("\n"), @r#"
        `reasoning`: expected a text
        `present`: expected a list of numbers from 1 to 3, found 0
        `present`: expected a list of numbers from 1 to 3, found 4
        `present`: expected a list of numbers from 1 to 3, found "asthma"
        `present`: expected a list of numbers from 1 to 3
        `others`: expected a text, found 7
        `others`: expected a list of texts
        `others`: expected at most 1000 texts, found 1001
        "#);
    }
}
