//! JSON as editors write it: with comments, and a comma too many.

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::{CollectOptions, parse_to_ast};
use serde_json::{Map, Value};

use super::ImportError;
use crate::text::options;

/// The object that a file holds, its fields in their order.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, ImportError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options()).map_err(|error| {
        let (line, reason) = (error.line_display(), error.kind().to_string());
        ImportError::Unreadable { format: "JSON", line, reason }
    })?;
    match parsed.value.as_ref().map(value) {
        Some(Value::Object(object)) => Ok(object),
        // Comments and nothing else.
        None => Ok(Map::new()),
        Some(_) => Err(ImportError::Shape("the file does not hold an object".to_owned())),
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
