//! Joining a run that another process started: its parts come from its record, keys and servers from this machine.
//!
//! What is missing here does not stop the worker. It becomes a [`Lack`]: the store leaves those trials to other workers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use wharf::Redactor;
use wharf::agent::models::{ModelConfig, ModelSpec};
use wharf::verify::store::Lack;
use wharf::verify::{Benchmark, BenchmarkRunner, Judge, ModelUnderTest, QuestionId, RunnerParts, ServerSet};

use super::participants::{Availability, ModelFactory};
use super::shared_run::{SharedModel, SharedRun};
use super::workbench::{CliWorkbench, DeclaringFiles, LocalEntries};
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::models::choose;
use crate::models::file::{self, has_name};
use crate::models::timeouts::ModelTimeouts;
use crate::models::trust::Trust;

/// The files and options of this machine.
pub(crate) struct LocalParts<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) models_file: Option<&'a Path>,
    pub(crate) configs: Vec<ModelConfig>,
    /// The benchmark file with its path, for the entries of servers.
    pub(crate) benchmark: Option<(&'a Path, Benchmark)>,
    pub(crate) allow: &'a [String],
    pub(crate) trust: Trust,
    pub(crate) timeouts: ModelTimeouts,
}

/// A run that this machine can work on.
pub(crate) struct JoinedRun {
    pub(crate) runner: Arc<BenchmarkRunner>,
    pub(crate) workbench: Arc<CliWorkbench>,
    pub(crate) lacks: Vec<Lack>,
}

impl LocalParts<'_> {
    /// Reads the model file.
    pub(crate) fn configs(models_file: Option<&Path>) -> Result<Vec<ModelConfig>, UsageError> {
        Ok(models_file.map(file::read).transpose()?.unwrap_or_default())
    }

    /// Joins a run.
    ///
    /// # Errors
    /// If the configuration of this machine is invalid.
    pub(crate) async fn join(&self, shared: SharedRun) -> Result<JoinedRun, UsageError> {
        let SharedRun { benchmark, config, evaluation, models, judges, tool_sets } = shared;
        let factory = ModelFactory {
            globals: self.globals,
            config: &config,
            trust: self.trust,
            availability: Availability::Live,
            timeouts: self.timeouts.into(),
            has_servers: false,
        };
        let limits = factory.provider_limits();
        let mut lacks = Vec::new();
        let mut usable = Vec::new();
        for SharedModel { label, settings } in models {
            let joined = self.model(&factory, &label, &settings).await;
            let concurrency = limits.get(&settings.interface).cloned();
            match joined {
                Ok(model) => usable.push(ModelUnderTest { label, model, settings, concurrency }),
                Err(reason) => lacks.push(Lack { reason: format!("model `{label}`: {reason}"), ..all(Some(label)) }),
            }
        }
        let mut usable_judges = Vec::new();
        for SharedModel { label, settings } in judges {
            let joined = self.model(&factory, &label, &settings).await;
            let concurrency = limits.get(&settings.interface).cloned();
            match joined {
                Ok(model) => usable_judges.push(Judge { label, model, settings, concurrency }),
                Err(reason) => {
                    let reason = format!("judge `{label}`: {reason}");
                    lacks.push(Lack { judge: Some(label), reason, ..all(None) });
                }
            }
        }
        let embedding = match self.embedding(&factory) {
            Ok(embedding) => embedding,
            Err(reason) => {
                lacks.push(Lack { reason: format!("embedding model: {reason}"), ..all(None) });
                None
            }
        };
        let redactor = Redactor::new(choose::api_keys(&self.configs));
        let mut workbench = CliWorkbench::new(self.globals, self.allow, &redactor).await?;
        let entries = self.entries().await?;
        let mut missing = HashMap::new();
        for set in ServerSet::all(&benchmark, &usable) {
            if let Err(reason) = workbench.join(&set, &entries, tool_sets.get(&set)).await {
                missing.insert(set.key(), reason);
            }
        }
        for model in &usable {
            lacks.extend(lacks_of_servers(&benchmark, model, &missing));
        }
        let workbench = Arc::new(workbench);
        let runner = BenchmarkRunner::new(RunnerParts {
            benchmark,
            models: usable,
            judges: usable_judges,
            evaluation,
            embedding,
            tool_sets,
            workbench: Arc::clone(&workbench) as _,
            redactor,
        });
        let runner = runner.map_err(|error| usage_error(error.to_string(), None))?;
        Ok(JoinedRun { runner: Arc::new(runner), workbench, lacks })
    }

    /// Creates a model with the key of this machine. A key goes to an address that the record names only if this machine's
    /// files name it too, or with `--trust`.
    async fn model(
        &self,
        factory: &ModelFactory<'_>,
        label: &str,
        settings: &wharf::verify::ModelSettings,
    ) -> Result<Arc<dyn wharf::agent::Model>, String> {
        let is_local = self.configs.iter().any(|config| has_name(config, label));
        if !is_local && self.trust == Trust::Ask {
            check_address(settings.base_url.as_deref())?;
        }
        let of_record = match &settings.base_url {
            Some(url) => format!("{}:{url}#{}", settings.interface, settings.name),
            None => format!("{}:{}", settings.interface, settings.name),
        };
        // The label of a model of the command line is its name, with the whole path of a file.
        let is_spec = label.parse::<ModelSpec>().is_ok_and(|spec| spec.interface.as_str() == settings.interface);
        let name = if is_local || is_spec { label } else { of_record.as_str() };
        let named = factory.named(Some(name), self.models_file, &self.configs).await.map_err(with_hint)?;
        if !named.settings.is_same_model(settings) {
            return Err(if settings.file_digest.is_some() {
                "its file has other contents than when the run was planned".to_owned()
            } else {
                format!("--models has another model under this name: expected {of_record}")
            });
        }
        Ok(named.model)
    }

    fn embedding(&self, factory: &ModelFactory<'_>) -> Result<Option<wharf::verify::EmbeddingModel>, String> {
        if let Some(name) = &factory.config.embedding_check_model
            && self.trust == Trust::Ask
            && !self.configs.iter().any(|config| has_name(config, name))
            && let Ok(spec) = name.parse::<ModelSpec>()
        {
            check_address(spec.base_url.as_deref())?;
        }
        factory.embedding(self.models_file, &self.configs).map_err(with_hint)
    }

    /// Returns the entries of servers of this machine's files, after the user approved their commands.
    async fn entries(&self) -> Result<LocalEntries, UsageError> {
        let own: Vec<_> = self.configs.iter().map(file::declared_servers).collect::<Result<_, _>>()?;
        let mut declared: Vec<_> = own.iter().map(|own| &own.servers).collect();
        if let Some((file, benchmark)) = &self.benchmark {
            let files = DeclaringFiles { benchmark_file: file, benchmark, models_file: None, models: &[] };
            files.check_approvals(self.globals, self.trust).await?;
            declared.push(&benchmark.servers);
            declared.extend(benchmark.questions.iter().map(|question| &question.servers));
        }
        if let Some(file) = self.models_file {
            DeclaringFiles::check_models(self.globals, self.trust, file, &self.configs, &own).await?;
        }
        LocalEntries::read(self.globals, declared.into_iter()).await
    }
}

fn check_address(base_url: Option<&str>) -> Result<(), String> {
    match base_url {
        None => Ok(()),
        Some(url) => Err(format!(
            "the record says it is at {url}: pass --models FILE with this model, or --trust to send keys where the record \
             says"
        )),
    }
}

fn with_hint(error: UsageError) -> String {
    match error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message,
    }
}

/// Returns what lacks for all trials of a model.
fn all(model: Option<String>) -> Lack {
    Lack { model, question: None, judge: None, reason: String::new() }
}

/// Returns the questions for which a model's servers are missing. One entry, if it is all of them.
fn lacks_of_servers(benchmark: &Benchmark, model: &ModelUnderTest, missing: &HashMap<String, String>) -> Vec<Lack> {
    let lacking: Vec<(&QuestionId, &String)> = benchmark
        .questions
        .iter()
        .filter_map(|question| {
            let reason = missing.get(&ServerSet::of(benchmark, question, model).key())?;
            Some((&question.id, reason))
        })
        .collect();
    let is_all =
        lacking.len() == benchmark.questions.len() && lacking.iter().all(|(_, reason)| *reason == lacking[0].1);
    let lack = |question: Option<&QuestionId>, reason: &String| Lack {
        question: question.cloned(),
        reason: format!("model `{}`: {reason}", model.label),
        ..all(Some(model.label.clone()))
    };
    if is_all && let Some((_, reason)) = lacking.first() {
        return vec![lack(None, reason)];
    }
    lacking.into_iter().map(|(question, reason)| lack(Some(question), reason)).collect()
}
