//! Whether a schema can be used at all, as far as that is seen without compiling it: thousands of tools are listed, few
//! of them are ever called.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The types there are.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Keys with one schema in them.
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
/// Keys with a list of schemas in them.
const SEVERAL: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keys with named schemas in them.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Says why a schema cannot be used, with the place.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut walk = Walk { references: Vec::new(), anchors: HashSet::new() };
    walk.schema(schema, "")?;
    let Value::Object(document) = schema else { return Ok(()) };
    for (at, reference) in walk.references {
        let known = match reference.strip_prefix('#') {
            None => return Err(format!("{}it refers to `{reference}`, and nothing is fetched", place(&at))),
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => pointer.contains('%') || lookup(document, reference).is_some(),
            Some(anchor) => walk.anchors.contains(anchor),
        };
        if !known {
            return Err(format!("{}`$ref` to `{reference}` leads nowhere", place(&at)));
        }
    }
    Ok(())
}

/// What a reference inside the document leads to.
pub(super) fn lookup<'a>(document: &'a Map<String, Value>, reference: &str) -> Option<&'a Value> {
    let path = reference.strip_prefix("#/")?;
    let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let found = document.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(found), |rest| found.pointer(&format!("/{rest}")))
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
            _ => return fault("there is no schema"),
        };
        for (key, value) in fields {
            let inside = || format!("{at}/{key}");
            match (key.as_str(), value) {
                ("type", Value::String(one)) if TYPES.contains(&one.as_str()) => {}
                ("type", Value::Array(several))
                    if several.iter().all(|one| one.as_str().is_some_and(|one| TYPES.contains(&one))) => {}
                ("type", other) => return fault(&format!("there is no type {other}")),
                ("required", Value::Array(names)) if names.iter().all(Value::is_string) => {}
                // Draft 3 had a flag here, and some servers still have; it says nothing that can be relied on.
                ("required", Value::Bool(_)) if !at.is_empty() => {}
                ("required", _) => return fault("`required` is no list of names"),
                ("enum", Value::Array(_)) => {}
                ("enum", _) => return fault("`enum` is no list"),
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    self.references.push((at.to_owned(), reference));
                }
                ("$ref" | "$dynamicRef", _) => return fault("`$ref` is no text"),
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
                (key, _) if SEVERAL.contains(&key) => return fault(&format!("`{key}` is no list of schemas")),
                (key, _) if NAMED.contains(&key) => return fault(&format!("`{key}` does not name schemas")),
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
