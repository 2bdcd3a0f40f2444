//! Reading: the kind is in the type of the rating, the settings are in its properties.

use serde_json::{Map, Value, json};

use crate::karenina::checkpoint::{Property, Rating, properties, unwrapped};
use crate::karenina::omission::Omitted;

/// What a trait applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::karenina) enum Scope {
    /// All questions.
    Global,
    /// One question.
    Question,
}

impl Scope {
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Global => "Global",
            Self::Question => "QuestionSpecific",
        }
    }
}

/// A trait that was read, and what is missing from it.
pub(in crate::karenina) struct TraitRead {
    /// The trait in Wharf's notation.
    pub(in crate::karenina) definition: Value,
    pub(in crate::karenina) omitted: Option<Omitted>,
}

/// Reads a rating. The error says why it is left out.
pub(in crate::karenina) fn read(rating: &Rating, scope: Scope) -> Result<TraitRead, Omitted> {
    let unsupported = || Omitted::TraitKind { kind: rating.additional_type.clone() };
    let written = rating.additional_type.as_str();
    let written = written.strip_prefix("karenina:").unwrap_or(written);
    let mut kind = written.strip_prefix(scope.prefix()).ok_or_else(unsupported)?;
    let settings = properties(rating.additional_property.as_ref());
    let is_dynamic = kind == "DynamicRubricTrait";
    if is_dynamic {
        kind = match settings.get("dynamic_trait_type").and_then(Value::as_str) {
            Some("llm") | None => "LLMRubricTrait",
            Some("regex") => "RegexTrait",
            Some("metric") => "MetricRubricTrait",
            Some("agentic") => "AgenticRubricTrait",
            Some("callable") => "CallableTrait",
            Some(_) => return Err(unsupported()),
        };
    }
    let mut definition = match kind {
        "RubricTrait" | "LLMRubricTrait" => llm(rating, &settings).ok_or_else(unsupported)?,
        "RegexTrait" => regex(&settings),
        "MetricRubricTrait" => metric(&settings),
        "AgenticRubricTrait" => agentic(rating, &settings).ok_or_else(unsupported)?,
        "CallableTrait" => return Err(Omitted::CallableTrait),
        _ => return Err(unsupported()),
    };
    let description = rating.description.as_deref().filter(|description| !description.trim().is_empty());
    if let Some(description) = description {
        definition.insert("description".to_owned(), description.into());
    }
    copy(&settings, "summary", &mut definition, "summary");
    if is_dynamic {
        definition.insert("if_present".to_owned(), true.into());
    }
    if !matches!(definition.get("schema"), Some(Value::Object(_))) {
        copy(&settings, "higher_is_better", &mut definition, "higher_is_better");
    }
    let omitted = settings.contains_key("model_override").then_some(Omitted::TraitModel);
    Ok(TraitRead { definition: Value::Object(definition), omitted })
}

/// Returns the traits of older files: lists of traits as JSON in a text.
pub(in crate::karenina) fn legacy_traits(properties: &Map<String, Value>) -> Vec<Rating> {
    let kinds = [
        ("global_regex_rubric_traits", "GlobalRegexTrait"),
        ("global_metric_rubric_traits", "GlobalMetricRubricTrait"),
        ("global_callable_rubric_traits", "GlobalCallableTrait"),
    ];
    let mut ratings = Vec::new();
    for (property, kind) in kinds {
        let Some(Value::Array(traits)) = properties.get(property).cloned().map(unwrapped) else { continue };
        for fields in traits {
            let Value::Object(mut fields) = fields else { continue };
            if let Some(invert) = fields.remove("invert") {
                fields.entry("invert_result").or_insert(invert);
            }
            let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
            let (name, description) = (text("name").unwrap_or_default(), text("description"));
            let additional_property = Some(fields.into_iter().map(|(key, value)| Property::new(key, value)).collect());
            ratings.push(Rating {
                kind: None,
                name,
                description,
                best_rating: 1.0,
                worst_rating: 0.0,
                additional_type: kind.to_owned(),
                additional_property,
            });
        }
    }
    ratings
}

/// Copies a setting that is present and not null.
fn copy(settings: &Map<String, Value>, from: &str, definition: &mut Map<String, Value>, to: &str) {
    if let Some(value) = settings.get(from).filter(|value| !value.is_null()) {
        definition.insert(to.to_owned(), value.clone());
    }
}

fn of_kind(kind: &str) -> Map<String, Value> {
    Map::from_iter([("kind".to_owned(), kind.into())])
}

fn llm(rating: &Rating, settings: &Map<String, Value>) -> Option<Map<String, Value>> {
    let is_boolean = (rating.best_rating, rating.worst_rating) == (1.0, 0.0);
    let mut definition = match settings.get("kind").filter(|kind| !kind.is_null()) {
        Some(Value::Object(structured)) => {
            let mut definition = of_kind("llm_structured");
            definition.insert("schema".to_owned(), structured.get("schema")?.clone());
            // An object has no excerpts there.
            return Some(definition);
        }
        Some(kind) => match kind.as_str()? {
            "boolean" => of_kind("llm_boolean"),
            "score" => with_range(of_kind("llm_score"), rating, settings),
            "literal" => with_classes(of_kind("llm_literal"), settings)?,
            _ => return None,
        },
        None if is_boolean => of_kind("llm_boolean"),
        None => with_range(of_kind("llm_score"), rating, settings),
    };
    if settings.get("deep_judgment_enabled") == Some(&Value::Bool(true)) {
        let mut deep = Map::new();
        for (from, to) in DEEP_JUDGMENT {
            copy(settings, from, &mut deep, to);
        }
        definition.insert("deep_judgment".to_owned(), Value::Object(deep));
    }
    Some(definition)
}

/// The settings of deep judgment, there and here.
pub(super) const DEEP_JUDGMENT: [(&str, &str); 5] = [
    ("deep_judgment_excerpt_enabled", "excerpts"),
    ("deep_judgment_max_excerpts", "max_excerpts"),
    ("deep_judgment_fuzzy_match_threshold", "fuzzy_threshold"),
    ("deep_judgment_excerpt_retry_attempts", "retries"),
    ("deep_judgment_search_enabled", "search"),
];

fn with_range(
    mut definition: Map<String, Value>,
    rating: &Rating,
    settings: &Map<String, Value>,
) -> Map<String, Value> {
    // A rating is a number with a fraction, and a score is an integer; another one breaks a rule and is reported.
    let integer = |number: f64| match format!("{number}").parse::<i64>() {
        Ok(integer) => Value::from(integer),
        Err(_) => Value::from(number),
    };
    for (setting, key, rating) in [("min_score", "min", rating.worst_rating), ("max_score", "max", rating.best_rating)]
    {
        let given = settings.get(setting).filter(|value| !value.is_null());
        definition.insert(key.to_owned(), given.cloned().unwrap_or_else(|| integer(rating)));
    }
    definition
}

fn with_classes(mut definition: Map<String, Value>, settings: &Map<String, Value>) -> Option<Map<String, Value>> {
    let Value::Object(classes) = unwrapped(settings.get("classes")?.clone()) else { return None };
    let class = |(name, description): (String, Value)| json!({"name": name, "description": description});
    definition.insert("classes".to_owned(), classes.into_iter().map(class).collect());
    Some(definition)
}

fn regex(settings: &Map<String, Value>) -> Map<String, Value> {
    let mut definition = of_kind("regex");
    copy(settings, "pattern", &mut definition, "pattern");
    for (key, default) in [("case_sensitive", true), ("invert_result", false)] {
        if settings.get(key) != Some(&Value::Bool(default)) {
            copy(settings, key, &mut definition, key);
        }
    }
    definition
}

fn metric(settings: &Map<String, Value>) -> Map<String, Value> {
    let mut definition = of_kind("metric");
    copy(settings, "evaluation_mode", &mut definition, "evaluation_mode");
    for key in ["metrics", "tp_instructions", "tn_instructions"] {
        if let Some(value) = settings.get(key) {
            definition.insert(key.to_owned(), unwrapped(value.clone()));
        }
    }
    copy(settings, "repeated_extraction", &mut definition, "repeated_extraction");
    definition
}

fn agentic(rating: &Rating, settings: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut definition = of_kind("agentic");
    let result = match settings.get("kind").filter(|kind| !kind.is_null()) {
        Some(Value::Object(structured)) => {
            definition.insert("schema".to_owned(), structured.get("schema")?.clone());
            "structured"
        }
        Some(kind) => kind.as_str()?,
        None => "boolean",
    };
    definition.insert("result".to_owned(), result.into());
    let mut definition = match result {
        "literal" => with_classes(definition, settings)?,
        "score" => with_range(definition, rating, settings),
        _ => definition,
    };
    for key in ["context_mode", "materialize_trace", "persist_trace", "max_turns", "timeout_seconds"] {
        copy(settings, key, &mut definition, key);
    }
    Some(definition)
}
