//! Merges the alternatives at a schema's root into the one object that model APIs accept.

use serde_json::{Map, Value, json};

use super::resolve::{MAX_HOPS, resolved};

type Schema = Map<String, Value>;

/// The maximum number of merged parts: a few definitions that refer to each other can multiply without limit.
const MAX_PARTS: usize = 100;

/// Merges `allOf`, `anyOf` and `oneOf` at the root into it.
pub(super) fn alternatives(root: &mut Schema, changes: &mut Vec<String>) -> Result<(), String> {
    if ["allOf", "anyOf", "oneOf"].iter().any(|key| root.contains_key(*key)) {
        let document = root.clone();
        Merge { document: &document, changes, parts: 0 }.merge(root, 0)?;
    }
    Ok(())
}

struct Merge<'a> {
    document: &'a Schema,
    changes: &'a mut Vec<String>,
    parts: usize,
}

impl Merge<'_> {
    fn merge(&mut self, schema: &mut Schema, depth: usize) -> Result<(), String> {
        // Definitions can refer back to themselves.
        if depth > MAX_HOPS {
            return Err("its alternatives refer to themselves".to_owned());
        }
        if let Some(Value::Array(parts)) = schema.shift_remove("allOf") {
            for part in self.objects(&parts, depth)? {
                all_of(schema, part);
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

/// Adds the constraints of a part to those of the schema.
fn all_of(schema: &mut Schema, mut part: Schema) {
    let mut properties = take_properties(schema);
    for (name, more) in take_properties(&mut part) {
        match properties.get_mut(&name) {
            Some(known) if *known != more => *known = json!({"allOf": [known.clone(), more]}),
            Some(_) => {}
            None => drop(properties.insert(name, more)),
        }
    }
    let mut required = names(schema);
    required.extend(names(&part));
    put(schema, properties, required);
    schema.entry("type").or_insert(json!("object"));
    part.retain(|key, _| key != "required" && key != "type");
    for (key, value) in part {
        schema.entry(key).or_insert(value);
    }
}

/// Adds alternative parts to the schema: the properties of all of them are allowed, and only those that every part
/// requires are required.
fn one_of(schema: &mut Schema, mut parts: Vec<Schema>) {
    let base = take_properties(schema);
    let all: Vec<Schema> = parts.iter_mut().map(take_properties).collect();
    let mut properties = Schema::new();
    for name in base.keys().chain(all.iter().flat_map(Schema::keys)) {
        if properties.contains_key(name) {
            continue;
        }
        let mut variants: Vec<&Value> = Vec::new();
        for variant in all.iter().filter_map(|part| part.get(name).or_else(|| base.get(name))) {
            if !variants.contains(&variant) {
                variants.push(variant);
            }
        }
        let shown = match variants[..] {
            [] => base.get(name).cloned().unwrap_or(Value::Bool(true)),
            [one] => one.clone(),
            _ => json!({"anyOf": variants}),
        };
        properties.insert(name.clone(), shown);
    }
    let (first, rest) = parts.split_first().map_or((Vec::new(), &[][..]), |(first, rest)| (names(first), rest));
    let in_all = |name: &String| rest.iter().all(|part| names(part).contains(name));
    let mut required = names(schema);
    required.extend(first.into_iter().filter(in_all));
    put(schema, properties, required);
    let closed = |part: &Schema| part.get("additionalProperties") == Some(&Value::Bool(false));
    if parts.iter().all(closed) {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    schema.insert("type".to_owned(), json!("object"));
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

fn put(schema: &mut Schema, properties: Schema, required: Vec<String>) {
    schema.insert("properties".to_owned(), Value::Object(properties));
    let mut once: Vec<String> = Vec::new();
    for name in required {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    if !once.is_empty() {
        schema.insert("required".to_owned(), json!(once));
    }
}
