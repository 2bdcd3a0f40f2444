//! The models of a run: those that answer, and the judges.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wharf::agent::middleware::ConcurrencyLimit;
use wharf::agent::models::{Interface, ModelConfig, ModelSpec, ProviderTimeouts};
use wharf::agent::{
    Capabilities, Embedder, Embeddings, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse,
};
use wharf::verify::{EmbeddingModel, Judge, ModelSettings, ModelUnderTest, VerificationConfig, digest};
use wharf::{BoxFuture, Redactor, nearest};

use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::models::choose::{self, ModelChoice, read_file};
use crate::models::file::{self, has_name};
use crate::models::trust::Trust;

/// The models of a run.
pub(crate) struct Participants {
    pub(crate) models: Vec<ModelUnderTest>,
    pub(crate) judges: Vec<Judge>,
    /// Compares meanings.
    pub(crate) embedding: Option<EmbeddingModel>,
    /// Knows the API keys.
    pub(crate) redactor: Redactor,
}

/// How the models are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Models answer, so their keys are required.
    Live,
    /// Nothing is sent: a check, or a replay.
    Offline,
}

/// A model by its name.
pub(super) struct Named {
    label: String,
    pub(super) model: Arc<dyn Model>,
    pub(super) settings: ModelSettings,
}

/// Creates the models.
pub(crate) struct ModelFactory<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) config: &'a VerificationConfig,
    pub(crate) trust: Trust,
    pub(crate) availability: Availability,
    pub(crate) timeouts: ProviderTimeouts,
    /// Whether the benchmark has servers, so that settings for agents apply to every model.
    pub(crate) has_servers: bool,
}

impl ModelFactory<'_> {
    /// Creates all models of the settings.
    pub(crate) async fn participants(&self) -> Result<Participants, UsageError> {
        self.build(None).await
    }

    /// Creates the judges of the settings, beside answering models that exist already.
    pub(crate) async fn with_models(&self, models: Vec<ModelUnderTest>) -> Result<Participants, UsageError> {
        self.build(Some(models)).await
    }

    async fn build(&self, existing: Option<Vec<ModelUnderTest>>) -> Result<Participants, UsageError> {
        let file = self.config.models_file.as_deref().map(Path::new);
        let configs = file.map(file::read).transpose()?.unwrap_or_default();
        let limits = self.provider_limits();
        let names = if existing.is_some() { Vec::new() } else { self.answering(&configs)? };
        let mut models = existing.unwrap_or_default();
        for name in names {
            let Named { label, model, settings } = self.named(name.as_deref(), file, &configs).await?;
            let concurrency = limits.get(&settings.interface).cloned();
            models.push(ModelUnderTest { label, model, settings, concurrency });
        }
        let mut judges = Vec::new();
        for name in self.config.judges.iter().flatten() {
            let Named { label, model, settings } = self.named(Some(name), file, &configs).await?;
            let concurrency = limits.get(&settings.interface).cloned();
            judges.push(Judge { label, model, settings, concurrency });
        }
        let embedding = self.embedding(file, &configs)?;
        Ok(Participants { models, judges, embedding, redactor: Redactor::new(choose::api_keys(&configs)) })
    }

    /// Creates the embedding model of the settings.
    pub(super) fn embedding(
        &self,
        file: Option<&Path>,
        configs: &[ModelConfig],
    ) -> Result<Option<EmbeddingModel>, UsageError> {
        let Some(name) = &self.config.embedding_check_model else { return Ok(None) };
        let config = configs.iter().find(|config| has_name(config, name));
        let spec: ModelSpec = match config {
            Some(config) => config.spec().map_err(|error| usage_error(error.to_string(), Some(&error.hint)))?,
            None => name.parse().map_err(|error| unknown_model(name, &error, file, configs))?,
        };
        let base_url = spec.base_url.clone();
        let embedder = match self.availability {
            Availability::Offline => Arc::new(OfflineModel(spec)) as Arc<dyn Embedder>,
            Availability::Live => choose::embedder(self.choice(config, Some(name)), self.globals)?,
        };
        let threshold = self.config.embedding_check_threshold.unwrap_or(EmbeddingModel::DEFAULT_THRESHOLD);
        Ok(Some(EmbeddingModel { embedder, base_url, threshold }))
    }

    /// Returns the names of the answering models: those of the settings, all of the file that are not judges, or the
    /// default model.
    fn answering(&self, configs: &[ModelConfig]) -> Result<Vec<Option<String>>, UsageError> {
        if let Some(names) = &self.config.models {
            return Ok(names.iter().cloned().map(Some).collect());
        }
        if configs.is_empty() {
            return Ok(vec![choose::named(None)]);
        }
        let judges: Vec<&String> = self.config.judges.iter().flatten().collect();
        let is_judge = |config: &&ModelConfig| judges.iter().any(|name| has_name(config, name));
        let names: Vec<_> =
            configs.iter().filter(|config| !is_judge(config)).map(|config| Some(config.label())).collect();
        if names.is_empty() {
            let message = "every model of the file is a judge".to_owned();
            return Err(usage_error(message, Some("choose the answering models with -m MODEL")));
        }
        Ok(names)
    }

    pub(super) async fn named(
        &self,
        name: Option<&str>,
        file: Option<&Path>,
        configs: &[ModelConfig],
    ) -> Result<Named, UsageError> {
        let config = name.and_then(|name| configs.iter().find(|config| has_name(config, name)));
        let config = config.cloned().map(|config| {
            let has_servers =
                self.has_servers || file::declared_servers(&config).is_ok_and(|own| !own.servers.is_empty());
            if has_servers { config.into_agent() } else { config }
        });
        let spec = match (&config, name) {
            (Some(config), _) => config.spec().map_err(|error| usage_error(error.to_string(), Some(&error.hint)))?,
            (None, Some(name)) => name.parse().map_err(|error| unknown_model(name, &error, file, configs))?,
            (None, None) => return self.default_model().await,
        };
        let model = match self.availability {
            Availability::Offline => Arc::new(OfflineModel(spec.clone())) as Arc<dyn Model>,
            Availability::Live => choose::model(self.choice(config.as_ref(), name), self.globals).await?,
        };
        let mut settings = match &config {
            Some(config) => ModelSettings::from_config(config),
            None => ModelSettings {
                base_url: spec.base_url.clone(),
                ..ModelSettings::new(spec.interface.as_str(), &spec.name)
            },
        };
        if matches!(spec.interface, Interface::Scripted | Interface::Manual) {
            settings.file_digest = Some(digest(&read_file(Path::new(&spec.name))?));
            // The content counts, not where the file is.
            settings.name = Path::new(&spec.name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        let label = config.as_ref().map_or_else(|| name.unwrap_or_default().to_owned(), ModelConfig::label);
        Ok(Named { label, model, settings })
    }

    /// Returns the model of the environment, one with an API key, or a local one.
    async fn default_model(&self) -> Result<Named, UsageError> {
        let model = choose::model(self.choice(None, None), self.globals).await?;
        let settings = ModelSettings::new(model.interface(), model.name());
        Ok(Named { label: format!("{}:{}", model.interface(), model.name()), model, settings })
    }

    fn choice<'a>(&self, config: Option<&'a ModelConfig>, name: Option<&'a str>) -> ModelChoice<'a> {
        let Self { trust, timeouts, .. } = *self;
        ModelChoice { config, name, emulate_tools: false, is_exact: true, trust, timeouts }
    }

    /// Returns the limits of concurrent requests, by interface.
    pub(super) fn provider_limits(&self) -> BTreeMap<String, ConcurrencyLimit> {
        let limits = self.config.provider_limits.iter().flatten();
        limits.map(|(name, limit)| (name.clone(), ConcurrencyLimit::new(*limit as usize))).collect()
    }
}

fn unknown_model(
    name: &str,
    error: &wharf::agent::models::InvalidModel,
    file: Option<&Path>,
    configs: &[ModelConfig],
) -> UsageError {
    let Some(file) = file.filter(|_| !name.contains(':')) else {
        return usage_error(error.to_string(), Some(&error.hint));
    };
    let labels: Vec<String> = configs.iter().map(ModelConfig::label).collect();
    let hint = match nearest(name, labels.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("available: {}", labels.join(", ")),
    };
    usage_error(format!("{} has no model `{name}`", file.display()), Some(&hint))
}

/// A model that is only named: of a check, which sends nothing, or of a replay, which has every response on record.
struct OfflineModel(ModelSpec);

impl Model for OfflineModel {
    fn interface(&self) -> &str {
        self.0.interface.as_str()
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            system_prompt: true,
            streaming: true,
            structured_output: true,
            tools: true,
            thinking: true,
            result_images: true,
            prompt_caching: true,
            automatic_caching: false,
        }
    }

    fn complete<'a>(&'a self, _: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let error = ModelError::new(ModelErrorKind::Exhausted, "the recording has no response for this request");
        Box::pin(std::future::ready(Err(error)))
    }
}

impl Embedder for OfflineModel {
    fn interface(&self) -> &str {
        self.0.interface.as_str()
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn embed<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<Embeddings, ModelError>> {
        let error = ModelError::new(ModelErrorKind::Exhausted, "the recording has no response for this request");
        Box::pin(std::future::ready(Err(error)))
    }
}
