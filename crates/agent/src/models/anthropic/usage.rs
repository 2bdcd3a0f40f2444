//! Token counts of a response, converted to the common form. Input tokens exclude cached tokens in this API.

use serde_json::Value;
use wharf_protocol::Usage;

/// The latest reported token counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageCounter {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl UsageCounter {
    /// Adds reported counts. Providers may omit some of them in each report.
    pub(super) fn add(&mut self, usage: &Value) {
        let mut update = |field: &str, counter: fn(&mut Self) -> &mut u64| {
            if let Some(number) = usage.pointer(field).and_then(Value::as_u64) {
                *counter(self) = number;
            }
        };
        update("/input_tokens", |counter| &mut counter.input);
        update("/output_tokens", |counter| &mut counter.output);
        update("/cache_read_input_tokens", |counter| &mut counter.cache_read);
        update("/cache_creation_input_tokens", |counter| &mut counter.cache_write);
        update("/output_tokens_details/thinking_tokens", |counter| &mut counter.reasoning);
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
