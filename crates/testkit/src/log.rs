//! The messages that a scripted server has received, line by line.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// The lines that a server has received on all its connections.
#[derive(Clone, Debug, Default)]
pub struct WireLog(Arc<Mutex<Vec<String>>>);

impl WireLog {
    /// Reads the log that a child process wrote.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn from_file(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("the server writes its log");
        Self(Arc::new(Mutex::new(text.lines().map(str::to_owned).collect())))
    }

    pub(crate) fn add(&self, line: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }

    /// Returns all lines, unparsed.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns all valid messages, parsed.
    pub fn messages(&self) -> Vec<Value> {
        self.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the methods of all requests and notifications, in order.
    pub fn methods(&self) -> Vec<String> {
        self.messages().iter().filter_map(|message| Some(message.get("method")?.as_str()?.to_owned())).collect()
    }

    /// Returns how many messages have this method.
    pub fn count(&self, method: &str) -> usize {
        self.methods().iter().filter(|one| *one == method).count()
    }

    /// Returns the parameters of the last message with this method.
    pub fn last_params(&self, method: &str) -> Option<Value> {
        self.messages().into_iter().rev().find(|message| message["method"] == method).map(|mut m| m["params"].take())
    }
}
