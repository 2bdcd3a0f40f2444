//! Records the responses of a model and the results of its tools.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wharf_protocol::{
    BoxFuture, CallFailed, Json, Message, Redactor, ServerInstructions, ToolCall, ToolDefinition, ToolOutput,
    ToolSource, Tools,
};

use super::{Exchange, Header, RecordedFailure, RecordedPurpose, RecordedRequest, RecordedTool, VERSION};
use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse, RequestPurpose};

/// Records a cassette. Wrap the [model](Recorder::model) and its [tools](Recorder::tools) with the same recorder.
#[derive(Clone)]
pub struct Recorder {
    cassette: Arc<Mutex<CassetteWriter>>,
}

struct CassetteWriter {
    writer: Box<dyn Write + Send>,
    redactor: Redactor,
    /// Messages of the previous turn.
    previous: Vec<Message>,
    /// How often the conversation of the previous turn was compacted.
    compactions: usize,
    /// Tools of the previous request.
    tools: Option<Vec<RecordedTool>>,
    /// Instructions of the previous request.
    instructions: Vec<ServerInstructions>,
    /// Why writing failed.
    failure: Option<String>,
}

impl Recorder {
    /// Starts a recording of a model, `INTERFACE:NAME`, without the secrets that the redactor knows, now or later.
    ///
    /// # Errors
    /// Returns an error if the first line cannot be written.
    pub fn new(mut writer: impl Write + Send + 'static, model: &str, redactor: Redactor) -> io::Result<Self> {
        let header = Header { cassette: VERSION, model: Some(redactor.redact(model).into_owned()) };
        writeln!(writer, "{}", serde_json::to_string(&header)?)?;
        writer.flush()?;
        let cassette = CassetteWriter {
            writer: Box::new(writer),
            redactor,
            previous: Vec::new(),
            compactions: 0,
            tools: None,
            instructions: Vec::new(),
            failure: None,
        };
        Ok(Self { cassette: Arc::new(Mutex::new(cassette)) })
    }

    /// Wraps a model and records its responses.
    pub fn model(&self, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(RecordedModel { recorder: self.clone(), model })
    }

    /// Wraps a source of tools and records their results.
    pub fn tools(&self, source: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        let recorder = self.clone();
        Arc::new(move || Arc::new(RecordedTools { recorder: recorder.clone(), tools: source.turn() }) as Arc<dyn Tools>)
    }

    /// Returns why the recording is incomplete, if writing failed.
    pub fn failure(&self) -> Option<String> {
        self.cassette.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }

    fn record_request(&self, request: &ModelRequest<'_>, result: &Result<ModelResponse, ModelError>) {
        let mut cassette = self.cassette.lock().unwrap_or_else(PoisonError::into_inner);
        let (response, error) = match result.clone() {
            Ok(response) => (Some(response), None),
            Err(error) => (None, Some(error)),
        };
        let compactions = match request.purpose {
            RequestPurpose::Turn { compactions } => compactions,
            RequestPurpose::Summary => {
                let request = RecordedRequest {
                    shared: 0,
                    messages: request.messages.to_vec(),
                    tools: None,
                    instructions: None,
                    options: request.options.clone(),
                    purpose: Some(RecordedPurpose::Summary),
                };
                cassette.write(&Exchange { request: Some(request), response, error, ..Exchange::default() });
                return;
            }
        };
        let shared = cassette.shared_messages(request.messages, compactions);
        cassette.compactions = compactions;
        cassette.previous.truncate(shared);
        cassette.previous.extend_from_slice(&request.messages[shared..]);
        let tools: Vec<RecordedTool> = request.tools.iter().map(RecordedTool::from).collect();
        let changed = cassette.tools.as_ref() != Some(&tools);
        if changed {
            cassette.tools = Some(tools.clone());
        }
        let instructions = (cassette.instructions != request.instructions).then(|| request.instructions.to_vec());
        if let Some(instructions) = &instructions {
            cassette.instructions.clone_from(instructions);
        }
        let request = RecordedRequest {
            shared,
            messages: request.messages[shared..].to_vec(),
            tools: changed.then_some(tools),
            instructions,
            options: request.options.clone(),
            purpose: None,
        };
        cassette.write(&Exchange { request: Some(request), response, error, ..Exchange::default() });
    }

    fn record_window(&self, window: Option<u64>) {
        let mut cassette = self.cassette.lock().unwrap_or_else(PoisonError::into_inner);
        cassette.write(&Exchange { window: Some(window.unwrap_or(0)), ..Exchange::default() });
    }

    fn record_call(&self, call: &ToolCall, result: &Result<ToolOutput, CallFailed>) {
        let (output, failed) = match result {
            Ok(output) => (Some(output.raw.clone()), None),
            Err(failed) => (None::<Json>, Some(RecordedFailure::from(failed))),
        };
        let mut cassette = self.cassette.lock().unwrap_or_else(PoisonError::into_inner);
        cassette.write(&Exchange { call: Some(call.clone()), output, failed, ..Exchange::default() });
    }
}

impl CassetteWriter {
    /// Returns how many messages are the same as in the previous request.
    fn shared_messages(&self, messages: &[Message], compactions: usize) -> usize {
        let count = self.previous.len();
        // Without a compaction messages are only appended. If the first and the last are the same, so are those between
        // them.
        if let (Some(last), true) = (self.previous.last(), self.previous.first() == messages.first())
            && compactions == self.compactions
            && messages.get(count - 1) == Some(last)
        {
            return count;
        }
        self.previous.iter().zip(messages).take_while(|(before, now)| before == now).count()
    }

    fn write(&mut self, exchange: &Exchange) {
        if self.failure.is_some() {
            return;
        }
        let written = serde_json::to_string(exchange).map_err(io::Error::from).and_then(|line| {
            let mut line = self.redactor.redact_json(&line).into_owned();
            line.push('\n');
            self.writer.write_all(line.as_bytes())?;
            self.writer.flush()
        });
        if let Err(error) = written {
            self.failure = Some(error.to_string());
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

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let result = self.model.complete(request).await;
            self.recorder.record_request(request, &result);
            result
        })
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            let window = self.model.context_window().await;
            self.recorder.record_window(window);
            window
        })
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

    fn search_tool(&self) -> Option<&str> {
        self.tools.search_tool()
    }

    fn instructions(&self) -> &[ServerInstructions] {
        self.tools.instructions()
    }

    fn time_asked(&self) -> Duration {
        self.tools.time_asked()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            let result = self.tools.call(call).await;
            self.recorder.record_call(call, &result);
            result
        })
    }
}
