//! Parses JSON with comments and trailing commas, as editors write it.

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::{CollectOptions, parse_to_ast};
use serde_json::{Map, Value};

use super::imported::ImportError;
use crate::jsonc::parse_options;

/// Parses a file that contains an object. Keys keep their order.
pub(crate) fn parse(text: &str) -> Result<Map<String, Value>, ImportError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options()).map_err(|error| {
        ImportError::Unreadable { format: "JSON", line: error.line_display(), reason: error.kind().to_string() }
    })?;
    match parsed.value.as_ref().map(value) {
        Some(Value::Object(object)) => Ok(object),
        // Only comments.
        None => Ok(Map::new()),
        Some(_) => Err(ImportError::Shape("the file does not contain an object".to_owned())),
    }
}

fn value(ast: &Ast<'_>) -> Value {
    match ast {
        Ast::StringLit(text) => Value::String(text.value.clone().into_owned()),
        Ast::NumberLit(number) => serde_json::from_str(number.value).unwrap_or(Value::Null),
        Ast::BooleanLit(flag) => Value::Bool(flag.value),
        Ast::NullKeyword(_) => Value::Null,
        Ast::Array(array) => array.elements.iter().map(value).collect(),
        Ast::Object(object) => {
            let field =
                |field: &jsonc_parser::ast::ObjectProp<'_>| (field.name.clone().into_string(), value(&field.value));
            Value::Object(object.properties.iter().map(field).collect())
        }
    }
}
