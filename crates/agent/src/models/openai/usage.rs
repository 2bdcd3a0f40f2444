//! Token counts of a response. Input tokens include cached tokens in this API.

use serde_json::Value;
use wharf_protocol::Usage;

pub(super) fn usage(reported: &Value) -> Usage {
    let number =
        |fields: &[&str]| fields.iter().find_map(|field| reported.pointer(field)?.as_u64()).unwrap_or_default();
    Usage {
        input_tokens: number(&["/prompt_tokens"]),
        output_tokens: number(&["/completion_tokens"]),
        cache_read_tokens: number(&["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"]),
        cache_write_tokens: number(&["/prompt_tokens_details/cache_write_tokens"]),
        reasoning_tokens: number(&["/completion_tokens_details/reasoning_tokens"]),
        // A provider that pays the user does not exist.
        cost_usd: reported.get("cost").and_then(Value::as_f64).filter(|cost| cost.is_finite() && *cost >= 0.0),
    }
}
