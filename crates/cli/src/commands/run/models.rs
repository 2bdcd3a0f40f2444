//! `--models FILE`: models with their own servers and settings.

use wharf::agent::Limits;
use wharf::agent::models::{Interface, ModelConfig, ModelSpec};
use wharf::config::{Pattern, ToolNames};
use wharf::fleet::{Catalog, Entry};

use super::args::Run;
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::models::choose::named;
use crate::models::file::{self, declared_servers, has_name};

/// Returns the selected model of the file: the only one, or the one of `-m`.
pub(super) fn selected(run: &Run, globals: &Globals) -> Result<Option<ModelConfig>, UsageError> {
    let Some(file) = &run.models else { return Ok(None) };
    let shown = file.display();
    let mut models = file::read(file)?;
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
    let model = models.swap_remove(place);
    let has_servers = !globals.mcp.is_empty() || !declared_servers(&model)?.servers.is_empty();
    Ok(Some(if has_servers { model.into_agent() } else { model }))
}

/// Whether the model is a file of answers, which needs no server.
pub(super) fn is_manual(run: &Run, config: Option<&ModelConfig>) -> bool {
    let spec = match config {
        Some(config) => config.spec().ok(),
        None => named(run.model.as_deref()).and_then(|text| text.parse::<ModelSpec>().ok()),
    };
    spec.is_some_and(|spec| spec.interface == Interface::Manual)
}

/// Returns a warning for each setting that names an unknown tool.
pub(super) fn unknown_tools(config: &ModelConfig, catalog: &Catalog) -> Vec<String> {
    let fits = |pattern: &Pattern, entry: &Entry| {
        let names = ToolNames { visible: &entry.name, server: entry.server.as_ref(), tool: &entry.tool.name };
        pattern.fits_tool(&names)
    };
    let exists = |pattern: &Pattern| catalog.entries().iter().any(|entry| fits(pattern, entry));
    let own = declared_servers(config).unwrap_or_default();
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
    use wharf::config::model_servers;

    use super::*;

    #[test]
    fn the_guide_documents_every_mcp_key_and_its_example_is_valid() {
        let guide = include_str!("../../../../../docs/running.md");
        let missing: Vec<&str> =
            model_servers::KEYS.into_iter().filter(|key| !guide.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/running.md does not document {missing:?}");
        let example = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let model = ModelConfig::parse(example, &model_servers::KEYS).unwrap().remove(0);
        let servers = declared_servers(&model).unwrap();
        assert_eq!((servers.servers.len(), servers.tool_filter.map(|names| names.len())), (2, Some(2)));
        assert_eq!(model.into_agent().limits().tool_calls, 10);
    }
}
