//! What an answer cost, in the same numbers for everybody: here, what came from a cache is not counted as input.

use serde_json::Value;
use wharf_protocol::Usage;

/// The numbers as they are told; the later ones count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl Told {
    /// Takes what is told; not everybody tells everything every time.
    pub(super) fn hear(&mut self, usage: &Value) {
        let mut take = |place: &str, into: fn(&mut Self) -> &mut u64| {
            if let Some(number) = usage.pointer(place).and_then(Value::as_u64) {
                *into(self) = number;
            }
        };
        take("/input_tokens", |told| &mut told.input);
        take("/output_tokens", |told| &mut told.output);
        take("/cache_read_input_tokens", |told| &mut told.cache_read);
        take("/cache_creation_input_tokens", |told| &mut told.cache_write);
        take("/output_tokens_details/thinking_tokens", |told| &mut told.reasoning);
    }

    pub(super) fn usage(self) -> Usage {
        Usage {
            input_tokens: self.input.saturating_add(self.cache_read).saturating_add(self.cache_write),
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            reasoning_tokens: self.reasoning,
            cost_usd: None,
        }
    }
}
