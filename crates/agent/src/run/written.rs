//! Runs as text: a line holds one as it is, and a line that follows tells what has come since.
//!
//! ```text
//! {"messages":[…all of them…],"progress":{…}}
//! {"messages":[…those that are new…],"progress":{…}}
//! ```
//!
//! So a long run is written down without writing its whole conversation over and over.

use serde::Serialize;
use wharf_protocol::Message;

use super::{InvalidRun, Progress, Run};

#[derive(Serialize)]
struct Line<'a> {
    messages: &'a [Message],
    progress: &'a Progress,
}

pub(super) fn write(messages: &[Message], progress: &Progress) -> String {
    serde_json::to_string(&Line { messages, progress }).unwrap_or_default()
}

/// The last line may be torn, where whoever wrote it was killed: then the one before counts.
pub(super) fn read(text: &str) -> Result<Run, InvalidRun> {
    let mut found: Option<Run> = None;
    for line in text.split_inclusive('\n') {
        let read = serde_json::from_str::<Run>(line);
        found = match (found, read) {
            (None, read) => Some(read.map_err(|error| InvalidRun(error.to_string()))?),
            (Some(before), Err(_)) if !line.ends_with('\n') => Some(before),
            (Some(_), Err(error)) => return Err(InvalidRun(error.to_string())),
            (Some(mut before), Ok(since)) => {
                before.messages.extend(since.messages);
                Some(Run { progress: since.progress, ..before })
            }
        };
    }
    found.ok_or_else(|| InvalidRun("it is empty".to_owned()))
}
