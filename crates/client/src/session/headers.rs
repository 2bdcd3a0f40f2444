//! What requests say of themselves in HTTP headers, so that whatever stands between us and the server can tell them apart
//! without reading them: the name of what they are about, and the arguments that a tool wants there.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Number, Value};
use wharf_protocol::{Fields, Json};

pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What marks a property whose value goes into a header.
const MARK: &str = "x-mcp-header";
/// How a value begins, and ends, that is written in base64.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// Which arguments of a tool go into which headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marked(Vec<(HeaderName, Vec<String>)>);

impl Marked {
    /// Reads a tool's schema; an error says why its marks cannot be followed.
    pub(super) fn read(schema: &Json) -> Result<Self, String> {
        // Hardly any tool has one.
        if !schema.as_str().contains(MARK) {
            return Ok(Self::default());
        }
        let schema = schema.to_value().map_err(|error| error.to_string())?;
        let mut marked = Self::default();
        marked.walk(&schema, Some(&[]))?;
        Ok(marked)
    }

    /// Looks at a schema and all within it. `path` leads to it by properties alone; `None` if something else is on the way.
    fn walk(&mut self, schema: &Value, path: Option<&[String]>) -> Result<(), String> {
        let Value::Object(schema) = schema else { return Ok(()) };
        if let Some(mark) = schema.get(MARK) {
            match path {
                Some(path @ [_, ..]) => self.add(mark, schema, path)?,
                _ => return Err(format!("has `{MARK}` where no value can be found by properties alone")),
            }
        }
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let deeper = path.map(|path| [path, std::slice::from_ref(name)].concat());
                        self.walk(property, deeper.as_deref())?;
                    }
                }
                ("patternProperties" | "dependentSchemas" | "$defs" | "definitions", Value::Object(schemas)) => {
                    schemas.values().try_for_each(|schema| self.walk(schema, None))?;
                }
                // Values, not schemas.
                ("default" | "const" | "enum" | "examples" | "dependentRequired", _) => {}
                (_, Value::Array(schemas)) => schemas.iter().try_for_each(|schema| self.walk(schema, None))?,
                (_, schema) => self.walk(schema, None)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, mark: &Value, schema: &Map<String, Value>, path: &[String]) -> Result<(), String> {
        let place = path.join(".");
        let name = mark.as_str().ok_or_else(|| format!("has a `{MARK}` at `{place}` that is no text"))?;
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(format!("has `{MARK}` at `{place}`, which is no string, integer or boolean"));
        }
        let name = format!("mcp-param-{name}");
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| name.len() > "mcp-param-".len());
        let parsed = parsed.ok_or_else(|| format!("has a `{MARK}` at `{place}` that is no name of a header"))?;
        if self.0.iter().any(|(known, _)| *known == parsed) {
            return Err(format!("has the `{MARK}` of `{place}` a second time"));
        }
        self.0.push((parsed, path.to_vec()));
        Ok(())
    }

    /// The headers for these arguments. What is absent or `null` has none.
    pub(super) fn headers(&self, arguments: &Json) -> HeaderMap {
        let value =
            |path: &[String]| path.iter().try_fold(arguments.clone(), |at, key| Fields::of(&at).ok()?.json(key));
        let header = |(name, path): &(HeaderName, Vec<String>)| Some((name.clone(), encoded(&said(&value(path)?)?)));
        self.0.iter().filter_map(header).collect()
    }
}

/// A value as a header has it; numbers as those write them who have read the request.
fn said(value: &Json) -> Option<String> {
    match value.as_str().as_bytes().first()? {
        b'"' => value.decode().ok(),
        b'{' | b'[' | b'n' => None,
        b't' | b'f' => Some(value.as_str().to_owned()),
        _ => {
            let number: Number = value.decode().ok()?;
            // What is whole and too large to be read by most is left as it is.
            let whole = !value.as_str().contains(['.', 'e', 'E']) && value.as_str() != "-0";
            Some(if number.is_f64() && whole { value.as_str().to_owned() } else { number.to_string() })
        }
    }
}

/// Text as the value of a header. What would not come through as it is goes in base64.
pub(super) fn encoded(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !(text.starts_with(SENTINEL.0) && text.ends_with(SENTINEL.1));
    let (begin, end) = SENTINEL;
    let safe = || format!("{begin}{}{end}", BASE64_STANDARD.encode(text));
    let text = if plain { text.to_owned() } else { safe() };
    // All of it is printable now.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests;
