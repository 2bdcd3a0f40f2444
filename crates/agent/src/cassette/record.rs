//! Writes down what a model and tools answer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use wharf_protocol::{BoxFuture, CallFailed, Json, Message, Secret, ToolCall, ToolDefinition, ToolOutput, Tools};

use super::{Asked, Exchange, Failed, Header, Shown, VERSION};
use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};
use wharf_protocol::ToolSource;

/// What is shorter stands in so many texts that it is none, and a cassette without it could not be read.
const SHORTEST_SECRET: usize = 6;

/// Writes a cassette. Share it between a [model](Recorder::model) and its [tools](Recorder::tools).
#[derive(Clone)]
pub struct Recorder {
    tape: Arc<Mutex<Tape>>,
}

struct Tape {
    to: Box<dyn Write + Send>,
    /// As they stand in JSON text.
    secrets: Vec<String>,
    before: Vec<Message>,
    offered: Option<Vec<Shown>>,
    /// Why nothing more can be written.
    broken: Option<String>,
}

impl Recorder {
    /// Records to a file, without these secrets.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn new(mut to: impl Write + Send + 'static, secrets: &[Secret]) -> io::Result<Self> {
        writeln!(to, "{}", serde_json::to_string(&Header { cassette: VERSION })?)?;
        to.flush()?;
        let escaped = secrets.iter().filter(|secret| secret.expose().len() >= SHORTEST_SECRET).map(|secret| {
            let text = serde_json::Value::from(secret.expose()).to_string();
            text[1..text.len() - 1].to_owned()
        });
        let secrets = escaped.collect();
        let tape = Tape { to: Box::new(to), secrets, before: Vec::new(), offered: None, broken: None };
        Ok(Self { tape: Arc::new(Mutex::new(tape)) })
    }

    /// A model whose answers are recorded.
    pub fn model(&self, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(RecordedModel { recorder: self.clone(), model })
    }

    /// Tools whose answers are recorded.
    pub fn tools(&self, turns: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        let recorder = self.clone();
        Arc::new(move || Arc::new(RecordedTools { recorder: recorder.clone(), tools: turns.turn() }) as Arc<dyn Tools>)
    }

    /// Why the recording is not whole, if it is not.
    pub fn broken(&self) -> Option<String> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner).broken.clone()
    }

    fn asked(&self, ask: &ModelRequest<'_>, result: &Result<ModelResponse, ModelError>) {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let from = tape.known(ask.messages);
        tape.before.truncate(from);
        tape.before.extend_from_slice(&ask.messages[from..]);
        let offered: Vec<Shown> = ask.tools.iter().map(Shown::from).collect();
        let changed = tape.offered.as_ref() != Some(&offered);
        if changed {
            tape.offered = Some(offered.clone());
        }
        let ask = Asked {
            from,
            messages: ask.messages[from..].to_vec(),
            offered: changed.then_some(offered),
            options: ask.options.clone(),
        };
        let (answer, error) = match result.clone() {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(error)),
        };
        tape.write(&Exchange { ask: Some(ask), answer, error, ..Exchange::default() });
    }

    fn called(&self, call: &ToolCall, result: &Result<ToolOutput, CallFailed>) {
        let (output, failed) = match result {
            Ok(output) => (Some(output.raw.clone()), None),
            Err(failed) => (None::<Json>, Some(Failed::from(failed))),
        };
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        tape.write(&Exchange { call: Some(call.clone()), output, failed, ..Exchange::default() });
    }
}

impl Tape {
    /// How many messages are those of the question before.
    fn known(&self, messages: &[Message]) -> usize {
        let many = self.before.len();
        // Messages are added at the end; then the first and the last are the same, and so are those between them.
        if let (Some(last), true) = (self.before.last(), self.before.first() == messages.first())
            && messages.get(many - 1) == Some(last)
        {
            return many;
        }
        self.before.iter().zip(messages).take_while(|(before, now)| before == now).count()
    }

    fn write(&mut self, exchange: &Exchange) {
        if self.broken.is_some() {
            return;
        }
        let written = serde_json::to_string(exchange).map_err(io::Error::from).and_then(|mut line| {
            for secret in &self.secrets {
                line = line.replace(secret.as_str(), "[secret]");
            }
            line.push('\n');
            self.to.write_all(line.as_bytes())?;
            self.to.flush()
        });
        if let Err(error) = written {
            self.broken = Some(error.to_string());
        }
    }
}

struct RecordedModel {
    recorder: Recorder,
    model: Arc<dyn Model>,
}

impl Model for RecordedModel {
    fn interface(&self) -> &str {
        self.model.interface()
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let result = self.model.ask(ask).await;
            self.recorder.asked(ask, &result);
            result
        })
    }

    fn window(&self) -> BoxFuture<'_, Option<u64>> {
        self.model.window()
    }
}

struct RecordedTools {
    recorder: Recorder,
    tools: Arc<dyn Tools>,
}

impl Tools for RecordedTools {
    fn offered(&self) -> &[ToolDefinition] {
        self.tools.offered()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            let result = self.tools.call(call).await;
            self.recorder.called(call, &result);
            result
        })
    }
}
