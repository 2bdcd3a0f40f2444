//! `--models FILE`: models with servers and settings of their own.

use std::path::Path;

use wharf::agent::Limits;
use wharf::agent::models::{Interface, ModelConfig, ModelSpec};
use wharf::config::simple;
use wharf::config::{Pattern, ToolNames};
use wharf::fleet::{Catalog, Entry, Scope, Server};

use super::Run;
use super::choose::text_of;
use super::model_servers::{KEYS, ModelServers, read_model_servers};
use crate::args::Globals;
use crate::render;
use crate::servers::{Misuse, misuse};
use crate::surroundings::variables;

/// The model of the file that is meant: the only one, or the one that `-m` names.
pub(super) fn chosen(run: &Run, globals: &Globals) -> Result<Option<ModelConfig>, Misuse> {
    let Some(file) = &run.models else { return Ok(None) };
    let shown = file.display();
    let mut models = ModelConfig::parse(&text_of(file)?, &KEYS)
        .map_err(|error| misuse(format!("{shown}: {error}"), Some("docs/running.md tells what a model can say")))?;
    for model in &models {
        let checked = check_servers(model);
        checked
            .map_err(|error| misuse(format!("{shown}: {error}"), Some("docs/running.md tells what a model can say")))?;
    }
    let names = models.iter().map(ModelConfig::label).collect::<Vec<_>>().join(", ");
    let place = match &run.model {
        Some(name) => models.iter().position(|model| is_called(model, name)).ok_or_else(|| {
            misuse(format!("{shown} has no model `{name}`"), Some(&format!("name one of its own with -m: {names}")))
        })?,
        None if models.len() == 1 => 0,
        None => {
            let hint = format!("name one with -m: {names}");
            return Err(misuse(format!("{shown} has {} models", models.len()), Some(&hint)));
        }
    };
    let mut model = models.swap_remove(place);
    // A file that a model reads is beside the one that says so.
    let reads_file = |spec: &ModelSpec| matches!(spec.interface, Interface::Scripted | Interface::Manual);
    if model.spec().is_ok_and(|spec| reads_file(&spec)) {
        let beside = file.parent().unwrap_or(Path::new("")).join(&model.model_name);
        model.model_name = beside.display().to_string();
    }
    let has_servers = !globals.mcp.is_empty() || !servers_of(&model)?.servers.is_empty();
    Ok(Some(if has_servers { model.into_agent() } else { model }))
}

/// The MCP server settings of a model.
pub(super) fn servers_of(model: &ModelConfig) -> Result<ModelServers, Misuse> {
    read_model_servers(&model.other_keys).map_err(|error| misuse(format!("model `{}`: {error}", model.label()), None))
}

fn check_servers(model: &ModelConfig) -> Result<(), String> {
    let label = model.label();
    read_model_servers(&model.other_keys).map_err(|error| format!("model `{label}`: {error}"))?;
    let is_manual = model.spec().is_ok_and(|spec| spec.interface == Interface::Manual);
    let tool_key = KEYS[..3].iter().find(|key| model.other_keys.get(**key).is_some_and(|value| !value.is_null()));
    match tool_key {
        Some(key) if is_manual => Err(format!("the model `{label}` is manual, which has no tools: leave out `{key}`")),
        _ => Ok(()),
    }
}

/// By its name in the file, or by the one it would have on a command line.
fn is_called(model: &ModelConfig, name: &str) -> bool {
    model.label() == name || model.spec().is_ok_and(|spec| spec.to_string() == name)
}

/// The servers of a model, with what it says about their tools.
pub(super) fn servers(config: &ModelConfig) -> Result<Vec<Server>, Misuse> {
    let own = servers_of(config)?;
    if own.servers.is_empty() {
        return Ok(Vec::new());
    }
    let label = config.label();
    let (mut servers, problems) = simple::read(&own.servers, Scope::Dynamic, &variables())
        .map_err(|error| misuse(format!("the model `{label}`: {error}"), None))?;
    problems.iter().for_each(render::problem);
    let filter = own.tool_filter.as_ref().map(|names| names.iter().map(|name| Pattern::read(name)).collect());
    let allowed = filter
        .transpose()
        .map_err(|error| misuse(format!("the model `{label}` has an `mcp_tool_filter` with {error}"), None))?;
    for server in &mut servers {
        let settings = &mut server.settings;
        if allowed.is_some() && settings.tools.allowed.is_some() {
            let what = format!(
                "the model `{label}` has an `mcp_tool_filter`, and its server `{}` one of its own",
                server.name
            );
            return Err(misuse(what, Some("leave out one of them")));
        }
        settings.tools.allowed = allowed.clone().or(settings.tools.allowed.take());
        settings.tools.descriptions.extend(own.description_overrides.clone());
        settings.connect_timeout = settings.connect_timeout.or(own.connect_timeout);
    }
    Ok(servers)
}

/// What a model says about tools that no server has.
pub(super) fn strangers(config: &ModelConfig, catalog: &Catalog) -> Vec<String> {
    let is_there = |name: &str| {
        let fits = |pattern: &Pattern, entry: &Entry| {
            let (server, tool) = (entry.server.as_ref(), &*entry.tool.name);
            pattern.fits_tool(&ToolNames { visible: &entry.name, server, tool })
        };
        Pattern::read(name).is_ok_and(|pattern| catalog.entries().iter().any(|entry| fits(&pattern, entry)))
    };
    let own = servers_of(config).unwrap_or_default();
    let filter = own.tool_filter.iter().flatten().map(|name| ("mcp_tool_filter", name));
    let overrides = own.description_overrides.keys().map(|name| ("mcp_tool_description_overrides", name));
    let named = filter.chain(overrides).filter(|(_, name)| !is_there(name));
    // Limits are for one tool each, by the name that the model calls it by.
    let limits = config.agent_middleware.iter().flat_map(|layers| layers.limits.per_tool.keys());
    let limits = limits.filter(|name| catalog.get(name).is_none()).map(|name| ("per_tool_limit", name));
    named.chain(limits).map(|(key, name)| format!("`{key}` names `{name}`, and there is no such tool")).collect()
}

/// How far a run may go: as the command line says, or as usual.
pub(super) fn limits(run: &Run, usual: Limits) -> Limits {
    Limits {
        model_calls: run.max_turns.map_or(usual.model_calls, std::num::NonZeroU32::get),
        tool_calls: run.max_tool_calls.unwrap_or(usual.tool_calls),
        tokens: run.max_tokens.or(usual.tokens),
        cost_usd: run.max_cost.or(usual.cost_usd),
        time: run.max_time.or(usual.time),
        ..usual
    }
}
