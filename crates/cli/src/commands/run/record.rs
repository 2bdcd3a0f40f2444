//! Recording and replaying runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use wharf::agent::Model;
use wharf::agent::cassette::{Recorder, Replay};
use wharf::agent::models::{InvalidModel, ModelConfig, ModelSpec};
use wharf::{Redactor, ToolSource};

use super::args::Run;
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::models::choose::{self, ModelChoice};
use crate::models::trust::Trust;
use crate::output_file;

/// Whether requests and calls are recorded or replayed.
pub(super) enum RecordMode {
    Off,
    Record(Recorder),
    Replay(Replay),
}

/// Returns the model of a run, wrapped for recording or replay.
pub(super) async fn model(
    run: &Run,
    config: Option<&ModelConfig>,
    globals: &Globals,
    redactor: &Redactor,
) -> Result<(Arc<dyn Model>, RecordMode), UsageError> {
    if let Some(file) = &run.replay {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| {
            usage_error(format!("cannot read {shown}: {error}"), Some("record a run with --record FILE"))
        })?;
        let replay = Replay::parse(&text)
            .map_err(|error| usage_error(format!("{shown}: {error}"), Some("record a run with --record FILE")))?;
        let (interface, name) = replayed_model(run, config, &replay)?;
        return Ok((replay.model(interface, name), RecordMode::Replay(replay)));
    }
    let name = choose::named(run.model.as_deref());
    let choice = ModelChoice {
        config,
        name: name.as_deref(),
        emulate_tools: run.emulate_tools,
        is_exact: run.strict,
        trust: Trust::of_flag(run.trust),
        timeouts: run.timeouts.into(),
    };
    let model = choose::model(choice, globals).await?;
    let Some(file) = &run.record else { return Ok((model, RecordMode::Off)) };
    let shown = file.display();
    let unwritable = |error: std::io::Error| usage_error(format!("cannot write {shown}: {error}"), None);
    let opened = open(file).map_err(unwritable)?.ok_or_else(|| {
        let hint = format!("delete it, or run `chmod 600 {shown}`: a recording holds the whole conversation");
        usage_error(format!("{shown} can be read by other users"), Some(&hint))
    })?;
    let name = format!("{}:{}", model.interface(), model.name());
    let recorder = Recorder::new(opened, &name, redactor.clone()).map_err(unwritable)?;
    Ok((recorder.model(model), RecordMode::Record(recorder)))
}

/// Returns the interface and the name of the model of a replay: those of the recording. A model that is named on the
/// command line must be the same.
fn replayed_model(run: &Run, config: Option<&ModelConfig>, replay: &Replay) -> Result<(String, String), UsageError> {
    let named = match (config, &run.model) {
        (Some(config), _) => config.spec().ok(),
        (None, Some(name)) => {
            let invalid = |error: InvalidModel| usage_error(error.to_string(), Some(&error.hint));
            Some(name.parse::<ModelSpec>().map_err(invalid)?)
        }
        (None, None) => None,
    };
    let named = named.map(|spec| (spec.interface.as_str().to_owned(), spec.name));
    let recorded = replay.recorded_model().and_then(|model| model.split_once(':'));
    let recorded = recorded.map(|(interface, name)| (interface.to_owned(), name.to_owned()));
    match (named, recorded) {
        (Some(named), Some(recorded)) if named != recorded => {
            let message = format!("the recording is of {}:{}, not of {}:{}", recorded.0, recorded.1, named.0, named.1);
            Err(usage_error(message, Some("omit -m and --models to replay the recorded model")))
        }
        (named, recorded) => {
            let file = || run.replay.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
            Ok(named.or(recorded).unwrap_or_else(|| ("replay".to_owned(), file())))
        }
    }
}

/// Opens a file that only its owner may read: it holds the whole conversation. `None` if others may read the existing
/// one: another program may have opened it already.
fn open(path: &Path) -> io::Result<Option<File>> {
    let file = output_file::create_or_open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        return Ok(None);
    }
    output_file::truncate(&file)?;
    Ok(Some(file))
}

impl RecordMode {
    /// Wraps the tools for recording or replay.
    pub(super) fn tools(&self, live: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        match self {
            Self::Off => live,
            Self::Record(recorder) => recorder.tools(live),
            Self::Replay(replay) => replay.tools(),
        }
    }

    pub(super) fn is_replay(&self) -> bool {
        matches!(self, Self::Replay(_))
    }

    /// Checks that the recording is complete, or that all of it was replayed.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self {
            Self::Off => Ok(()),
            Self::Record(recorder) => match recorder.failure() {
                None => Ok(()),
                Some(reason) => Err(format!("the recording is incomplete: {reason}")),
            },
            Self::Replay(replay) => {
                replay.finish().map_err(|error| format!("the run differs from its recording: {error}"))
            }
        }
    }
}
