//! `--models FILE`: models with their own servers and settings.

use std::path::Path;

use wharf::agent::Limits;
use wharf::agent::models::{Interface, ModelConfig, ModelSpec};
use wharf::config::simple;
use wharf::config::{Pattern, ToolNames};
use wharf::fleet::{Catalog, Entry, Scope, Server};

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
    let mut models = ModelConfig::parse(&read_file(file)?).map_err(|error| {
        usage_error(format!("{shown}: {error}"), Some("docs/running.md describes the settings of a model"))
    })?;
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
    Ok(Some(if globals.mcp.is_empty() { model } else { model.with_servers_besides() }))
}

/// Whether a model has this name in the file, or on the command line.
fn has_name(model: &ModelConfig, name: &str) -> bool {
    model.label() == name || model.spec().is_ok_and(|spec| spec.to_string() == name)
}

/// Returns the servers of a model, with its settings for their tools.
pub(super) fn servers(config: &ModelConfig) -> Result<Vec<Server>, UsageError> {
    let Some(map) = config.servers() else { return Ok(Vec::new()) };
    let label = config.label();
    let (mut servers, problems) = simple::read(map, Scope::Dynamic, &variables())
        .map_err(|error| usage_error(format!("model `{label}`: {error}"), None))?;
    problems.iter().for_each(term::problem);
    let filter = config.mcp_tool_filter.as_ref().map(|names| names.iter().map(|name| Pattern::read(name)).collect());
    let allowed = filter
        .transpose()
        .map_err(|error| usage_error(format!("model `{label}`: invalid `mcp_tool_filter`: {error}"), None))?;
    for server in &mut servers {
        let settings = &mut server.settings;
        if allowed.is_some() && settings.tools.allowed.is_some() {
            let message = format!(
                "model `{label}`: `mcp_tool_filter` conflicts with the tool filter of server `{}`",
                server.name
            );
            return Err(usage_error(message, Some("remove one of them")));
        }
        settings.tools.allowed = allowed.clone().or(settings.tools.allowed.take());
        settings.tools.descriptions.extend(config.mcp_tool_description_overrides.clone().unwrap_or_default());
        settings.connect_timeout = settings.connect_timeout.or(config.connecting());
    }
    Ok(servers)
}

/// Returns a warning for each setting that names an unknown tool.
pub(super) fn unknown_tools(config: &ModelConfig, catalog: &Catalog) -> Vec<String> {
    let exists = |name: &str| {
        let fits = |pattern: &Pattern, entry: &Entry| {
            let names = ToolNames { visible: &entry.name, server: entry.server.as_ref(), tool: &entry.tool.name };
            pattern.fits_tool(&names)
        };
        Pattern::read(name).is_ok_and(|pattern| catalog.entries().iter().any(|entry| fits(&pattern, entry)))
    };
    let filter = config.mcp_tool_filter.iter().flatten().map(|name| ("mcp_tool_filter", name));
    let overrides = config.mcp_tool_description_overrides.iter().flatten();
    let overrides = overrides.map(|(name, _)| ("mcp_tool_description_overrides", name));
    let named = filter.chain(overrides).filter(|(_, name)| !exists(name));
    // Limits name tools as the model sees them.
    let limits = config.agent_middleware.iter().flat_map(|layers| layers.limits.per_tool.keys());
    let limits = limits.filter(|name| catalog.get(name).is_none()).map(|name| ("per_tool_limit", name));
    named.chain(limits).map(|(key, name)| format!("`{key}` names the unknown tool `{name}`")).collect()
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
