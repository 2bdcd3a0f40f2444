//! The HTTP headers that repeat parts of a request, so that proxies can route it without parsing the body: the name of
//! what it is about, and the arguments that a tool's schema annotates with `x-mcp-header`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Number, Value};
use wharf_protocol::{Fields, Json};

use crate::Schema;

pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The schema keyword of a property whose value goes into a header.
const KEYWORD: &str = "x-mcp-header";
/// The most annotated properties of a tool. Each is a header of every call.
const MAX_HEADERS: usize = 64;
/// The longest path of an annotated property, in bytes: it is stored for each.
const MAX_PATH_BYTES: usize = 4 * 1024;
/// The prefix of the header names.
const HEADER_PREFIX: &str = "mcp-param-";
/// The prefix of a value encoded in base64.
const BASE64_PREFIX: &str = "=?base64?";
/// The suffix of a value encoded in base64.
const BASE64_SUFFIX: &str = "?=";

/// The headers of a tool's annotated arguments, each with the path of its property.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParamHeaders(Vec<(HeaderName, Vec<String>)>);

impl ParamHeaders {
    /// Reads the annotations of a tool's input schema. The error is a predicate of the tool ("has …").
    pub(super) fn read(schema: &Json) -> Result<Self, String> {
        // Few tools have annotations.
        if !schema.as_str().contains(KEYWORD) {
            return Ok(Self::default());
        }
        let schema = Schema::parse(schema).map_err(|error| format!("has an unusable `inputSchema`: {error}"))?;
        let mut headers = Self::default();
        headers.walk(&schema, Some(&[]))?;
        Ok(headers)
    }

    /// Visits a schema and all its subschemas. `path` holds the properties that lead to it; it is `None` below any
    /// keyword other than `properties`, where no single value could be meant.
    fn walk(&mut self, schema: &Value, path: Option<&[&str]>) -> Result<(), String> {
        let Value::Object(schema) = schema else { return Ok(()) };
        if let Some(annotation) = schema.get(KEYWORD) {
            match path {
                Some(path @ [_, ..]) => self.add(annotation, schema, path)?,
                _ => return Err(format!("has `{KEYWORD}` in a schema that is not a plain property")),
            }
        }
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let deeper = path.map(|path| [path, &[name.as_str()]].concat());
                        self.walk(property, deeper.as_deref())?;
                    }
                }
                ("patternProperties" | "dependentSchemas" | "$defs" | "definitions", Value::Object(schemas)) => {
                    schemas.values().try_for_each(|schema| self.walk(schema, None))?;
                }
                // These keywords hold values instead of schemas.
                ("default" | "const" | "enum" | "examples" | "dependentRequired", _) => {}
                (_, Value::Array(schemas)) => schemas.iter().try_for_each(|schema| self.walk(schema, None))?,
                (_, schema) => self.walk(schema, None)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, annotation: &Value, schema: &Map<String, Value>, path: &[&str]) -> Result<(), String> {
        if path.iter().map(|name| name.len()).sum::<usize>() > MAX_PATH_BYTES {
            return Err(format!("has `{KEYWORD}` at a path of more than {MAX_PATH_BYTES} bytes"));
        }
        if self.0.len() == MAX_HEADERS {
            return Err(format!("has more than {MAX_HEADERS} `{KEYWORD}`"));
        }
        let place = path.join(".");
        let name =
            annotation.as_str().ok_or_else(|| format!("has an `{KEYWORD}` at `{place}` that is not a string"))?;
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(format!("has `{KEYWORD}` at `{place}`, which is not a string, integer or boolean"));
        }
        let invalid_name = || format!("has an `{KEYWORD}` at `{place}` that is not a valid header name");
        if name.is_empty() {
            return Err(invalid_name());
        }
        let header = HeaderName::from_bytes(format!("{HEADER_PREFIX}{name}").as_bytes()).map_err(|_| invalid_name())?;
        if self.0.iter().any(|(known, _)| *known == header) {
            return Err(format!("has the `{KEYWORD}` of `{place}` twice"));
        }
        self.0.push((header, path.iter().map(|name| (*name).to_owned()).collect()));
        Ok(())
    }

    /// Returns the headers for these arguments. Absent and `null` arguments have none.
    pub(super) fn headers(&self, arguments: &Json) -> HeaderMap {
        let value =
            |path: &[String]| path.iter().try_fold(arguments.clone(), |at, key| Fields::of(&at).ok()?.json(key));
        let header = |(name, path): &(HeaderName, Vec<String>)| Some((name.clone(), encode(&as_text(&value(path)?)?)));
        self.0.iter().filter_map(header).collect()
    }
}

/// Returns a value as header text. Numbers are formatted as a server that parsed the body would format them.
fn as_text(value: &Json) -> Option<String> {
    match value.as_str().as_bytes().first()? {
        b'"' => value.decode().ok(),
        b'{' | b'[' | b'n' => None,
        b't' | b'f' => Some(value.as_str().to_owned()),
        _ => {
            let number: Number = value.decode().ok()?;
            // Integers beyond 64 bits keep their digits.
            let is_integer = !value.as_str().contains(['.', 'e', 'E']) && value.as_str() != "-0";
            Some(if number.is_f64() && is_integer { value.as_str().to_owned() } else { number.to_string() })
        }
    }
}

/// Returns text as a header value, in base64 if it would not arrive unchanged.
pub(super) fn encode(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !(text.starts_with(BASE64_PREFIX) && text.ends_with(BASE64_SUFFIX));
    let encoded = || format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", BASE64_STANDARD.encode(text));
    let text = if is_plain { text.to_owned() } else { encoded() };
    // Only printable characters are left.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests;
