//! The JSON Schema of a notation, draft 2020-12.

use serde_json::{Map, Value, json};

use super::{Bound, Content, Format, Key, Object, Presence, Shape, Tagged, Variant, Variants};

/// Returns the JSON Schema of a file that holds one object.
pub(crate) fn json_schema(object: &'static Object, title: &str) -> Value {
    let mut definitions = Definitions { schemas: Map::new() };
    definitions.add(object.name, |definitions| definitions.object(object));
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$ref": reference(object.name),
    });
    let mut sorted: Vec<(String, Value)> = definitions.schemas.into_iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    schema["$defs"] = Value::Object(sorted.into_iter().collect());
    schema
}

fn reference(name: &str) -> String {
    format!("#/$defs/{name}")
}

struct Definitions {
    schemas: Map<String, Value>,
}

impl Definitions {
    /// Adds a definition once, and returns a reference to it.
    fn add(&mut self, name: &str, define: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.schemas.contains_key(name) {
            // Reserves the name first, because definitions may contain themselves.
            self.schemas.insert(name.to_owned(), Value::Null);
            let schema = define(self);
            self.schemas.insert(name.to_owned(), schema);
        }
        json!({ "$ref": reference(name) })
    }

    fn shape(&mut self, shape: &'static Shape) -> Value {
        match shape {
            Shape::Text { min_chars, max_chars } => {
                let mut schema = json!({"type": "string", "maxLength": max_chars});
                if *min_chars > 0 {
                    schema["minLength"] = (*min_chars).into();
                    schema["pattern"] = r"\S".into();
                }
                schema
            }
            Shape::Formatted(format) => formatted(format),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Shape::Number(bound) => match bound {
                Bound::None => json!({"type": "number"}),
                Bound::NotNegative => json!({"type": "number", "minimum": 0}),
                Bound::Positive => json!({"type": "number", "exclusiveMinimum": 0}),
                Bound::Fraction => json!({"type": "number", "minimum": 0, "maximum": 1}),
            },
            Shape::Choice(names) => json!({"enum": names}),
            Shape::List { items, min, max } => {
                let mut schema = json!({"type": "array", "items": self.shape(items), "maxItems": max});
                if *min > 0 {
                    schema["minItems"] = (*min).into();
                }
                schema
            }
            Shape::Map { names, values } => {
                let mut schema = json!({"type": "object", "additionalProperties": self.shape(values)});
                if let Some(format) = names {
                    schema["propertyNames"] = formatted(format);
                }
                schema
            }
            Shape::Object(object) => self.add(object.name, |definitions| definitions.object(object)),
            Shape::Variants(variants) => self.add(variants.name, |definitions| definitions.variants(variants)),
            Shape::Tagged(tagged) => self.add(tagged.name, |definitions| definitions.tagged(tagged)),
            Shape::TextOrMapping => json!({"type": ["string", "object"]}),
            Shape::Any => json!({}),
        }
    }

    fn object(&mut self, object: &'static Object) -> Value {
        let mut schema = self.keys(&[object.keys]);
        schema["description"] = object.doc.into();
        if !object.exactly_one.is_empty() {
            let alternatives: Vec<Value> = object.exactly_one.iter().map(|name| json!({"required": [name]})).collect();
            schema["oneOf"] = alternatives.into();
        }
        schema
    }

    /// Returns the schema of a closed object with the keys of all groups.
    fn keys(&mut self, groups: &[&'static [Key]]) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for key in groups.iter().copied().flatten() {
            let mut schema = self.shape(&key.shape);
            schema["description"] = match key.presence {
                Presence::Default(default) => format!("{} Default: {default}.", key.doc).into(),
                Presence::Required | Presence::Optional => key.doc.into(),
            };
            properties.insert(key.name.to_owned(), schema);
            if key.is_required() {
                required.push(key.name);
            }
        }
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }

    fn variants(&mut self, variants: &'static Variants) -> Value {
        let mut alternatives = Vec::new();
        if variants.texts_are_names {
            alternatives.push(json!({"type": "string", "minLength": 1}));
        } else {
            let bare = variants.cases.iter().filter(|variant| variant.content.is_optional());
            alternatives.push(json!({"enum": bare.map(|variant| variant.name).collect::<Vec<_>>()}));
        }
        for variant in variants.cases {
            alternatives.push(self.variant(variant));
        }
        json!({"anyOf": alternatives})
    }

    fn variant(&mut self, variant: &'static Variant) -> Value {
        let content = match &variant.content {
            Content::None => json!({"type": "object", "maxProperties": 0}),
            Content::Keys(keys) => self.keys(&[keys]),
            Content::Value(shape) => self.shape(shape),
        };
        json!({
            "type": "object",
            "description": variant.doc,
            "properties": {variant.name: content},
            "required": [variant.name],
            "additionalProperties": false,
        })
    }

    fn tagged(&mut self, tagged: &'static Tagged) -> Value {
        let alternatives: Vec<Value> = tagged
            .variants
            .iter()
            .map(|variant| {
                let mut schema = self.keys(&[tagged.common, variant.content.keys()]);
                schema["description"] = variant.doc.into();
                schema["properties"][tagged.tag] = json!({"const": variant.name, "description": tagged.tag_doc});
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                schema["required"] = [vec![tagged.tag.into()], required].concat().into();
                schema
            })
            .collect();
        json!({"oneOf": alternatives})
    }
}

fn formatted(format: &Format) -> Value {
    let mut schema = json!({"type": "string", "minLength": 1});
    if let Some(pattern) = format.pattern {
        schema["pattern"] = pattern.into();
    }
    if format.what == super::REGEX.what {
        schema["format"] = "regex".into();
    }
    schema
}
