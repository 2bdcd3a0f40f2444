//! The longest conversation a model takes, from the list of models, where it says so.

use serde_json::Value;

use super::super::endpoint::Endpoint;
use super::super::wire;
use crate::{ModelError, ModelErrorKind};

/// The names it goes by: vLLM, `OpenRouter`, Groq, LM Studio, Mistral, llama.cpp.
const PLACES: [&str; 7] = [
    "/max_model_len",
    "/context_length",
    "/context_window",
    "/loaded_context_length",
    "/max_context_length",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

/// Asks for it. An error is one that may be gone the next time.
pub(super) async fn find(endpoint: &Endpoint, model: &str) -> Result<Option<u64>, ModelError> {
    let listed = match wire::get(endpoint, "/models").await {
        Ok(listed) => listed,
        // Whoever has no such list has none later.
        Err(error) if error.kind == ModelErrorKind::Invalid => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(serde_json::from_str(&listed).ok().and_then(|listed| window(&listed, model)))
}

fn window(listed: &Value, model: &str) -> Option<u64> {
    let models = listed.get("data").or_else(|| listed.get("models")).unwrap_or(listed).as_array()?;
    let named = |entry: &&Value| entry.get("id").or_else(|| entry.get("name")).and_then(Value::as_str) == Some(model);
    let sole = || models.first().filter(|_| models.len() == 1);
    let entry = models.iter().find(named).or_else(sole)?;
    PLACES.iter().find_map(|place| entry.pointer(place)?.as_u64()).filter(|window| *window > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_window_goes_by_many_names() {
        for (entry, expected) in [
            (json!({"id":"m","max_model_len":1}), Some(1)),
            (json!({"id":"m","context_length":2}), Some(2)),
            (json!({"id":"m","context_window":3}), Some(3)),
            (json!({"id":"m","meta":{"n_ctx_train":4}}), Some(4)),
            (json!({"id":"m"}), None),
            (json!({"id":"m","context_length":0}), None),
        ] {
            let listed = json!({"data":[{"id":"other","context_length":99}, entry]});
            assert_eq!(window(&listed, "m"), expected, "{listed}");
        }
        assert_eq!(window(&json!({"data":[{"id":"file.gguf","meta":{"n_ctx":7}}]}), "m"), Some(7));
        assert_eq!(window(&json!({"data":[]}), "m"), None);
        assert_eq!(window(&json!("no"), "m"), None);
    }
}
