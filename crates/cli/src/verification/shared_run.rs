//! What the record of a run has for workers on other machines: everything but keys and server entries.
//!
//! An entry of a server is a command, or a URL with headers: a worker must not run what a database says, and the database
//! must not know secrets. The record has a digest in its place. A worker finds the entry in its own files by this digest, or
//! uses the server with the same name in its own configuration.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wharf::verify::{
    Benchmark, EvaluationOptions, ModelSettings, ModelUnderTest, ServerSet, ToolSets, VerificationConfig, digest,
};

/// The notation for the demo server of the binary.
pub(crate) const DEMO_SERVER: &str = "wharf:demo";
/// The key of the MCP settings of a model that has its own servers.
const OWN_SERVERS: &str = "mcp_urls_dict";
/// The key of a digest in the place of an entry.
const ENTRY_DIGEST: &str = "entry_digest";

/// A run as a worker reads it.
pub(crate) struct SharedRun {
    pub(crate) benchmark: Benchmark,
    pub(crate) config: VerificationConfig,
    pub(crate) evaluation: EvaluationOptions,
    pub(crate) models: Vec<SharedModel>,
    pub(crate) judges: Vec<SharedModel>,
    /// The tools as planned, by the key of a set with digests in the place of entries.
    pub(crate) tool_sets: ToolSets,
}

/// A model of a run.
#[derive(Clone, Deserialize)]
pub(crate) struct SharedModel {
    pub(crate) label: String,
    pub(crate) settings: ModelSettings,
}

#[derive(Deserialize)]
struct Record {
    config: Value,
    evaluation: EvaluationOptions,
    models: Vec<Value>,
    judges: Vec<Value>,
    tool_sets: ToolSets,
    work: Option<WorkRecord>,
}

#[derive(Deserialize)]
struct WorkRecord {
    benchmark: Benchmark,
    /// The key of each set in `tool_sets`, by its key without entries.
    server_sets: BTreeMap<String, String>,
}

/// Returns what a record has for workers.
pub(crate) fn record(benchmark: &Benchmark, models: &[ModelUnderTest]) -> Value {
    let shared = without_entries(benchmark);
    let mut server_sets = BTreeMap::new();
    for model in models {
        let shared_model = ModelUnderTest { settings: settings_without_entries(&model.settings), ..model.clone() };
        for (question, shared_question) in benchmark.questions.iter().zip(&shared.questions) {
            let set = ServerSet::of(benchmark, question, model);
            if !set.is_empty() {
                let key = ServerSet::of(&shared, shared_question, &shared_model).key();
                server_sets.insert(key, set.key());
            }
        }
    }
    json!({"benchmark": shared, "server_sets": server_sets})
}

/// Returns the settings of a model with digests in the place of its server entries.
pub(crate) fn settings_without_entries(settings: &ModelSettings) -> ModelSettings {
    let mut settings = settings.clone();
    if let Some(Value::Object(servers)) = settings.mcp_keys.get_mut(OWN_SERVERS) {
        *servers = references(servers);
    }
    settings
}

fn without_entries(benchmark: &Benchmark) -> Benchmark {
    let mut shared = benchmark.clone();
    shared.servers = references(&benchmark.servers);
    for question in &mut shared.questions {
        question.servers = references(&question.servers);
    }
    shared
}

fn references(servers: &Map<String, Value>) -> Map<String, Value> {
    let reference = |(name, entry): (&String, &Value)| {
        // The demo server is a part of this program.
        let is_ours = entry.as_str() == Some(DEMO_SERVER);
        (name.clone(), if is_ours { entry.clone() } else { json!({ENTRY_DIGEST: digest(entry)}) })
    };
    servers.iter().map(reference).collect()
}

/// Returns the digest that stands in the place of an entry.
pub(crate) fn entry_digest(reference: &Value) -> Option<&str> {
    reference.get(ENTRY_DIGEST).and_then(Value::as_str)
}

impl SharedRun {
    /// Reads the settings of a run.
    ///
    /// # Errors
    /// If the run is a replay, judges a log, or is of another version.
    pub(crate) fn read(settings: Value) -> Result<Self, String> {
        let invalid = |error: &dyn std::fmt::Display| format!("its record cannot be read: {error}");
        let record: Record = serde_json::from_value(settings).map_err(|error| invalid(&error))?;
        let Some(WorkRecord { benchmark, server_sets }) = record.work else {
            return Err("it is a replay, or it judges a log: only the process that started it can run it".to_owned());
        };
        let config = VerificationConfig::parse(&record.config.to_string(), std::path::Path::new(""));
        let config = config.map_err(|_| invalid(&"its settings are not valid here"))?;
        let mut planned = record.tool_sets.0;
        let sets = server_sets.into_iter();
        let tool_sets = sets.filter_map(|(key, of)| Some((key, planned.get_mut(&of)?.clone()))).collect();
        Ok(Self {
            benchmark,
            config,
            evaluation: record.evaluation,
            models: record.models.into_iter().map(model_of).collect::<Result<_, _>>()?,
            judges: record.judges.into_iter().map(model_of).collect::<Result<_, _>>()?,
            tool_sets: ToolSets(tool_sets),
        })
    }
}

/// Reads a model. The middleware is written with other keys than those of a model file, which are read otherwise.
fn model_of(mut written: Value) -> Result<SharedModel, String> {
    let settings = written["settings"].clone();
    let middleware = &mut written["settings"]["middleware"];
    let limits = middleware.as_object_mut().and_then(|keys| keys.remove("limits"));
    let policy = middleware["model_retry"].as_object_mut().and_then(|keys| keys.remove("policy"));
    let invalid = |error: serde_json::Error| format!("the settings of a model cannot be read: {error}");
    let mut model: SharedModel = serde_json::from_value(written).map_err(invalid)?;
    let middleware = &mut model.settings.middleware;
    if let Some(limits) = limits {
        middleware.limits = serde_json::from_value(limits).map_err(invalid)?;
    }
    if let Some(policy) = policy {
        middleware.model_retry.policy = Some(serde_json::from_value(policy).map_err(invalid)?);
    }
    // A setting that is lost would change the answers.
    match serde_json::to_value(&model.settings) {
        Ok(read) if read == settings => Ok(model),
        _ => Err(format!("the settings of model `{}` are of another version", model.label)),
    }
}
