//! Checks whether a schema is usable, without compiling it: servers list thousands of tools, and few are ever called.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::resolve::lookup;

/// The valid types.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Keywords that hold one schema.
const ONE: [&str; 10] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that hold a list of schemas.
const SEVERAL: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold named schemas.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// The longest path in a message, in characters.
const MAX_PLACE_CHARS: usize = 200;

/// Returns the first fault with its path, if the schema is unusable.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut walk = Walk { places: Vec::new(), references: Vec::new(), anchors: HashSet::new() };
    walk.schema(schema, None)?;
    let Value::Object(document) = schema else { return Ok(()) };
    for (at, reference) in &walk.references {
        let known = match reference.strip_prefix('#') {
            None => return walk.fault(*at, &format!("external `$ref` to `{reference}` is not supported")),
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => pointer.contains('%') || lookup(document, reference).is_some(),
            Some(anchor) => walk.anchors.contains(anchor),
        };
        if !known {
            return walk.fault(*at, &format!("`$ref` to `{reference}` has no target"));
        }
    }
    Ok(())
}

/// The index of a place below the root in [`Walk::places`]; `None` is the root.
type PlaceId = Option<usize>;

/// A step of a path. A path is written only for a message: with long names, one for each reference would take much more
/// memory than the schema.
#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

struct Walk<'a> {
    /// Each place's parent and last step.
    places: Vec<(PlaceId, Step<'a>)>,
    references: Vec<(PlaceId, &'a str)>,
    anchors: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, at: PlaceId) -> Result<(), String> {
        let fields = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(fields) => fields,
            _ => return self.fault(at, "not a schema"),
        };
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("type", Value::String(one)) if TYPES.contains(&one.as_str()) => {}
                ("type", Value::Array(several))
                    if several.iter().all(|one| one.as_str().is_some_and(|one| TYPES.contains(&one))) => {}
                ("type", other) => return self.fault(at, &format!("invalid type {other}")),
                ("required", Value::Array(names)) if names.iter().all(Value::is_string) => {}
                // Draft 3 had a flag here, and some servers still send it. It is ignored.
                ("required", Value::Bool(_)) if at.is_some() => {}
                ("required", _) => return self.fault(at, "`required` is not a list of names"),
                ("enum", Value::Array(_)) => {}
                ("enum", _) => return self.fault(at, "`enum` is not a list"),
                ("$ref" | "$dynamicRef", Value::String(reference)) => self.references.push((at, reference)),
                ("$ref" | "$dynamicRef", _) => return self.fault(at, "`$ref` is not a string"),
                ("$anchor" | "$dynamicAnchor", Value::String(anchor)) => drop(self.anchors.insert(anchor)),
                ("items", Value::Array(several)) => self.several(several, key, at)?,
                ("items", one) => self.inner(one, Step::Name(key), at)?,
                (key, one) if ONE.contains(&key) => self.inner(one, Step::Name(key), at)?,
                (key, Value::Array(several)) if SEVERAL.contains(&key) => self.several(several, key, at)?,
                (key, Value::Object(named)) if NAMED.contains(&key) => {
                    let inside = self.place(Step::Name(key), at);
                    for (name, one) in named {
                        self.inner(one, Step::Name(name), Some(inside))?;
                    }
                }
                (key, _) if SEVERAL.contains(&key) => {
                    return self.fault(at, &format!("`{key}` is not a list of schemas"));
                }
                (key, _) if NAMED.contains(&key) => {
                    return self.fault(at, &format!("`{key}` is not an object of schemas"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn several(&mut self, several: &'a [Value], key: &'a str, at: PlaceId) -> Result<(), String> {
        let inside = self.place(Step::Name(key), at);
        several.iter().enumerate().try_for_each(|(index, one)| self.inner(one, Step::Index(index), Some(inside)))
    }

    fn inner(&mut self, schema: &'a Value, step: Step<'a>, at: PlaceId) -> Result<(), String> {
        let inside = self.place(step, at);
        self.schema(schema, Some(inside))
    }

    /// Adds a place and returns its index.
    fn place(&mut self, step: Step<'a>, parent: PlaceId) -> usize {
        self.places.push((parent, step));
        self.places.len() - 1
    }

    fn fault(&self, at: PlaceId, what: &str) -> Result<(), String> {
        let mut steps = Vec::new();
        let mut next = at;
        while let Some((parent, step)) = next.and_then(|id| self.places.get(id)) {
            steps.push(*step);
            next = *parent;
        }
        let mut path = String::new();
        for step in steps.iter().rev() {
            let _ = match step {
                Step::Name(name) => write!(path, "/{name}"),
                Step::Index(index) => write!(path, "/{index}"),
            };
        }
        if let Some((end, _)) = path.char_indices().nth(MAX_PLACE_CHARS) {
            path.truncate(end);
            path.push('…');
        }
        Err(if path.is_empty() { what.to_owned() } else { format!("at `{path}`: {what}") })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_path_in_a_message_is_cut() {
        let fault = check(&json!({"$defs": {"a".repeat(1_000): {"type": "text"}}})).unwrap_err();
        assert_eq!(fault, format!("at `/$defs/{}…`: invalid type \"text\"", "a".repeat(193)));
    }
}
