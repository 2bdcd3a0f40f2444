//! Writing: the kind becomes the type of a rating, the settings become its properties.

use serde_json::{Map, Value, json};

use super::read::{DEEP_JUDGMENT, Scope};
use crate::benchmark::{AgenticResult, LlmTrait, Trait, TraitClass, TraitKind};
use crate::karenina::checkpoint::{Property, Rating};

/// Returns the rating of a trait.
pub(in crate::karenina) fn write(name: &str, definition: &Trait, scope: Scope) -> Rating {
    let mut settings = Settings::default();
    let (kind, dynamic, worst, best) = match &definition.kind {
        TraitKind::LlmBoolean(judge) => {
            settings.deep_judgment(judge);
            ("RubricTrait", "llm", 0.0, 1.0)
        }
        TraitKind::LlmScore(range) => {
            settings.deep_judgment(&range.judge);
            settings.range(range.min, range.max);
            settings.add("kind", "score");
            ("RubricTrait", "llm", float(range.min), float(range.max))
        }
        TraitKind::LlmLiteral(literal) => {
            settings.deep_judgment(&literal.judge);
            settings.add("kind", "literal");
            settings.classes(&literal.classes);
            ("LLMRubricTrait", "llm", 0.0, last_index(&literal.classes))
        }
        TraitKind::LlmStructured(structured) => {
            settings.add("kind", json!({"type": "template", "schema": structured.schema}));
            ("LLMRubricTrait", "llm", 0.0, 0.0)
        }
        TraitKind::Regex(regex) => {
            settings.add("pattern", regex.pattern.as_str());
            settings.add("case_sensitive", regex.case_sensitive);
            settings.add("invert_result", regex.invert_result);
            ("RegexTrait", "regex", 0.0, 1.0)
        }
        TraitKind::Metric(metric) => {
            settings.add("metrics", json!(metric.metrics));
            settings.add("repeated_extraction", metric.repeated_extraction);
            settings.add("evaluation_mode", json!(metric.evaluation_mode));
            settings.add("tp_instructions", json!(metric.tp_instructions));
            if !metric.tn_instructions.is_empty() {
                settings.add("tn_instructions", json!(metric.tn_instructions));
            }
            ("MetricRubricTrait", "metric", 0.0, 1.0)
        }
        TraitKind::Agentic(agentic) => {
            let (kind, worst, best) = match agentic.result {
                AgenticResult::Boolean => (json!("boolean"), 0.0, 1.0),
                AgenticResult::Score => {
                    settings.range(agentic.min, agentic.max);
                    (json!("score"), float(agentic.min), float(agentic.max))
                }
                AgenticResult::Literal => {
                    settings.classes(&agentic.classes);
                    (json!("literal"), 0.0, last_index(&agentic.classes))
                }
                AgenticResult::Structured => (json!({"type": "template", "schema": agentic.schema}), 0.0, 0.0),
            };
            settings.add("kind", kind);
            settings.add("context_mode", json!(agentic.context_mode));
            settings.add("materialize_trace", agentic.materialize_trace);
            settings.add("persist_trace", agentic.persist_trace);
            settings.add("max_turns", agentic.max_turns);
            settings.add("timeout_seconds", agentic.timeout_seconds);
            ("AgenticRubricTrait", "agentic", worst, best)
        }
    };
    settings.add("higher_is_better", json!(definition.direction()));
    if let Some(summary) = &definition.summary {
        settings.add("summary", summary.as_str());
    }
    let kind = if definition.if_present {
        settings.add("dynamic_trait_type", dynamic);
        "DynamicRubricTrait"
    } else {
        kind
    };
    Rating {
        kind: Some("Rating".to_owned()),
        name: name.to_owned(),
        description: definition.description.clone(),
        best_rating: best,
        worst_rating: worst,
        additional_type: format!("karenina:{}{kind}", scope.prefix()),
        additional_property: Some(settings.0),
    }
}

#[expect(clippy::cast_precision_loss, reason = "scores have at most seven digits")]
fn float(number: i64) -> f64 {
    number as f64
}

/// Returns the index of the last class, which is the best rating.
fn last_index(classes: &[TraitClass]) -> f64 {
    u32::try_from(classes.len().saturating_sub(1)).map_or(f64::MAX, f64::from)
}

/// The properties of a rating.
#[derive(Default)]
struct Settings(Vec<Property>);

impl Settings {
    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push(Property::new(name, value));
    }

    fn range(&mut self, min: i64, max: i64) {
        self.add("min_score", min);
        self.add("max_score", max);
    }

    fn classes(&mut self, classes: &[TraitClass]) {
        let classes: Map<String, Value> =
            classes.iter().map(|class| (class.name.clone(), class.description.as_str().into())).collect();
        self.add("classes", Value::Object(classes));
    }

    fn deep_judgment(&mut self, judge: &LlmTrait) {
        let Some(deep) = &judge.deep_judgment else { return };
        self.add("deep_judgment_enabled", true);
        let settings = json!(deep);
        for (there, here) in DEEP_JUDGMENT {
            if let Some(value) = settings.get(here) {
                self.add(there, value.clone());
            }
        }
    }
}
