//! Recordings: where a run's questions and calls are written to, or answered from.

use std::sync::Arc;

use wharf::Secret;
use wharf::ToolSource;
use wharf::agent::Model;
use wharf::agent::cassette::{Recorder, Replay};
use wharf::agent::models::{Interface, ModelConfig, ModelSpec};

use super::{Run, choose};
use crate::args::Globals;
use crate::servers::{Misuse, misuse};
use crate::surroundings::variable;

/// What becomes of what is asked.
pub(super) enum Tape {
    /// It is asked.
    None,
    /// It is asked, and written down.
    Recording(Recorder),
    /// It is answered from what was written down.
    Playing(Replay),
}

/// The model of a run, with the tape it goes over.
pub(super) async fn thread(
    run: &Run,
    config: Option<&ModelConfig>,
    globals: &Globals,
) -> Result<(Arc<dyn Model>, Tape), Misuse> {
    if let Some(file) = &run.replay {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| {
            misuse(format!("{shown} cannot be read: {error}"), Some("record a run with --record FILE"))
        })?;
        let replay = Replay::parse(&text)
            .map_err(|error| misuse(format!("{shown}: {error}"), Some("record a run with --record FILE")))?;
        let spec = match config {
            Some(config) => config.spec().ok(),
            None => run.model.as_deref().and_then(|model| model.parse::<ModelSpec>().ok()),
        };
        let (interface, name) = spec
            .map_or(("replay".to_owned(), shown.to_string()), |spec| (spec.interface.as_str().to_owned(), spec.name));
        return Ok((replay.model(interface, name), Tape::Playing(replay)));
    }
    let model = choose::model(run, config, globals).await?;
    let Some(file) = &run.record else { return Ok((model, Tape::None)) };
    let shown = file.display();
    let unwritable = |error: std::io::Error| misuse(format!("{shown} cannot be written: {error}"), None);
    let keys = Interface::ALL.into_iter().filter_map(Interface::key_variable);
    let mut secrets: Vec<Secret> = keys.filter_map(|name| variable(&[name])).map(Secret::from).collect();
    secrets.extend(config.into_iter().flat_map(|config| config.secrets(&|name| variable(&[name]))));
    let recorder = open(file).and_then(|file| Recorder::new(file, &secrets)).map_err(unwritable)?;
    Ok((recorder.model(model), Tape::Recording(recorder)))
}

/// Only its owner may read it: it holds whatever was said.
fn open(file: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)
}

impl Tape {
    /// The tools as they go over the tape.
    pub(super) fn turns(&self, live: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        match self {
            Self::None => live,
            Self::Recording(recorder) => recorder.tools(live),
            Self::Playing(replay) => replay.tools(),
        }
    }

    /// Whether there is anybody to wait for.
    pub(super) fn is_patient(&self) -> bool {
        !matches!(self, Self::Playing(_))
    }

    /// Whether all is on the tape, or all of it was played.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            Self::Recording(recorder) => match recorder.failure() {
                None => Ok(()),
                Some(reason) => Err(format!("the recording is not whole: {reason}")),
            },
            Self::Playing(replay) => {
                replay.finish().map_err(|error| format!("the run is not the one that was recorded: {error}"))
            }
        }
    }
}
