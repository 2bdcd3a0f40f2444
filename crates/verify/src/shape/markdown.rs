//! The tables of the documentation.

use std::fmt::Write as _;

use super::{Bound, Content, Key, Presence, Shape, Tagged, Variants};

/// Returns a table of keys.
pub(crate) fn keys_table(keys: &[Key]) -> String {
    let mut table = "| key | value | default | meaning |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let default = match key.presence {
            Presence::Required => "required".to_owned(),
            Presence::Optional => String::new(),
            Presence::Default(default) => format!("`{default}`"),
        };
        let _ = writeln!(table, "| `{}` | {} | {default} | {} |", key.name, value(&key.shape), key.doc);
    }
    table
}

/// Returns a table of variants with their parameters.
pub(crate) fn variants_table(variants: &Variants) -> String {
    let mut table = format!("| {} | meaning | parameters |\n|---|---|---|\n", variants.what);
    for variant in variants.cases {
        let _ = writeln!(table, "| `{}` | {} | {} |", variant.name, variant.doc, content(&variant.content));
    }
    table
}

/// Returns a table of the variants of a tagged mapping with their own keys.
pub(crate) fn tagged_table(tagged: &Tagged) -> String {
    let mut table = format!("| `{}` | meaning | keys |\n|---|---|---|\n", tagged.tag);
    for variant in tagged.variants {
        let _ = writeln!(table, "| `{}` | {} | {} |", variant.name, variant.doc, content(&variant.content));
    }
    table
}

fn content(content: &Content) -> String {
    match content {
        Content::None => String::new(),
        Content::Value(shape) => value(shape),
        Content::Keys(keys) => {
            let shown = keys.iter().map(|key| {
                let default = match key.presence {
                    Presence::Required => " (required)".to_owned(),
                    Presence::Optional => String::new(),
                    Presence::Default(default) => format!(" (`{default}`)"),
                };
                format!("`{}`{default}: {}", key.name, key.doc)
            });
            shown.collect::<Vec<_>>().join("<br>")
        }
    }
}

fn value(shape: &Shape) -> String {
    match shape {
        Shape::Text { .. } => "text".to_owned(),
        Shape::Formatted(format) => format.what.to_owned(),
        Shape::Bool => "boolean".to_owned(),
        Shape::Integer { .. } => "integer".to_owned(),
        Shape::Number(bound) => match bound {
            Bound::None => "number",
            Bound::NotNegative => "number ≥ 0",
            Bound::Positive => "number > 0",
            Bound::Fraction => "number from 0 to 1",
        }
        .to_owned(),
        Shape::Choice(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        Shape::List { items, .. } => format!("list of: {}", value(items)),
        Shape::Map { values, .. } => format!("map from names to: {}", value(values)),
        Shape::Object(object) => object.name.replace('_', " "),
        Shape::Variants(variants) => variants.what.to_owned(),
        Shape::Tagged(tagged) => tagged.name.replace('_', " "),
        Shape::TextOrMapping => "text or mapping".to_owned(),
        Shape::Any => "any value".to_owned(),
    }
}
