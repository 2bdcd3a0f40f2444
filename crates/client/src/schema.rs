//! JSON Schema validation of arguments and results.
//!
//! Servers choose their schemas, and often the values too. A schema that demands too much work is not compiled, a check
//! that does is not made, and a long one runs on a thread of its own.

#[cfg(feature = "validation")]
mod compiled_size;
mod document;
mod elsewhere;
mod error;
mod graph;
mod pattern;
mod size;
mod total;
mod validator;
mod work;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use wharf_protocol::{Json, ServerName, schema_accepts};

use elsewhere::{Caller, NotDone};
pub use error::SchemaError;
use validator::Validator;
use work::{Explanation, MAX_WEIGHT, Work};

/// A compiled JSON Schema. External references are never fetched; a schema that has one does not compile.
#[derive(Debug)]
pub struct Schema {
    document: Value,
    validator: Validator,
    work: Work,
    /// The server whose schema it is.
    server: Option<ServerName>,
}

/// How a value violates a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The JSON pointer of the invalid part; empty for the whole value.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// The other violations of the same value, up to a limit.
    pub others: Vec<SchemaViolation>,
}

impl SchemaViolation {
    /// Creates a violation of one part of a value.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), others: Vec::new() }
    }

    /// Creates a violation of a whole value.
    pub fn of_whole(message: impl Into<String>) -> Self {
        Self::at("", message)
    }

    /// Parses arguments. Two values for one name are a violation: what a rule or a user has seen might not be what the
    /// server uses.
    pub fn in_text(arguments: &Json) -> Result<Value, Self> {
        arguments.to_unambiguous_value().map_err(|error| Self::of_whole(error.to_string()))
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)?;
        } else {
            write!(f, "at `{}`: {}", self.path, self.message)?;
        }
        self.others.iter().try_for_each(|other| write!(f, "; {other}"))
    }
}

/// The result of checking arguments that violate nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// They are valid.
    Valid,
    /// They are valid in this form, which is to be sent instead.
    Repaired(Json),
    /// They were not checked, for this reason: the server has to.
    Unchecked(String),
    /// Checking them took too long.
    TimedOut,
}

/// Why a value was not checked.
enum Unchecked {
    TooMuchWork,
    TimedOut,
    Failed,
}

impl Unchecked {
    fn reason(&self) -> &'static str {
        match self {
            Self::TooMuchWork => "checking it against the schema would take too much work",
            Self::TimedOut => "checking it against the schema took too long",
            Self::Failed => "checking it against the schema failed",
        }
    }
}

impl Schema {
    /// Compiles a schema. Patterns are matched in linear time, so that no schema can stall the client.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let document = Self::parse(schema)?;
        let work = Work::new(&document)?;
        let compile = || Validator::compile(&document, work.patterns(), &Caller::blocked());
        let validator = if work.may_be_deep() {
            let no_thread = || SchemaError::unusable("no thread can be started to compile it");
            elsewhere::with_large_stack(compile).ok_or_else(no_thread)??
        } else {
            compile()?
        };
        Ok(Self { document, validator, work, server: None })
    }

    /// Compiles a schema like [`compile`](Self::compile), but blocks no other task if that takes long. Long work for one
    /// server delays none for other servers.
    pub async fn compile_in_background(schema: &Json, server: Option<&ServerName>) -> Result<Self, SchemaError> {
        let document = Self::parse(schema)?;
        let work = Work::new(&document)?;
        let is_quick = work.is_quickly_compiled();
        let owner = server.cloned();
        let compile = move |caller: &Caller| {
            let validator = Validator::compile(&document, work.patterns(), caller)?;
            Ok(Self { document, validator, work, server: owner })
        };
        if is_quick {
            return compile(&Caller::blocked());
        }
        Box::pin(elsewhere::run(server, compile)).await.map_err(|reason| match reason {
            NotDone::TimedOut => SchemaError::TimedOut,
            NotDone::Failed => SchemaError::unusable("its compilation failed"),
        })?
    }

    /// Fails if a schema is too large to be parsed.
    pub fn check_size(schema: &Json) -> Result<(), SchemaError> {
        document::check_bytes(schema.as_str())
    }

    /// Parses a schema, unless it is too large.
    pub fn parse(schema: &Json) -> Result<Value, SchemaError> {
        Self::check_size(schema)?;
        schema.to_value().map_err(|error| match error.to_string() {
            // The parser has no other way to say so.
            text if text.starts_with("recursion limit") => SchemaError::unusable("nested deeper than 128 levels"),
            text => SchemaError::Unusable(text),
        })
    }

    /// The largest weight of a schema that is used.
    pub const MAX_WEIGHT: u64 = MAX_WEIGHT;

    /// Returns the weight of a schema without compiling it: the number of its subschemas, their keywords, and the names and
    /// values in them when every reference is replaced by its target. Fails if it is over [`MAX_WEIGHT`](Self::MAX_WEIGHT).
    pub fn weight(document: &Value) -> Result<u64, SchemaError> {
        Ok(Work::new(document)?.weight())
    }

    /// Checks a value. Returns its violations. A check that takes too much work is not made.
    pub async fn check(self: &Arc<Self>, value: &Json) -> Result<(), SchemaViolation> {
        match self.check_value(tree(value)?).await {
            Ok((_, result)) => result,
            Err(unchecked) => {
                tracing::warn!(reason = unchecked.reason(), "a value is not checked against its schema");
                Ok(())
            }
        }
    }

    /// Checks arguments, and repairs two common mistakes of models: arrays and objects written as a JSON string, and
    /// `null` for an omitted argument. Returns the repaired arguments to send instead, if that makes them valid.
    pub async fn admit(self: &Arc<Self>, arguments: &Json) -> Result<Admission, SchemaViolation> {
        let (mut value, fault) = match self.check_value(SchemaViolation::in_text(arguments)?).await {
            Ok((_, Ok(()))) => return Ok(Admission::Valid),
            Ok((value, Err(fault))) => (value, fault),
            Err(Unchecked::TimedOut) => return Ok(Admission::TimedOut),
            Err(unchecked) => return Ok(Admission::Unchecked(unchecked.reason().to_owned())),
        };
        let repairs: [fn(&Self, &mut Value) -> bool; 2] = [Self::decode_strings, Self::remove_nulls];
        for repair in repairs {
            if !repair(self, &mut value) {
                continue;
            }
            match self.check_value(value).await {
                Ok((repaired, Ok(()))) => return Ok(Admission::Repaired(Json::from(repaired))),
                Ok((unchanged, Err(_))) => value = unchanged,
                Err(_) => break,
            }
        }
        Err(fault)
    }

    fn check_now(&self, value: &Value) -> Result<(), SchemaViolation> {
        if self.validator.accepts(value) {
            return Ok(());
        }
        match self.work.explanation(value) {
            Explanation::All => self.validator.check_all(value),
            Explanation::First => self.validator.check(value),
            Explanation::None => Err(SchemaViolation::of_whole("the value does not match the schema")),
        }
    }

    /// Checks a value and returns it.
    async fn check_value(self: &Arc<Self>, value: Value) -> Result<(Value, Result<(), SchemaViolation>), Unchecked> {
        if self.work.is_small(&value) {
            let result = self.check_now(&value);
            return Ok((value, result));
        }
        let schema = Arc::clone(self);
        let check = move |_: &Caller| {
            let result = schema.work.is_feasible(&value).then(|| schema.check_now(&value));
            (value, result)
        };
        match Box::pin(elsewhere::run(self.server.as_ref(), check)).await {
            Ok((value, Some(result))) => Ok((value, result)),
            Ok((_, None)) => Err(Unchecked::TooMuchWork),
            Err(NotDone::TimedOut) => Err(Unchecked::TimedOut),
            Err(NotDone::Failed) => Err(Unchecked::Failed),
        }
    }

    /// Removes optional arguments that are `null` but must not be.
    fn remove_nulls(&self, value: &mut Value) -> bool {
        let Value::Object(arguments) = value else { return false };
        let before = arguments.len();
        let properties = self.document.get("properties");
        arguments.retain(|name, value| {
            let schema = properties.and_then(|properties| properties.get(name));
            let may_be_null = schema.is_none_or(|schema| schema_accepts(schema, "null"));
            !value.is_null() || may_be_null || !is_optional(&self.document, name)
        });
        arguments.len() < before
    }

    fn decode_strings(&self, value: &mut Value) -> bool {
        let properties = self.document.get("properties").and_then(Value::as_object);
        let (Some(properties), Value::Object(arguments)) = (properties, value) else { return false };
        properties.iter().fold(false, |changed, (name, schema)| decode_string(arguments, name, schema) || changed)
    }
}

/// Whether a property is optional.
fn is_optional(document: &Value, name: &str) -> bool {
    let required = document.get("required").and_then(Value::as_array);
    !required.is_some_and(|required| required.iter().any(|one| one == name))
}

/// Decodes a string argument that holds an array or object, if the schema accepts that and accepts no string.
fn decode_string(arguments: &mut Map<String, Value>, name: &str, schema: &Value) -> bool {
    let accepts = |kind: &str| schema_accepts(schema, kind);
    let Some(Value::String(text)) = arguments.get(name) else { return false };
    let decoded = match serde_json::from_str::<Value>(text) {
        Ok(decoded) if decoded.is_array() && accepts("array") => decoded,
        Ok(decoded) if decoded.is_object() && accepts("object") => decoded,
        _ => return false,
    };
    if accepts("string") {
        return false;
    }
    arguments.insert(name.to_owned(), decoded);
    true
}

fn tree(value: &Json) -> Result<Value, SchemaViolation> {
    value.to_value().map_err(|error| SchemaViolation::of_whole(error.to_string()))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod repair_tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> Arc<Schema> {
        Arc::new(Schema::compile(&Json::from(value)).unwrap())
    }

    async fn admitted(schema: &Arc<Schema>, arguments: Value) -> String {
        match schema.admit(&Json::from(arguments)).await {
            Ok(Admission::Valid) => "unchanged".to_owned(),
            Ok(Admission::Repaired(decoded)) => decoded.to_string(),
            Ok(Admission::Unchecked(reason)) => reason,
            Ok(Admission::TimedOut) => "timed out".to_owned(),
            Err(fault) => fault.to_string(),
        }
    }

    #[tokio::test]
    async fn violations_are_reported_with_their_path() {
        let schema = schema(json!({"type": "object", "required": ["who"], "properties":
            {"who": {"type": "object", "properties": {"age": {"type": "integer"}}}}}));
        assert_eq!(
            admitted(&schema, json!({"who": {"age": "x"}})).await,
            r#"at `/who/age`: "x" is not of type "integer""#
        );
        assert_eq!(admitted(&schema, json!({})).await, r#""who" is a required property"#);
        let several = crate::schema::Schema::compile(&Json::from(json!({"properties":
            {"a": {"type": "integer"}, "b": {"enum": ["x"]}}, "required": ["c"]})));
        assert_eq!(
            admitted(&Arc::new(several.unwrap()), json!({"a": "1", "b": "y"})).await,
            r#""c" is a required property; at `/a`: "1" is not of type "integer"; at `/b`: "y" is not one of "x""#
        );
        assert_eq!(admitted(&schema, json!({"who": {"age": 3}})).await, "unchanged");
        let huge = admitted(&schema, json!({"who": {"age": "x".repeat(100_000)}})).await;
        assert!(huge.len() < 400, "{}", huge.len());
        let any = self::schema(json!({"additionalProperties": {"type": "integer"}}));
        let long = admitted(&any, json!({"k".repeat(100_000): "x"})).await;
        assert!(long.len() < 400, "{}", long.len());
        // Of very many violations, only the first is looked for.
        let many: Map<String, Value> = (0..20_000).map(|number| (number.to_string(), json!("x"))).collect();
        let first = admitted(&any, Value::Object(many)).await;
        assert_eq!(first, r#"at `/0`: "x" is not of type "integer""#);
    }

    #[tokio::test]
    async fn strings_are_decoded_only_where_the_schema_requires_an_array_or_object() {
        let schema = schema(json!({"type": "object", "properties": {
            "list": {"type": "array"}, "map": {"type": ["object", "null"]}, "text": {"type": "string"},
            "either": {"type": ["string", "array"]}, "maybe": {"anyOf": [{"type": "array"}, {"type": "null"}]}}}));
        assert_eq!(admitted(&schema, json!({"maybe": "[3]"})).await, r#"{"maybe":[3]}"#);
        assert_eq!(admitted(&schema, json!({"list": "[1,2]", "text": "[1]"})).await, r#"{"list":[1,2],"text":"[1]"}"#);
        assert_eq!(admitted(&schema, json!({"map": "{\"a\":1}"})).await, r#"{"map":{"a":1}}"#);
        assert_eq!(admitted(&schema, json!({"either": "[1]"})).await, "unchanged");
        assert_eq!(admitted(&schema, json!({"list": "one"})).await, r#"at `/list`: "one" is not of type "array""#);
        assert_eq!(admitted(&schema, json!({"list": "{}"})).await, r#"at `/list`: "{}" is not of type "array""#);
    }

    #[tokio::test]
    async fn null_is_removed_only_where_it_is_optional_and_invalid() {
        let schema = schema(json!({"type": "object", "required": ["must"], "properties": {"must": {"type": "string"},
            "may": {"type": "boolean"}, "null": {"type": ["string", "null"]}, "list": {"type": "array"}}}));
        let repaired = admitted(&schema, json!({"must": "x", "may": null, "null": null, "other": null})).await;
        assert_eq!(repaired, r#"{"must":"x","null":null,"other":null}"#);
        assert_eq!(admitted(&schema, json!({"must": "x", "null": null})).await, "unchanged");
        assert_eq!(admitted(&schema, json!({"must": null})).await, r#"at `/must`: null is not of type "string""#);
        let both = admitted(&schema, json!({"must": "x", "may": null, "list": "[1]"})).await;
        assert_eq!(both, r#"{"must":"x","list":[1]}"#);
    }

    #[test]
    fn external_references_and_endless_nesting_do_not_compile() {
        for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/passwd"] {
            assert!(Schema::compile(&Json::from(json!({"$ref": reference}))).is_err(), "{reference}");
        }
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
        assert!(Schema::compile(&Json::parse(deep).unwrap()).is_err());
    }

    #[tokio::test]
    async fn patterns_run_in_linear_time() {
        let schema = schema(json!({"pattern": "^(a+)+$"}));
        assert!(schema.check(&Json::from(json!(format!("{}!", "a".repeat(50_000))))).await.is_err());
    }
}
