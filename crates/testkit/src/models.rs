//! Models that say what they are told to say, over the true wire formats of the Messages API and of Chat Completions.
//!
//! A script is a list of [`Turn`]s; each request takes the next one. Which wire is spoken is told by the path, and whether
//! the answer comes in pieces by the request. Every request is kept, to be looked at.

mod anthropic;
mod openai;
mod serve;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::SeenRequest;

/// The models of one provider, shared by all its connections.
#[derive(Clone, Default)]
pub struct FakeModels {
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    turns: VecDeque<Turn>,
    listed: Value,
    requests: Vec<SeenRequest>,
}

/// What one request gets.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    says: Says,
    stop: Option<String>,
    tokens: Tokens,
    faults: Vec<Fault>,
    split: Split,
}

/// What is said.
#[derive(Clone, Debug)]
enum Says {
    /// On any wire.
    Pieces(Vec<Piece>),
    /// The blocks of the Messages API, as they are written.
    Blocks(Vec<String>),
    /// The message of Chat Completions, as it is written.
    Message(String),
}

impl Default for Says {
    fn default() -> Self {
        Self::Pieces(Vec::new())
    }
}

/// A piece of an answer.
#[derive(Clone, Debug)]
enum Piece {
    Thinking(String),
    Text(String),
    Call { id: String, name: String, arguments: String },
}

/// What an answer costs. What goes in counts with what comes from a cache or goes into one, as in Wharf.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// In all.
    pub input: u64,
    /// In all.
    pub output: u64,
    /// Of those that go in.
    pub cache_read: u64,
    /// Of those that go in.
    pub cache_write: u64,
    /// Of those that come out.
    pub reasoning: u64,
    /// In US dollars, for those who tell.
    pub cost: Option<f64>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { input: 10, output: 5, cache_read: 0, cache_write: 0, reasoning: 0, cost: None }
    }
}

/// How an answer is cut into pieces.
#[derive(Clone, Copy, Debug)]
struct Split {
    /// Texts, by characters.
    texts: usize,
    /// The stream itself, by bytes, wherever that is; whole events if 0.
    bytes: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self { texts: 4, bytes: 0 }
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A refusal: status, headers, body.
    Status(u16, Vec<(String, String)>, String),
    /// There is never an answer.
    HangBeforeHead,
    /// The connection ends without an answer.
    HangUp,
    /// The answer begins and never goes on.
    HangMidway,
    /// The answer begins, and then comes one event a second that says nothing, without end; in one piece it is a space.
    Drip,
    /// The connection breaks in the middle of an event, or of the document.
    CutMidEvent,
    /// The stream ends in good order, but before the answer does.
    EndEarly,
    /// An error of this type and in these words comes in the middle of the answer, or instead of it.
    ErrorEvent(String, String),
    /// An event, or the document, is no JSON.
    Garbage,
    /// The first event of a message is left out, as llama.cpp does.
    NoMessageStart,
    /// The tokens that went in are not told with those that came out.
    NoInputTokens,
    /// Calls have no ids.
    NoIds,
    /// All calls have the same id.
    SameIds,
    /// All calls have the same index.
    SameIndex,
    /// The last word of a stream is left out.
    NoDoneEvent,
    /// The answer comes in one piece, whatever was asked for.
    NotStreamed,
    /// The connection is not there any more when it is used again, though nobody was told.
    StaleConnection,
    /// The stream stays open when all has been said.
    StayOpen,
}

impl Turn {
    /// An answer of a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().saying(text)
    }

    /// These blocks of the Messages API, byte for byte.
    pub fn blocks(blocks: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { says: Says::Blocks(blocks.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// This message of Chat Completions, byte for byte.
    pub fn message(message: impl Into<String>) -> Self {
        Self { says: Says::Message(message.into()), ..Self::default() }
    }

    /// Nothing but this.
    pub fn fault(fault: Fault) -> Self {
        Self::text("The quick brown fox jumps over the lazy dog.").with(fault)
    }

    /// A refusal.
    pub fn status(status: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self::fault(Fault::Status(status, headers.collect(), body.into()))
    }

    /// With one more text.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        self.and(Piece::Text(text.into()))
    }

    /// With a thought.
    #[must_use]
    pub fn thinking(self, thought: impl Into<String>) -> Self {
        self.and(Piece::Thinking(thought.into()))
    }

    /// With a call; its arguments are written as they stand here.
    #[must_use]
    pub fn calling(self, id: &str, name: &str, arguments: &str) -> Self {
        self.and(Piece::Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() })
    }

    /// With this that goes wrong.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// At this cost.
    #[must_use]
    pub fn costing(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Ending for this reason, in the word of the wire.
    #[must_use]
    pub fn stopping(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// In a stream of so many bytes at a time, with texts of so many characters at a time.
    #[must_use]
    pub fn split(mut self, bytes: usize, texts: usize) -> Self {
        self.split = Split { texts: texts.max(1), bytes };
        self
    }

    fn and(mut self, piece: Piece) -> Self {
        match &mut self.says {
            Says::Pieces(pieces) => pieces.push(piece),
            Says::Blocks(_) | Says::Message(_) => self.says = Says::Pieces(vec![piece]),
        }
        self
    }

    fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    /// A text in pieces.
    fn pieces_of(&self, text: &str) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.chunks(self.split.texts).map(|piece| piece.iter().collect()).collect()
    }
}

impl FakeModels {
    /// A provider with a script.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let state = State { turns: turns.into_iter().collect(), ..State::default() };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// With this list of models.
    #[must_use]
    pub fn listing(self, listed: Value) -> Self {
        self.state().listed = listed;
        self
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state().requests.clone()
    }

    /// The bodies of the requests so far; those without one left out.
    ///
    /// # Panics
    /// If one is no JSON.
    pub fn bodies(&self) -> Vec<Value> {
        let requests = self.requests().into_iter().filter(|request| !request.body.is_empty());
        requests.map(|request| serde_json::from_str(&request.body).expect("bodies are JSON")).collect()
    }

    /// How many turns nobody has asked for yet.
    pub fn remaining_turns(&self) -> usize {
        self.state().turns.len()
    }

    /// Serves one HTTP/1.1 connection until its end.
    pub async fn serve_connection(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        serve::connection(self, stream, 1).await;
    }

    /// Serves real TCP on a free port of this machine.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn listen(&self) -> ListeningModels {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("what listens has an address");
        let mut accepting = JoinSet::new();
        accepting.spawn(serve::accept(self.clone(), listener));
        ListeningModels { address, _accepting: accepting }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A provider that accepts connections. Dropping it closes them all, and the port.
pub struct ListeningModels {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

impl ListeningModels {
    /// The base URL of the Messages API.
    pub fn anthropic_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL of Chat Completions.
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}
