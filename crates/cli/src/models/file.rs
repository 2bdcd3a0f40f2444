//! Model files: reading them, and the servers of their models.

use std::fmt::Display;
use std::path::Path;

use serde_json::Value;
use wharf::agent::models::{Interface, ModelConfig, ModelSpec};
use wharf::config::ReadServer;
use wharf::config::model_servers::{self, InvalidModelServers, ModelServers};
use wharf::verify::karenina;

use super::choose::read_file;
use crate::env::variables;
use crate::error::{UsageError, usage_error};
use crate::term;

/// Reads the models of a file. The files of scripted and manual models are relative to it.
pub(crate) fn read(file: &Path) -> Result<Vec<ModelConfig>, UsageError> {
    let invalid = |error: &dyn Display| {
        let message = format!("{}: {error}", file.display());
        usage_error(message, Some("docs/running.md describes the settings of a model"))
    };
    let text = read_file(file)?;
    // A preset of karenina has the models inside.
    let text = karenina::preset(&text).map_or(text, |preset| Value::Array(preset.models).to_string());
    let mut models = ModelConfig::parse(&text, &model_servers::KEYS).map_err(|error| invalid(&error))?;
    for model in &mut models {
        check_servers(model).map_err(|error| invalid(&error))?;
        let reads_file = |spec: &ModelSpec| matches!(spec.interface, Interface::Scripted | Interface::Manual);
        if model.spec().is_ok_and(|spec| reads_file(&spec)) {
            let resolved = file.parent().unwrap_or(Path::new("")).join(&model.model_name);
            // The label of a model without an id is not the resolved path.
            model.id.get_or_insert(format!("{}:{}", model.interface, model.model_name));
            model.model_name = resolved.display().to_string();
        }
    }
    Ok(models)
}

/// Whether a model has this name in the file, or on the command line.
pub(crate) fn has_name(model: &ModelConfig, name: &str) -> bool {
    model.label() == name || model.spec().is_ok_and(|spec| spec.to_string() == name)
}

/// Returns the MCP server settings of a model.
pub(crate) fn declared_servers(model: &ModelConfig) -> Result<ModelServers, UsageError> {
    model_servers::read(&model.other_keys).map_err(|error| invalid_servers(model, &error))
}

/// Returns the servers of a model, with its settings for their tools.
pub(crate) fn resolved_servers(config: &ModelConfig, declared: &ModelServers) -> Result<Vec<ReadServer>, UsageError> {
    let servers = declared.resolve(&variables()).map_err(|error| invalid_servers(config, &error))?;
    servers.iter().flat_map(|read| &read.problems).for_each(term::problem);
    Ok(servers)
}

fn invalid_servers(model: &ModelConfig, error: &InvalidModelServers) -> UsageError {
    usage_error(format!("model `{}`: {error}", model.label()), error.hint())
}

/// Checks the MCP keys of a model, also of one that is not selected.
fn check_servers(model: &ModelConfig) -> Result<(), String> {
    let label = model.label();
    model_servers::read(&model.other_keys).map_err(|error| format!("model `{label}`: {error}"))?;
    let is_manual = model.spec().is_ok_and(|spec| spec.interface == Interface::Manual);
    match ModelServers::tool_key(&model.other_keys) {
        Some(key) if is_manual => Err(format!("model `{label}` is manual and has no tools: remove `{key}`")),
        _ => Ok(()),
    }
}
