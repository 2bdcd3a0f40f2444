//! The work of reading a whole schema document, before any of it is compiled.
//!
//! The compiler validates the document against its metaschema first. That includes definitions which no reference
//! reaches, so the graph of subschemas does not show this work.

use serde_json::Value;

use super::error::SchemaError;
use super::size::{Size, compared_with_each_other, parsed_as_regex, scanned};

/// The most work of reading a document: about a second.
const MAX_DOCUMENT_WORK: u64 = 2_000_000;
/// The most work of reading a document where it arrives: a few milliseconds.
const MAX_SMALL_DOCUMENT_WORK: u64 = 40_000;
/// The most bytes of a document. Larger ones are not even parsed.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;
/// How many subschemas of a metaschema apply to each value of a document, about.
const WORK_PER_VALUE: u64 = 20;
/// How often the text of a document is read: as a key, as a URI, as a reference.
const SCANS: u64 = 32;

/// The most bytes of all URIs of a document together, when each has its base.
const MAX_URI_BYTES: u64 = 16 << 20;

/// Refuses a document that is too large to be parsed.
pub(super) fn check_bytes(text: &str) -> Result<(), SchemaError> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(SchemaError::OverBudget(format!("it has more than {MAX_DOCUMENT_BYTES} bytes")));
    }
    Ok(())
}

/// Returns the work of reading a document, and fails if that is too much.
pub(super) fn work(document: &Value) -> Result<u64, SchemaError> {
    let size = Size::of(document, 1);
    let read = size.values.saturating_mul(WORK_PER_VALUE).saturating_add(scanned(size.bytes, SCANS));
    if read > MAX_DOCUMENT_WORK {
        return Err(SchemaError::OverBudget("the document is too large".to_owned()));
    }
    let uris = uri_bytes(document, 0);
    if uris > MAX_URI_BYTES {
        return Err(SchemaError::OverBudget("its `$id` and the references below it are too long".to_owned()));
    }
    let work = read.saturating_add(compared(document)).saturating_add(scanned(uris, 1));
    if work > MAX_DOCUMENT_WORK {
        let reason = "validating the schema itself would take too much work";
        return Err(SchemaError::OverBudget(reason.to_owned()));
    }
    Ok(work)
}

/// Whether a document with this work can be read immediately.
pub(super) fn is_small(work: u64) -> bool {
    work <= MAX_SMALL_DOCUMENT_WORK
}

/// Returns the bytes of the URIs of all subschemas and references below a base of so many bytes: the compiler copies the
/// base for each. Relative bases are appended to each other.
fn uri_bytes(value: &Value, base: u64) -> u64 {
    let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    match value {
        Value::Array(several) => sum(&mut several.iter().map(|one| uri_bytes(one, base))),
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str).map(|text| text.len() as u64);
            let base = ["$id", "id"].iter().filter_map(|key| text(key)).fold(base, u64::saturating_add);
            let others = ["$ref", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"];
            let own = sum(&mut others.iter().filter_map(|key| text(key)).map(|bytes| base.saturating_add(bytes)));
            let inner = sum(&mut fields.values().map(|one| uri_bytes(one, base)));
            base.saturating_add(own).saturating_add(inner)
        }
        _ => 0,
    }
}

/// Returns the work of what takes the square of its length: lists whose elements must be unique, and expressions. Their
/// keywords count wherever they are, because a metaschema may apply there.
fn compared(value: &Value) -> u64 {
    let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    match value {
        Value::Array(several) => sum(&mut several.iter().map(compared)),
        Value::Object(fields) => sum(&mut fields.iter().map(|(key, value)| {
            let own = match (key.as_str(), value) {
                ("required" | "type" | "enum", list) => compared_with_each_other(list),
                ("dependentRequired" | "dependencies", Value::Object(named)) => {
                    sum(&mut named.values().map(compared_with_each_other))
                }
                ("pattern", Value::String(pattern)) => parsed_as_regex(pattern.len() as u64),
                ("patternProperties", Value::Object(named)) => {
                    sum(&mut named.keys().map(|pattern| parsed_as_regex(pattern.len() as u64)))
                }
                _ => 0,
            };
            own.saturating_add(compared(value))
        })),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wharf_protocol::Json;

    use super::*;
    use crate::Schema;

    /// Arrays of empty arrays, which differ but have the same hash.
    fn trees(count: usize) -> Vec<Value> {
        let tree = |number: usize| (0..14).map(move |bit| if number >> bit & 1 == 1 { json!([[]]) } else { json!([]) });
        (0..count).map(|number| tree(number).collect()).collect()
    }

    #[test]
    fn lists_that_a_metaschema_compares_count_wherever_they_are() {
        let trees = trees(1_000);
        for draft in ["draft-04/schema#", "draft-06/schema#", "draft-07/schema#"] {
            let draft = format!("http://json-schema.org/{draft}");
            for list in [
                json!({"required": trees}),
                json!({"type": trees}),
                json!({"enum": trees}),
                json!({"dependencies": {"a": trees}}),
                json!({"dependentRequired": {"a": trees}}),
                json!({"enum": (0..2_000_u64).map(|number| (1 << 63) + number).collect::<Vec<_>>()}),
                json!({"pattern": (0..20_000).map(|number| format!("(?P<a{number}>)")).collect::<Vec<_>>().concat()}),
            ] {
                let schema = json!({"$schema": draft, "type": "object", "definitions": {"a": list}});
                let weight = Schema::weight(&schema);
                assert!(matches!(weight, Err(SchemaError::OverBudget(_))), "{}", &list.to_string()[..30]);
            }
        }
    }

    #[test]
    fn a_document_is_bounded_also_where_nothing_refers_to_it() {
        let definitions = |count: usize| {
            let one = |number: usize| (format!("a{number}"), json!({"properties": {"x": {"type": "string"}}}));
            json!({"type": "object", "$defs": (0..count).map(one).collect::<serde_json::Map<_, _>>()})
        };
        assert!(Schema::weight(&definitions(10_000)).is_ok());
        assert!(matches!(Schema::weight(&definitions(300_000)), Err(SchemaError::OverBudget(_))));
        let long = Json::from(json!({"description": "a".repeat(5 << 20)}));
        assert!(matches!(Schema::compile(&long), Err(SchemaError::OverBudget(reason)) if reason.contains("bytes")));
    }

    #[test]
    fn long_base_uris_count_for_each_reference_below_them() {
        let references = |key: &str, count: usize| {
            let one = |number: usize| (format!("a{number}"), json!({key: format!("?{number}")}));
            (0..count).map(one).collect::<serde_json::Map<_, _>>()
        };
        let long = format!("http://a.test/{}", "a".repeat(100_000));
        let short = "http://a.test/schemas/one.json";
        for key in ["$ref", "$dynamicRef", "$anchor", "$id"] {
            for (id, is_ok) in [(&*long, false), (short, true)] {
                let flat = json!({"$id": id, "type": "object", "$defs": references(key, 500)});
                let nested = json!({"type": "object", "$defs": {"q": {"$id": id, "$defs": references(key, 500)}}});
                for schema in [flat, nested] {
                    let weight = work(&schema);
                    assert_eq!(weight.is_ok(), is_ok, "{key} {weight:?}");
                }
            }
        }
        // Nested relative bases grow with each level.
        let deep = (0..100).fold(json!({"$ref": "#"}), |inner, _| json!({"$id": "a".repeat(10_000), "not": inner}));
        assert!(matches!(work(&deep), Err(SchemaError::OverBudget(reason)) if reason.contains("$id")));
    }

    #[tokio::test]
    async fn a_large_document_is_compiled_where_it_delays_no_other_task() {
        let one = |number: usize| (format!("a{number}"), json!({"type": "string"}));
        let definitions: serde_json::Map<_, _> = (0..3_000).map(one).collect();
        let schema = Json::from(json!({"type": "object", "$defs": definitions}));
        let mut compile = Box::pin(Schema::compile_in_background(&schema, None));
        assert!(futures_util::poll!(&mut compile).is_pending());
        assert!(compile.await.is_ok());
    }
}
