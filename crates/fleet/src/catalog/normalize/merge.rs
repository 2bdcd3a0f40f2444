//! Merges the alternatives at a schema's root into the one object that model APIs accept.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::resolve::{MAX_HOPS, resolved};

type Schema = Map<String, Value>;

/// The maximum number of merged parts: a few definitions that refer to each other can multiply without limit.
const MAX_PARTS: usize = 100;
/// The largest size of all merged parts together: each reference to a large definition copies it.
const MAX_MERGED_SIZE: usize = 1 << 20;

/// Merges `allOf`, `anyOf` and `oneOf` at the root into it.
pub(super) fn alternatives(root: &mut Schema, changes: &mut Vec<String>) -> Result<(), String> {
    if ["allOf", "anyOf", "oneOf"].iter().any(|key| root.contains_key(*key)) {
        let document = root.clone();
        Merge { document: &document, changes, parts: 0, size: 0 }.merge(root, 0)?;
    }
    Ok(())
}

struct Merge<'a> {
    document: &'a Schema,
    changes: &'a mut Vec<String>,
    parts: usize,
    size: usize,
}

impl Merge<'_> {
    fn merge(&mut self, schema: &mut Schema, depth: usize) -> Result<(), String> {
        // Definitions can refer back to themselves.
        if depth > MAX_HOPS {
            return Err("its alternatives refer to themselves".to_owned());
        }
        if let Some(Value::Array(parts)) = schema.shift_remove("allOf") {
            let objects = self.objects(&parts, depth)?;
            if !objects.is_empty() {
                all_of(schema, objects);
            }
            self.record("allOf", depth);
        }
        for key in ["anyOf", "oneOf"] {
            let Some(Value::Array(parts)) = schema.shift_remove(key) else { continue };
            let objects = self.objects(&parts, depth)?;
            if objects.is_empty() && !parts.is_empty() {
                return Err(format!("none of the alternatives in `{key}` is an object"));
            }
            if !objects.is_empty() {
                describe(schema, &objects);
                one_of(schema, objects);
            }
            self.record(key, depth);
        }
        Ok(())
    }

    fn record(&mut self, key: &str, depth: usize) {
        if depth == 0 {
            self.changes.push(format!("merged `{key}` at the root"));
        }
    }

    /// Returns the parts that are objects, each with its own alternatives merged.
    fn objects(&mut self, parts: &[Value], depth: usize) -> Result<Vec<Schema>, String> {
        let mut found = Vec::new();
        for part in parts {
            self.parts += 1;
            if self.parts > MAX_PARTS {
                return Err(format!("it has more than {MAX_PARTS} alternatives"));
            }
            let mut part = match part {
                Value::Bool(true) => Schema::new(),
                Value::Object(part) => resolved(part, self.document, &mut Vec::new())?,
                _ => continue,
            };
            self.size += size_of_fields(&part);
            if self.size > MAX_MERGED_SIZE {
                return Err("merging its alternatives would take too much work".to_owned());
            }
            if part.get("type").is_none_or(|kind| kind == "object") {
                self.merge(&mut part, depth + 1)?;
            }
            let is_object = match part.get("type") {
                None => !part.contains_key("items") && !part.contains_key("const"),
                Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
                Some(one) => one == "object",
            };
            if is_object {
                found.push(part);
            }
        }
        Ok(found)
    }
}

/// Adds the constraints of all parts to those of the schema.
fn all_of(schema: &mut Schema, mut parts: Vec<Schema>) {
    let mut properties = Properties::default();
    properties.extend(take_properties(schema));
    let mut required = names(schema);
    for part in &mut parts {
        properties.extend(take_properties(part));
        required.extend(names(part));
    }
    put(schema, properties.combined("allOf"), &required);
    schema.entry("type").or_insert(json!("object"));
    for (key, value) in parts.into_iter().flatten().filter(|(key, _)| key != "required") {
        schema.entry(key).or_insert(value);
    }
}

/// Adds alternative parts to the schema: the properties of all of them are allowed, and only those that every part
/// requires are required.
fn one_of(schema: &mut Schema, mut parts: Vec<Schema>) {
    let base = take_properties(schema);
    let all: Vec<Schema> = parts.iter_mut().map(take_properties).collect();
    let mut of_parts: HashMap<String, usize> = HashMap::new();
    for name in all.iter().flat_map(Schema::keys) {
        *of_parts.entry(name.clone()).or_default() += 1;
    }
    let mut properties = Properties::default();
    for (name, value) in base {
        // Parts without a property of their own use the one of the schema.
        let is_used = of_parts.get(&name).is_none_or(|count| *count < all.len());
        properties.add(name, is_used.then_some(value));
    }
    for part in all {
        properties.extend(part);
    }
    let mut required = names(schema);
    required.extend(in_all(&parts));
    put(schema, properties.combined("anyOf"), &required);
    let closed = |part: &Schema| part.get("additionalProperties") == Some(&Value::Bool(false));
    if parts.iter().all(closed) {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    schema.insert("type".to_owned(), json!("object"));
}

/// Returns the names that every part requires.
fn in_all(parts: &[Schema]) -> Vec<String> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for part in parts {
        for name in names(part).into_iter().collect::<HashSet<_>>() {
            *count.entry(name).or_default() += 1;
        }
    }
    let mut first = parts.first().map(names).unwrap_or_default();
    first.retain(|name| count.get(name) == Some(&parts.len()));
    first
}

/// The different schemas of each property, in the order in which they were added.
#[derive(Default)]
struct Properties {
    all: Vec<(String, Vec<Value>)>,
    positions: HashMap<String, usize>,
    /// What is added already, as text: comparing each schema with each other one would take the square of their number.
    seen: HashSet<(usize, String)>,
}

impl Properties {
    fn extend(&mut self, properties: Schema) {
        for (name, value) in properties {
            self.add(name, Some(value));
        }
    }

    fn add(&mut self, name: String, value: Option<Value>) {
        let next = self.all.len();
        let position = *self.positions.entry(name.clone()).or_insert(next);
        if position == next {
            self.all.push((name, Vec::new()));
        }
        if let Some(value) = value
            && self.seen.insert((position, value.to_string()))
        {
            self.all[position].1.push(value);
        }
    }

    /// Returns one schema for each property. Several are combined by `keyword`.
    fn combined(self, keyword: &str) -> Schema {
        let combine = |(name, mut values): (String, Vec<Value>)| {
            let value = if values.len() == 1 { values.remove(0) } else { json!({keyword: values}) };
            (name, value)
        };
        self.all.into_iter().map(combine).collect()
    }
}

/// Describes the alternatives in the description, because the merged schema no longer expresses them.
fn describe(schema: &mut Schema, parts: &[Schema]) {
    let summaries: Vec<String> = parts.iter().filter_map(summary).collect();
    if summaries.len() < 2 {
        return;
    }
    let text = format!("Give the arguments of one of these: {}.", summaries.join("; or "));
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(description) if !description.trim().is_empty() => format!("{}\n{text}", description.trim_end()),
        _ => text,
    };
    schema.insert("description".to_owned(), Value::String(description));
}

fn summary(part: &Schema) -> Option<String> {
    let required = names(part);
    let properties = part.get("properties").and_then(Value::as_object);
    let listed = match (required.is_empty(), properties) {
        (false, _) => required,
        (true, Some(properties)) => properties.keys().cloned().collect(),
        (true, None) => Vec::new(),
    };
    let title = part.get("title").and_then(Value::as_str);
    let listed = listed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (title, listed.is_empty()) {
        (Some(title), true) => Some(title.to_owned()),
        (Some(title), false) => Some(format!("{title} ({listed})")),
        (None, true) => None,
        (None, false) => Some(listed),
    }
}

fn take_properties(schema: &mut Schema) -> Schema {
    match schema.shift_remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Schema::new(),
    }
}

fn names(schema: &Schema) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn put(schema: &mut Schema, properties: Schema, required: &[String]) {
    schema.insert("properties".to_owned(), Value::Object(properties));
    let mut seen = HashSet::new();
    let once: Vec<&String> = required.iter().filter(|name| seen.insert(*name)).collect();
    if !once.is_empty() {
        schema.insert("required".to_owned(), json!(once));
    }
}

/// Returns the number of values in a schema, and the bytes of their text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len(),
        Value::Array(several) => 1 + several.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + size_of_fields(fields),
        _ => 1,
    }
}

fn size_of_fields(fields: &Schema) -> usize {
    fields.iter().map(|(name, value)| name.len() + size(value)).sum()
}
