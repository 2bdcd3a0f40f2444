//! Recording and replaying runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use wharf::agent::Model;
use wharf::agent::cassette::{Recorder, Replay};
use wharf::agent::models::{ModelConfig, ModelSpec};
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
        let spec = match config {
            Some(config) => config.spec().ok(),
            None => run.model.as_deref().and_then(|model| model.parse::<ModelSpec>().ok()),
        };
        let (interface, name) = spec
            .map_or(("replay".to_owned(), shown.to_string()), |spec| (spec.interface.as_str().to_owned(), spec.name));
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
    let recorder = Recorder::new(opened, redactor.clone()).map_err(unwritable)?;
    Ok((recorder.model(model), RecordMode::Record(recorder)))
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
