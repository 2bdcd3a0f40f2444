//! Which model is asked: the one that is named, or one there is a key for, or one on this machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wharf::HttpClient;
use wharf::agent::models::{Interface, InvalidModel, ModelConfig, ModelSpec, Providers, ResolvedModel, Unavailable};
use wharf::agent::{Manual, Model, Scripted};

use super::Run;
use crate::args::Globals;
use crate::network;
use crate::render;
use crate::servers::{Misuse, misuse};
use crate::surroundings::variable;

/// The largest file of turns that is read.
const LARGEST: u64 = 16 * 1024 * 1024;
/// How long connecting to a provider may take.
const CONNECT: Duration = Duration::from_secs(30);
/// How long an Ollama on this machine may take to say what it has.
const NEARBY: Duration = Duration::from_millis(500);

/// The model of a run.
pub(super) async fn model(
    run: &Run,
    config: Option<&ModelConfig>,
    globals: &Globals,
) -> Result<Arc<dyn Model>, Misuse> {
    let around = |name: &str| variable(&[name]);
    // What a model says itself counts more than what is around.
    let get = |name: &str| config.and_then(|config| config.variable(name, &around)).or_else(|| around(name));
    let http = |url: &str| client(url).map_err(|misuse| misuse.what);
    if let Some((config, unset)) = config.and_then(|config| Some((config, config.unset_key_variable(&around)?))) {
        let hint = format!("set {unset}, or write the key itself");
        return Err(misuse(
            format!("the model `{}` takes its key from {unset}, which is not set", config.label()),
            Some(&hint),
        ));
    }
    let emulate_tools = run.emulate_tools || config.is_some_and(|config| config.emulate_tools);
    let providers = Providers { variable: &get, http: &http, emulate_tools };
    let invalid = |error: InvalidModel| misuse(error.to_string(), Some(&error.hint));
    let spec = match (config, &named(run)) {
        (Some(config), _) => config.spec().map_err(invalid)?,
        (None, Some(text)) => text.parse().map_err(invalid)?,
        (None, None) => picked(&providers, globals).await?,
    };
    match spec.interface {
        Interface::Scripted => scripted(Path::new(&spec.name)),
        Interface::Manual if !globals.mcp.is_empty() => Err(misuse(
            "a manual model has answered already, and calls no tools: --mcp makes no sense with it".to_owned(),
            Some("leave --mcp out, or play a recording with --replay FILE"),
        )),
        Interface::Manual => manual(Path::new(&spec.name)),
        _ => {
            let unavailable = |error: Unavailable| misuse(error.to_string(), Some(&error.hint));
            if run.strict {
                return providers.make(&spec).map_err(unavailable);
            }
            let ResolvedModel { model, fallback_for } = providers.make_or_fall_back(&spec).map_err(unavailable)?;
            if let Some(unavailable) = fallback_for {
                let asked = format!("{}:{}", model.interface(), model.name());
                render::warning(&format!("{unavailable}; {asked} is asked instead"));
            }
            Ok(model)
        }
    }
}

fn client(url: &str) -> Result<HttpClient, Misuse> {
    let settings = network::settings(CONNECT, url)?;
    HttpClient::new(settings).map_err(|error| misuse(error.to_string(), None))
}

/// Somebody named no model.
async fn picked(providers: &Providers<'_>, globals: &Globals) -> Result<ModelSpec, Misuse> {
    let found = match providers.pick() {
        Some(spec) => Some(spec),
        None => nearby().await,
    };
    let Some(spec) = found else {
        let hint = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, start Ollama, or name a model: -m \
                    openai-endpoint:http://127.0.0.1:8000/v1#name";
        return Err(misuse(
            "there is no model to ask: none is named, and there is no key for one".to_owned(),
            Some(hint),
        ));
    };
    if !globals.quiet {
        render::note(&format!("asking {spec}; name another with -m"));
    }
    Ok(spec)
}

/// The first model of an Ollama on this machine.
async fn nearby() -> Option<ModelSpec> {
    let host = variable(&["OLLAMA_HOST"]).unwrap_or_else(|| "127.0.0.1:11434".to_owned());
    let host = if host.contains("://") { host } else { format!("http://{host}") };
    let url = format!("{}/api/tags", host.trim_end_matches('/').trim_end_matches("/v1"));
    let asking = async {
        let http = client(&url).ok()?;
        let request = http::Request::get(&url).body(Vec::new().into()).ok()?;
        let mut body = http.send(request).await.ok()?.into_body();
        let listed: serde_json::Value = serde_json::from_slice(&body.read_all(1 << 20).await.ok()?).ok()?;
        Some(listed["models"][0]["name"].as_str()?.to_owned())
    };
    let name = tokio::time::timeout(NEARBY, asking).await.ok()??;
    format!("ollama:{name}").parse().ok()
}

/// Whether a model has answered already: nobody is asked for it, and no server started.
pub(super) fn has_answered(run: &Run, config: Option<&ModelConfig>) -> bool {
    let spec = match config {
        Some(config) => config.spec().ok(),
        None => named(run).and_then(|text| text.parse::<ModelSpec>().ok()),
    };
    spec.is_some_and(|spec| spec.interface == Interface::Manual)
}

/// The model that somebody named.
fn named(run: &Run) -> Option<String> {
    run.model.clone().or_else(|| variable(&["WHARF_MODEL"]))
}

/// The text of a file, unless it is far too large for what it should be.
pub(super) fn text_of(file: &Path) -> Result<String, Misuse> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| misuse(format!("{shown} cannot be read: {error}"), None);
    if std::fs::metadata(file).map_err(unreadable)?.len() > LARGEST {
        return Err(misuse(format!("{shown} is larger than {} MiB", LARGEST / (1024 * 1024)), None));
    }
    std::fs::read_to_string(file).map_err(unreadable)
}

/// A model that has answered already.
fn manual(file: &Path) -> Result<Arc<dyn Model>, Misuse> {
    let shown = file.display();
    let model = Manual::parse(shown.to_string(), &text_of(file)?).map_err(|reason| {
        let hint = "it is a JSON object of answers by the MD5 digests of their questions";
        misuse(format!("{shown}: {reason}"), Some(hint))
    })?;
    Ok(Arc::new(model))
}

/// A model that says what a file tells it to.
fn scripted(file: &Path) -> Result<Arc<dyn Model>, Misuse> {
    let shown = file.display();
    let model = Scripted::parse(shown.to_string(), &text_of(file)?).map_err(|reason| {
        let hint = "a turn is `- text: …`, with `tools: [{name: mcp__SERVER__TOOL, arguments: {…}}]` if it calls some";
        misuse(format!("{shown}: {reason}"), Some(hint))
    })?;
    Ok(Arc::new(model))
}
