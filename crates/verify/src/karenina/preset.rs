//! Presets: settings of a run with the models inside.

use serde_json::{Map, Value, json};

use crate::config::VerificationConfig;

/// Settings of models that have no meaning for Wharf.
const MODEL_KEYS: [&str; 4] = ["max_retries", "extra_kwargs", "agent_runtime", "manual_traces"];

/// The settings, there and here.
const SETTINGS: [(&str, &str); 13] = [
    ("replicate_count", "replicates"),
    ("evaluation_mode", "evaluation_mode"),
    ("use_full_trace_for_template", "use_full_trace_for_template"),
    ("use_full_trace_for_rubric", "use_full_trace_for_rubric"),
    ("abstention_enabled", "abstention_enabled"),
    ("sufficiency_enabled", "sufficiency_enabled"),
    ("async_max_workers", "concurrency"),
    ("rubric_evaluation_strategy", "rubric_evaluation_strategy"),
    ("deep_judgment_mode", "deep_judgment_mode"),
    ("deep_judgment_max_excerpts_per_attribute", "deep_judgment_max_excerpts_per_attribute"),
    ("deep_judgment_rubric_max_excerpts_default", "deep_judgment_rubric_max_excerpts_default"),
    ("deep_judgment_fuzzy_match_threshold", "deep_judgment_fuzzy_match_threshold"),
    ("deep_judgment_excerpt_retry_attempts", "deep_judgment_excerpt_retry_attempts"),
];

/// A preset.
#[derive(Clone, Debug, PartialEq)]
pub struct KareninaPreset {
    /// The settings, with the ids of the models.
    pub config: VerificationConfig,
    /// The models, in the notation of model files.
    pub models: Vec<Value>,
    /// The settings that have no place here and are set.
    pub ignored: Vec<String>,
}

/// Reads a preset, or its `config` alone. `None` if the text is another file.
pub fn preset(text: &str) -> Option<KareninaPreset> {
    let Ok(Value::Object(mut file)) = serde_json::from_str(text) else { return None };
    let mut config = match file.shift_remove("config") {
        Some(Value::Object(config)) => config,
        _ => file,
    };
    let answering = config.shift_remove("answering_models");
    let Some(Value::Array(parsing)) = config.shift_remove("parsing_models") else { return None };
    let answering = match answering {
        Some(Value::Array(models)) => models,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return None,
    };
    let mut models = Vec::new();
    let answering_ids: Vec<String> = answering.into_iter().filter_map(|model| add(&mut models, model)).collect();
    let parsing_ids: Vec<String> = parsing.into_iter().filter_map(|model| add(&mut models, model)).collect();
    let mut settings = Map::new();
    if config.shift_remove("async_enabled") == Some(Value::Bool(false)) {
        config.insert("async_max_workers".to_owned(), json!(1));
    }
    for (there, here) in SETTINGS {
        // A value that is unknown here stays among those without an effect.
        let is_known = |value: &Value| serde_json::from_value::<VerificationConfig>(json!({here: value})).is_ok();
        if config.get(there).is_some_and(|value| !value.is_null() && is_known(value))
            && let Some(value) = config.shift_remove(there)
        {
            settings.insert(here.to_owned(), value);
        }
    }
    if !answering_ids.is_empty() {
        settings.insert("models".to_owned(), json!(answering_ids));
    }
    if !parsing_ids.is_empty() {
        settings.insert("judges".to_owned(), json!(parsing_ids));
    }
    let config_read = serde_json::from_value(Value::Object(settings)).ok()?;
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let ignored = config.into_iter().filter(|(_, value)| is_set(value)).map(|(key, _)| key).collect();
    Some(KareninaPreset { config: config_read, models, ignored })
}

/// Adds a model and returns its id. The same model may answer and judge; another one with the same id gets its own.
fn add(models: &mut Vec<Value>, model: Value) -> Option<String> {
    let Value::Object(mut model) = model else { return None };
    model.retain(|key, value| !MODEL_KEYS.contains(&key.as_str()) && !value.is_null());
    let text = |key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
    let id = text("id").or_else(|| text("model_name"))?;
    let mut own = id.clone();
    let mut number = 1;
    loop {
        model.insert("id".to_owned(), own.as_str().into());
        let known = models.iter().find(|other| other["id"] == own.as_str());
        match known {
            None => break,
            Some(other) if *other == Value::Object(model.clone()) => return Some(own),
            Some(_) => {
                number += 1;
                own = format!("{id} ({number})");
            }
        }
    }
    models.push(Value::Object(model));
    Some(own)
}
