//! `--models FILE`: models with their own servers and settings.

use std::fmt::Display;
use std::path::Path;

use wharf::agent::Limits;
use wharf::agent::models::{Interface, ModelConfig, ModelSpec};
use wharf::config::model_servers::{self, InvalidModelServers, ModelServers};
use wharf::config::{Pattern, ReadServer, ToolNames};
use wharf::fleet::{Catalog, Entry};

use super::args::Run;
use super::model::read_file;
use crate::env::variables;
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::term;

/// Returns the selected model of the file: the only one, or the one of `-m`.
pub(super) fn selected(run: &Run, globals: &Globals) -> Result<Option<ModelConfig>, UsageError> {
    let Some(file) = &run.models else { return Ok(None) };
    let shown = file.display();
    let invalid = |error: &dyn Display| {
        usage_error(format!("{shown}: {error}"), Some("docs/running.md describes the settings of a model"))
    };
    let mut models = ModelConfig::parse(&read_file(file)?, &model_servers::KEYS).map_err(|error| invalid(&error))?;
    for model in &models {
        check_servers(model).map_err(|error| invalid(&error))?;
    }
    let names = models.iter().map(ModelConfig::label).collect::<Vec<_>>().join(", ");
    let place = match &run.model {
        Some(name) => models.iter().position(|model| has_name(model, name)).ok_or_else(|| {
            usage_error(format!("{shown} has no model `{name}`"), Some(&format!("choose one with -m: {names}")))
        })?,
        None if models.len() == 1 => 0,
        None => {
            let hint = format!("choose one with -m: {names}");
            return Err(usage_error(format!("{shown} has {} models", models.len()), Some(&hint)));
        }
    };
    let mut model = models.swap_remove(place);
    // The file of a scripted or manual model is relative to the file of models.
    let reads_file = |spec: &ModelSpec| matches!(spec.interface, Interface::Scripted | Interface::Manual);
    if model.spec().is_ok_and(|spec| reads_file(&spec)) {
        let resolved = file.parent().unwrap_or(Path::new("")).join(&model.model_name);
        model.model_name = resolved.display().to_string();
    }
    let has_servers = !globals.mcp.is_empty() || !model_servers(&model)?.servers.is_empty();
    Ok(Some(if has_servers { model.into_agent() } else { model }))
}

/// Returns the MCP server settings of a model.
pub(super) fn model_servers(model: &ModelConfig) -> Result<ModelServers, UsageError> {
    model_servers::read(&model.other_keys).map_err(|error| invalid_servers(model, &error))
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

/// Whether a model has this name in the file, or on the command line.
fn has_name(model: &ModelConfig, name: &str) -> bool {
    model.label() == name || model.spec().is_ok_and(|spec| spec.to_string() == name)
}

/// Returns the servers of a model, with its settings for their tools.
pub(super) fn servers(config: &ModelConfig, declared: &ModelServers) -> Result<Vec<ReadServer>, UsageError> {
    let servers = declared.resolve(&variables()).map_err(|error| invalid_servers(config, &error))?;
    servers.iter().flat_map(|read| &read.problems).for_each(term::problem);
    Ok(servers)
}

/// Returns a warning for each setting that names an unknown tool.
pub(super) fn unknown_tools(config: &ModelConfig, catalog: &Catalog) -> Vec<String> {
    let fits = |pattern: &Pattern, entry: &Entry| {
        let names = ToolNames { visible: &entry.name, server: entry.server.as_ref(), tool: &entry.tool.name };
        pattern.fits_tool(&names)
    };
    let exists = |pattern: &Pattern| catalog.entries().iter().any(|entry| fits(pattern, entry));
    let own = model_servers(config).unwrap_or_default();
    let filter = own.tool_filter.iter().flatten().filter(|pattern| !exists(pattern));
    let filter = filter.map(|pattern| ("mcp_tool_filter", pattern.as_str()));
    let overrides = own.description_overrides.keys().filter(|name| !exists(&Pattern::new(name)));
    let overrides = overrides.map(|name| ("mcp_tool_description_overrides", name.as_str()));
    // Limits name tools as the model sees them.
    let limits = config.agent_middleware.iter().flat_map(|layers| layers.limits.per_tool.keys());
    let limits = limits.filter(|name| catalog.get(name).is_none()).map(|name| ("per_tool_limit", name.as_str()));
    filter
        .chain(overrides)
        .chain(limits)
        .map(|(key, name)| format!("`{key}` names the unknown tool `{name}`"))
        .collect()
}

/// Applies the limits of the command line.
pub(super) fn limits(run: &Run, defaults: Limits) -> Limits {
    Limits {
        model_calls: run.max_turns.map_or(defaults.model_calls, std::num::NonZeroU32::get),
        tool_calls: run.max_tool_calls.unwrap_or(defaults.tool_calls),
        tokens: run.max_tokens.or(defaults.tokens),
        cost_usd: run.max_cost.or(defaults.cost_usd),
        time: run.max_time.or(defaults.time),
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_documents_every_mcp_key_and_its_example_is_valid() {
        let guide = include_str!("../../../../../docs/running.md");
        let missing: Vec<&str> =
            model_servers::KEYS.into_iter().filter(|key| !guide.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/running.md does not document {missing:?}");
        let example = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let model = ModelConfig::parse(example, &model_servers::KEYS).unwrap().remove(0);
        let servers = model_servers(&model).unwrap();
        assert_eq!((servers.servers.len(), servers.tool_filter.map(|names| names.len())), (2, Some(2)));
        assert_eq!(model.into_agent().limits().tool_calls, 10);
    }
}
