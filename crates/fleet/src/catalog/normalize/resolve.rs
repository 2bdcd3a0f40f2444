//! References inside a schema.

use serde_json::{Map, Value};

/// How many references in a row are followed.
pub(super) const MAX_HOPS: usize = 16;

/// Replaces the schema's own `$ref` by its target. Keywords beside the reference stay.
pub(super) fn resolved(
    schema: &Map<String, Value>,
    document: &Map<String, Value>,
    changes: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut schema = schema.clone();
    for _ in 0..MAX_HOPS {
        let Some(reference) = schema.shift_remove("$ref") else { return Ok(schema) };
        let reference = reference.as_str().unwrap_or_default().to_owned();
        let found = lookup(document, &reference).ok_or_else(|| format!("`$ref` to `{reference}` has no target"))?;
        match found {
            Value::Object(found) => {
                for (key, value) in found {
                    schema.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            Value::Bool(true) => {}
            _ => return Err(format!("`$ref` to `{reference}` accepts nothing")),
        }
        changes.push(format!("resolved `$ref` to `{reference}` at the root"));
    }
    Err("the root refers to itself".to_owned())
}

/// Returns the target of a reference inside the document.
pub(super) fn lookup<'a>(document: &'a Map<String, Value>, reference: &str) -> Option<&'a Value> {
    let path = reference.strip_prefix("#/")?;
    let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let found = document.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(found), |rest| found.pointer(&format!("/{rest}")))
}
