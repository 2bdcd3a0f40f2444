//! What an answer cost. Here, what came from a cache is counted as input already.

use serde_json::Value;
use wharf_protocol::Usage;

pub(super) fn usage(told: &Value) -> Usage {
    let number = |places: &[&str]| places.iter().find_map(|place| told.pointer(place)?.as_u64()).unwrap_or_default();
    Usage {
        input_tokens: number(&["/prompt_tokens"]),
        output_tokens: number(&["/completion_tokens"]),
        cache_read_tokens: number(&["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"]),
        cache_write_tokens: number(&["/prompt_tokens_details/cache_write_tokens"]),
        reasoning_tokens: number(&["/completion_tokens_details/reasoning_tokens"]),
        cost_usd: told.get("cost").and_then(Value::as_f64),
    }
}
