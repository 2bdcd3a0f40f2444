//! Checks whether a schema is usable, without compiling it: servers list thousands of tools, and few are ever called.

use std::collections::HashSet;

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

/// Returns the first fault with its path, if the schema is unusable.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut walk = Walk { references: Vec::new(), anchors: HashSet::new() };
    walk.schema(schema, "")?;
    let Value::Object(document) = schema else { return Ok(()) };
    for (at, reference) in walk.references {
        let known = match reference.strip_prefix('#') {
            None => return Err(format!("{}external `$ref` to `{reference}` is not supported", place(&at))),
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => pointer.contains('%') || lookup(document, reference).is_some(),
            Some(anchor) => walk.anchors.contains(anchor),
        };
        if !known {
            return Err(format!("{}`$ref` to `{reference}` has no target", place(&at)));
        }
    }
    Ok(())
}

struct Walk<'a> {
    references: Vec<(String, &'a str)>,
    anchors: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, at: &str) -> Result<(), String> {
        let fault = |what: &str| Err(format!("{}{what}", place(at)));
        let fields = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(fields) => fields,
            _ => return fault("not a schema"),
        };
        for (key, value) in fields {
            let inside = || format!("{at}/{key}");
            match (key.as_str(), value) {
                ("type", Value::String(one)) if TYPES.contains(&one.as_str()) => {}
                ("type", Value::Array(several))
                    if several.iter().all(|one| one.as_str().is_some_and(|one| TYPES.contains(&one))) => {}
                ("type", other) => return fault(&format!("invalid type {other}")),
                ("required", Value::Array(names)) if names.iter().all(Value::is_string) => {}
                // Draft 3 had a flag here, and some servers still send it. It is ignored.
                ("required", Value::Bool(_)) if !at.is_empty() => {}
                ("required", _) => return fault("`required` is not a list of names"),
                ("enum", Value::Array(_)) => {}
                ("enum", _) => return fault("`enum` is not a list"),
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    self.references.push((at.to_owned(), reference));
                }
                ("$ref" | "$dynamicRef", _) => return fault("`$ref` is not a string"),
                ("$anchor" | "$dynamicAnchor", Value::String(anchor)) => drop(self.anchors.insert(anchor)),
                ("items", Value::Array(several)) => self.several(several, &inside())?,
                ("items", one) => self.schema(one, &inside())?,
                (key, one) if ONE.contains(&key) => self.schema(one, &inside())?,
                (key, Value::Array(several)) if SEVERAL.contains(&key) => self.several(several, &inside())?,
                (key, Value::Object(named)) if NAMED.contains(&key) => {
                    for (name, one) in named {
                        self.schema(one, &format!("{at}/{key}/{name}"))?;
                    }
                }
                (key, _) if SEVERAL.contains(&key) => return fault(&format!("`{key}` is not a list of schemas")),
                (key, _) if NAMED.contains(&key) => return fault(&format!("`{key}` is not an object of schemas")),
                _ => {}
            }
        }
        Ok(())
    }

    fn several(&mut self, several: &'a [Value], at: &str) -> Result<(), String> {
        several.iter().enumerate().try_for_each(|(index, one)| self.schema(one, &format!("{at}/{index}")))
    }
}

fn place(at: &str) -> String {
    if at.is_empty() { String::new() } else { format!("at `{at}`: ") }
}
