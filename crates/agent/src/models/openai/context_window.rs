//! The context window of a model, from the provider's list of models.

use serde_json::Value;

use super::super::endpoint::Endpoint;
use super::super::wire;
use crate::{ModelError, ModelErrorKind};

/// The field names of vLLM, `OpenRouter`, Groq, LM Studio, Mistral and llama.cpp.
const FIELDS: [&str; 7] = [
    "/max_model_len",
    "/context_length",
    "/context_window",
    "/loaded_context_length",
    "/max_context_length",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

/// Requests the list and finds the model's context window. An error may be transient.
pub(super) async fn find(endpoint: &Endpoint, model: &str) -> Result<Option<u64>, ModelError> {
    let listed = match wire::get(endpoint, "/models").await {
        Ok(listed) => listed,
        // A provider without such a list does not get one later.
        Err(error) if matches!(error.kind, ModelErrorKind::Invalid | ModelErrorKind::WrongUrl) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(serde_json::from_str(&listed).ok().and_then(|listed| window(&listed, model)))
}

fn window(listed: &Value, model: &str) -> Option<u64> {
    let models = listed.get("data").or_else(|| listed.get("models")).unwrap_or(listed).as_array()?;
    let named = |entry: &&Value| entry.get("id").or_else(|| entry.get("name")).and_then(Value::as_str) == Some(model);
    let only = || if models.len() == 1 { models.first() } else { None };
    let entry = models.iter().find(named).or_else(only)?;
    FIELDS.iter().find_map(|field| entry.pointer(field)?.as_u64()).filter(|window| *window > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_context_window_has_many_field_names() {
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
