//! Saved runs: the first line holds the whole run, and each further line the changes since.
//!
//! ```text
//! {"messages":[…all…],"progress":{…}}
//! {"messages":[…new…],"progress":{…}}
//! ```
//!
//! Saving a long run this way does not write the whole conversation again. Messages are stored as received, so a value
//! can span several lines of text.

use serde::Serialize;
use wharf_protocol::Message;

use super::{InvalidRun, Progress, Run};
use crate::{Compaction, InstructionsTrace};

#[derive(Serialize)]
struct Line<'a> {
    messages: &'a [Message],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    instructions: &'a [InstructionsTrace],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    compactions: &'a [Compaction],
    progress: &'a Progress,
}

/// Writes a run without its first `from` messages.
pub(super) fn write(run: &Run, from: usize) -> String {
    let Run { messages, instructions, compactions, progress, .. } = run;
    let line = Line {
        messages: &messages[from.min(messages.len())..],
        instructions: &instructions[instructions.partition_point(|trace| trace.messages < from)..],
        compactions: &compactions[compactions.partition_point(|compaction| compaction.messages < from)..],
        progress,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Returns whether the last value was not written completely: the final line break is missing, or belongs to the value.
/// The category of the error is not reliable, because the error may come from inside a message.
fn is_torn(bytes: &[u8], error: &serde_json::Error) -> bool {
    !bytes.ends_with(b"\n") || error.to_string().starts_with("EOF while parsing")
}

/// Reads a saved run. The last value may be incomplete if the process was killed while writing it; it is ignored then.
pub(super) fn read(bytes: &[u8]) -> Result<Run, InvalidRun> {
    let mut found: Option<Run> = None;
    for read in serde_json::Deserializer::from_slice(bytes).into_iter::<Run>() {
        found = match (found, read) {
            (Some(before), Err(error)) if is_torn(bytes, &error) => return Ok(before),
            (_, Err(error)) => return Err(InvalidRun(error.to_string())),
            (None, Ok(run)) => Some(run),
            (Some(mut before), Ok(since)) => {
                before.messages.extend(since.messages);
                // The newest ones of a line may be in the next line again.
                if let Some(first) = since.instructions.first() {
                    before.instructions.retain(|trace| trace.messages < first.messages);
                }
                before.instructions.extend(since.instructions);
                if let Some(first) = since.compactions.first() {
                    before.compactions.retain(|compaction| compaction.messages < first.messages);
                }
                before.compactions.extend(since.compactions);
                Some(Run { progress: since.progress, ..before })
            }
        };
    }
    found.ok_or_else(|| InvalidRun("the file is empty".to_owned()))
}
