//! Runs as text: a line holds one as it is, and a line that follows tells what has come since.
//!
//! ```text
//! {"messages":[…all of them…],"progress":{…}}
//! {"messages":[…those that are new…],"progress":{…}}
//! ```
//!
//! So a long run is written down without writing its whole conversation over and over. What somebody said is kept as it was
//! written, so a line may be several for a text editor; for a reader it is one value.

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

/// Whether the last value was never written to its end: then the end of its line is missing, or was one inside it. What the
/// error is made of does not tell, since it may come from the depths of a message.
fn is_torn(bytes: &[u8], error: &serde_json::Error) -> bool {
    !bytes.ends_with(b"\n") || error.to_string().starts_with("EOF while parsing")
}

/// The last value may be torn, where whoever wrote it was killed: then the one before counts.
pub(super) fn read(bytes: &[u8]) -> Result<Run, InvalidRun> {
    let mut found: Option<Run> = None;
    for read in serde_json::Deserializer::from_slice(bytes).into_iter::<Run>() {
        found = match (found, read) {
            (Some(before), Err(error)) if is_torn(bytes, &error) => return Ok(before),
            (_, Err(error)) => return Err(InvalidRun(error.to_string())),
            (None, Ok(run)) => Some(run),
            (Some(mut before), Ok(since)) => {
                before.messages.extend(since.messages);
                Some(Run { progress: since.progress, ..before })
            }
        };
    }
    found.ok_or_else(|| InvalidRun("it is empty".to_owned()))
}
