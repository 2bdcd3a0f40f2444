//! Choosing a model: the one that is named, one with an API key, or a local one.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wharf::agent::models::{
    Interface, InvalidModel, ModelConfig, ModelSpec, ProviderTimeouts, Providers, ResolvedModel, Unavailable,
};
use wharf::agent::{Embedder, Manual, Model, Scripted};
use wharf::{HttpClient, Secret};

use super::trust::{self, Trust};
use crate::config::network;
use crate::env::variable;
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::term;

const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Timeout for connections to a provider.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for the list of a local Ollama's models.
const OLLAMA_TIMEOUT: Duration = Duration::from_millis(500);

/// Which model is wanted, and how.
#[derive(Clone, Copy)]
pub(crate) struct ModelChoice<'a> {
    /// Its settings in a model file.
    pub(crate) config: Option<&'a ModelConfig>,
    /// Its name, if it has no settings. Without a name, a model with an API key or a local one is used.
    pub(crate) name: Option<&'a str>,
    /// Whether tools are described in the prompt.
    pub(crate) emulate_tools: bool,
    /// Whether no fallback is used for an unavailable model.
    pub(crate) is_exact: bool,
    pub(crate) trust: Trust,
    pub(crate) timeouts: ProviderTimeouts,
}

/// Returns a model.
pub(crate) async fn model(choice: ModelChoice<'_>, globals: &Globals) -> Result<Arc<dyn Model>, UsageError> {
    let config = choice.config;
    check_key(choice, globals)?;
    let get = |name: &str| key_variable(config, name);
    let http = |url: &str| client(url).map_err(|error| error.message);
    let emulate_tools = choice.emulate_tools || config.is_some_and(|config| config.emulate_tools);
    let providers = Providers { variable: &get, http: &http, emulate_tools, timeouts: choice.timeouts };
    let invalid = |error: InvalidModel| usage_error(error.to_string(), Some(&error.hint));
    let spec = match (config, choice.name) {
        (Some(config), _) => config.spec().map_err(invalid)?,
        (None, Some(text)) => text.parse().map_err(invalid)?,
        (None, None) => default_model(&providers, globals).await?,
    };
    match spec.interface {
        Interface::Scripted => scripted(Path::new(&spec.name), FileOf::choice(config)),
        Interface::Manual => manual(Path::new(&spec.name), FileOf::choice(config)),
        _ => {
            let unavailable = |error: Unavailable| usage_error(error.to_string(), Some(&error.hint));
            if choice.is_exact {
                return providers.make(&spec).map_err(unavailable);
            }
            let ResolvedModel { model, fallback_for } = providers.make_or_fall_back(&spec).map_err(unavailable)?;
            if let Some(unavailable) = fallback_for {
                term::warning(&format!("{unavailable}; using {}:{} instead", model.interface(), model.name()));
            }
            Ok(model)
        }
    }
}

/// Returns the model for completions that servers request: the given one, or one that the environment configures, if any.
pub(crate) async fn for_servers(
    name: Option<&str>,
    timeouts: ProviderTimeouts,
    globals: &Globals,
) -> Result<Option<Arc<dyn Model>>, UsageError> {
    let choice = |name| ModelChoice {
        config: None,
        name: Some(name),
        emulate_tools: false,
        is_exact: true,
        trust: Trust::Ask,
        timeouts,
    };
    if let Some(name) = name {
        return model(choice(name), globals).await.map(Some);
    }
    let from_env = |name: &str| variable(&[name]);
    let http = |url: &str| client(url).map_err(|error| error.message);
    let providers = Providers { variable: &from_env, http: &http, emulate_tools: false, timeouts };
    let Some(name) = named(None).or_else(|| providers.pick().map(|spec| spec.to_string())) else { return Ok(None) };
    // A model that the command may not even need must not stop it.
    let chosen = model(choice(&name), globals).await;
    if let (Err(error), false) = (&chosen, globals.quiet) {
        term::warning(&format!("servers get no completions: {}", error.message));
    }
    Ok(chosen.ok())
}

/// Returns an embedding model. The rules for its key are those of other models.
pub(crate) fn embedder(choice: ModelChoice<'_>, globals: &Globals) -> Result<Arc<dyn Embedder>, UsageError> {
    check_key(choice, globals)?;
    let get = |name: &str| key_variable(choice.config, name);
    let http = |url: &str| client(url).map_err(|error| error.message);
    let timeouts = choice.timeouts;
    let providers = Providers { variable: &get, http: &http, emulate_tools: false, timeouts };
    let invalid = |error: InvalidModel| usage_error(error.to_string(), Some(&error.hint));
    let spec = match choice.config {
        Some(config) => config.spec().map_err(invalid)?,
        None => choice.name.unwrap_or_default().parse().map_err(invalid)?,
    };
    providers.make_embedder(&spec).map_err(|error| usage_error(error.to_string(), Some(&error.hint)))
}

/// Returns an environment variable for a model: a file may have its own key.
fn key_variable(config: Option<&ModelConfig>, name: &str) -> Option<String> {
    let from_env = |name: &str| variable(&[name]);
    match config {
        Some(config) => config.variable(name, &from_env),
        None => from_env(name),
    }
}

/// Checks that the key of a model of a file is set, and may be sent where the file says.
fn check_key(choice: ModelChoice<'_>, globals: &Globals) -> Result<(), UsageError> {
    let Some(config) = choice.config else { return Ok(()) };
    if let Some(unset) = config.unset_key_variable(&|name| variable(&[name])) {
        let hint = format!("set {unset}, or write the key itself");
        return Err(usage_error(format!("model `{}` needs {unset}, which is not set", config.label()), Some(&hint)));
    }
    trust::check_key(choice.trust, globals, config)
}

fn client(url: &str) -> Result<HttpClient, UsageError> {
    let settings = network::settings(CONNECT_TIMEOUT, url)?;
    HttpClient::new(settings).map_err(|error| usage_error(error.to_string(), None))
}

/// Returns the model to use if none is named.
async fn default_model(providers: &Providers<'_>, globals: &Globals) -> Result<ModelSpec, UsageError> {
    let found = match providers.pick() {
        Some(spec) => Some(spec),
        None => local_model().await,
    };
    let Some(spec) = found else {
        let hint = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, start Ollama, or pass a model: -m \
                    openai-endpoint:http://127.0.0.1:8000/v1#name";
        return Err(usage_error("no model given, and no API key found".to_owned(), Some(hint)));
    };
    if !globals.quiet {
        term::note(&format!("using {spec}; choose another with -m"));
    }
    Ok(spec)
}

/// Returns the first model of a local Ollama.
async fn local_model() -> Option<ModelSpec> {
    let host = variable(&["OLLAMA_HOST"]).unwrap_or_else(|| "127.0.0.1:11434".to_owned());
    let host = if host.contains("://") { host } else { format!("http://{host}") };
    let url = format!("{}/api/tags", host.trim_end_matches('/').trim_end_matches("/v1"));
    let listing = async {
        let http = client(&url).ok()?;
        let request = http::Request::get(&url).body(Vec::new().into()).ok()?;
        let mut body = http.send(request).await.ok()?.into_body();
        let listed: serde_json::Value = serde_json::from_slice(&body.read_all(1 << 20).await.ok()?).ok()?;
        Some(listed["models"][0]["name"].as_str()?.to_owned())
    };
    let name = tokio::time::timeout(OLLAMA_TIMEOUT, listing).await.ok()??;
    format!("ollama:{name}").parse().ok()
}

/// Returns the name of the model to use: the given one, or that of the environment.
pub(crate) fn named(name: Option<&str>) -> Option<String> {
    name.map(str::to_owned).or_else(|| variable(&["WHARF_MODEL"]))
}

/// Returns the API keys of the environment and of models of a file.
pub(crate) fn api_keys<'a>(configs: impl IntoIterator<Item = &'a ModelConfig>) -> Vec<Secret> {
    let keys = Interface::ALL.into_iter().filter_map(Interface::key_variable);
    let mut secrets: Vec<Secret> = keys.filter_map(|name| variable(&[name])).map(Secret::from).collect();
    secrets.extend(configs.into_iter().flat_map(|config| config.secrets(&|name| variable(&[name]))));
    secrets
}

/// Reads a file of a model, or one that is as small.
pub(crate) fn read_file(file: &Path) -> Result<String, UsageError> {
    read_file_up_to(file, MAX_FILE_BYTES)
}

/// Reads a file of limited size. It may be a pipe, whose size is known only after reading.
pub(crate) fn read_file_up_to(file: &Path, max_bytes: u64) -> Result<String, UsageError> {
    let mut text = Vec::new();
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    opened.take(max_bytes + 1).read_to_end(&mut text).map_err(|error| unreadable(file, &error))?;
    if text.len() as u64 > max_bytes {
        let mebibytes = max_bytes / (1024 * 1024);
        return Err(usage_error(format!("{} is larger than {mebibytes} MiB", file.display()), None));
    }
    String::from_utf8(text).map_err(|_| usage_error(format!("cannot read {}: invalid UTF-8", file.display()), None))
}

/// Like [`read_file`], for the file of a model. A model file may name any path, and must not make Wharf wait for a pipe
/// or read a device.
fn read_regular_file(file: &Path) -> Result<String, UsageError> {
    if !std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.is_file() {
        return Err(usage_error(format!("cannot read {}: not a regular file", file.display()), None));
    }
    read_file(file)
}

fn unreadable(file: &Path, error: &std::io::Error) -> UsageError {
    usage_error(format!("cannot read {}: {error}", file.display()), None)
}

/// Who names the file of a model.
#[derive(Clone, Copy)]
enum FileOf {
    User,
    /// A model file. It may name any file, so messages do not quote what the named file contains.
    ModelFile,
}

impl FileOf {
    fn choice(config: Option<&ModelConfig>) -> Self {
        if config.is_some() { Self::ModelFile } else { Self::User }
    }

    fn invalid(self, file: &Path, kind: &str, reason: &str) -> String {
        match self {
            Self::User => format!("{}: {reason}", file.display()),
            Self::ModelFile => format!("{}: not a file of {kind}", file.display()),
        }
    }
}

/// Reads a file of answers.
fn manual(file: &Path, of: FileOf) -> Result<Arc<dyn Model>, UsageError> {
    let model = Manual::parse(file.display().to_string(), &read_regular_file(file)?).map_err(|reason| {
        let hint = "expected a JSON object of answers by the MD5 digest of their prompt";
        usage_error(of.invalid(file, "answers", &reason), Some(hint))
    })?;
    Ok(Arc::new(model))
}

/// Reads a file of scripted turns.
fn scripted(file: &Path, of: FileOf) -> Result<Arc<dyn Model>, UsageError> {
    let model = Scripted::parse(file.display().to_string(), &read_regular_file(file)?).map_err(|reason| {
        let hint = "a turn is `- text: …`, with `tools: [{name: mcp__SERVER__TOOL, arguments: {…}}]` if it calls some";
        usage_error(of.invalid(file, "scripted turns", &reason), Some(hint))
    })?;
    Ok(Arc::new(model))
}
