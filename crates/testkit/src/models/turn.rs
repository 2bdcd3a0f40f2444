//! Scripted responses of models, and their faults.

/// The response to one request.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    pub(super) content: Content,
    pub(super) stop: Option<String>,
    pub(super) tokens: Tokens,
    pub(super) faults: Vec<Fault>,
    pub(super) split: Split,
}

/// The content of a response.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// For both APIs.
    Pieces(Vec<Piece>),
    /// Blocks of the Messages API, byte for byte.
    Blocks(Vec<String>),
    /// A message of Chat Completions, byte for byte.
    Message(String),
}

impl Default for Content {
    fn default() -> Self {
        Self::Pieces(Vec::new())
    }
}

/// A part of a response.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Thinking(String),
    Text(String),
    Call { id: String, name: String, arguments: String },
}

/// The token usage of a response. Input includes cached tokens, as in Wharf.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// All input tokens.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens for reasoning.
    pub reasoning: u64,
    /// Cost in US dollars, for providers that report it.
    pub cost: Option<f64>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { input: 10, output: 5, cache_read: 0, cache_write: 0, reasoning: 0, cost: None }
    }
}

/// The chunk sizes of a streamed response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Characters per text delta.
    pub(super) texts: usize,
    /// Bytes per chunk of the stream, regardless of events; whole events if 0.
    pub(super) bytes: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self { texts: 4, bytes: 0 }
    }
}

/// A fault of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error response: status, headers, body.
    Status(u16, Vec<(String, String)>, String),
    /// Never responds.
    HangBeforeHead,
    /// Sends the head of the response and nothing else, like a local model that reads a long prompt.
    HangAfterHead,
    /// Closes the connection without a response.
    HangUp,
    /// Stops in the middle of the response and keeps the connection open.
    HangMidway,
    /// Stops in the middle of the response, then sends an empty event every second forever; a space if not streamed.
    Drip,
    /// Closes the connection in the middle of an event, or of the document.
    CutMidEvent,
    /// Ends the stream cleanly, but before the end of the response.
    EndEarly,
    /// Sends an error of this type and message in the middle of the response, or instead of it.
    ErrorEvent(String, String),
    /// Sends an event, or a document, that is not JSON.
    Garbage,
    /// Omits the first event of a message, like llama.cpp.
    NoMessageStart,
    /// Omits the input tokens from the final usage.
    NoInputTokens,
    /// Omits the ids of calls.
    NoIds,
    /// Gives all calls the same id.
    SameIds,
    /// Gives all calls the same index.
    SameIndex,
    /// Omits the final `[DONE]` of a stream.
    NoDoneEvent,
    /// Does not stream, even if requested.
    NotStreamed,
    /// Fails the next request on the same connection, as if it had been closed meanwhile.
    StaleConnection,
    /// Keeps the stream open after the end of the response.
    StayOpen,
}

impl Turn {
    /// Creates a text response.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().saying(text)
    }

    /// Creates a response from blocks of the Messages API, byte for byte.
    pub fn blocks(blocks: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { content: Content::Blocks(blocks.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Creates a response from a message of Chat Completions, byte for byte.
    pub fn message(message: impl Into<String>) -> Self {
        Self { content: Content::Message(message.into()), ..Self::default() }
    }

    /// Creates a response with a fault.
    pub fn fault(fault: Fault) -> Self {
        Self::text("The quick brown fox jumps over the lazy dog.").with(fault)
    }

    /// Creates an error response.
    pub fn status(status: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self::fault(Fault::Status(status, headers.collect(), body.into()))
    }

    /// Adds a text.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        self.and(Piece::Text(text.into()))
    }

    /// Adds a thought.
    #[must_use]
    pub fn thinking(self, thought: impl Into<String>) -> Self {
        self.and(Piece::Thinking(thought.into()))
    }

    /// Adds a call; its arguments are sent unchanged.
    #[must_use]
    pub fn calling(self, id: &str, name: &str, arguments: &str) -> Self {
        self.and(Piece::Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() })
    }

    /// Adds a fault.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Sets the token usage.
    #[must_use]
    pub fn costing(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Sets the stop reason, as sent on the wire.
    #[must_use]
    pub fn stopping(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Sets the bytes per chunk of the stream and the characters per text delta.
    #[must_use]
    pub fn split(mut self, bytes: usize, texts: usize) -> Self {
        self.split = Split { texts: texts.max(1), bytes };
        self
    }

    fn and(mut self, piece: Piece) -> Self {
        match &mut self.content {
            Content::Pieces(pieces) => pieces.push(piece),
            Content::Blocks(_) | Content::Message(_) => self.content = Content::Pieces(vec![piece]),
        }
        self
    }

    pub(super) fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    /// Splits a text into deltas.
    pub(super) fn split_text(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(self.split.texts).map(|piece| piece.iter().collect()).collect()
    }
}
