//! Completion of commands, tools, argument names and their values.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use wharf::fleet::Catalog;

use super::command::NAMES;

/// How many candidates are offered.
const MAX_CANDIDATES: usize = 200;

/// What can be completed. Clones share it: the session sets it, and the line editor reads it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedWords(Arc<RwLock<Words>>);

#[derive(Debug, Default)]
struct Words {
    tools: Vec<ToolWords>,
}

#[derive(Debug)]
struct ToolWords {
    name: String,
    arguments: Vec<(String, Vec<String>)>,
}

impl SharedWords {
    /// Takes the tools of a catalog.
    pub(super) fn set(&self, catalog: &Catalog) {
        let tools = catalog.entries().iter().filter(|entry| is_word(&entry.tool.name));
        let tools = tools.map(|entry| {
            let schema = entry.input_schema.to_value().unwrap_or_default();
            ToolWords { name: entry.tool.name.to_string(), arguments: arguments(&schema) }
        });
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Words { tools: tools.collect() };
    }

    /// Returns where the word before the cursor begins, and what it can become.
    pub(super) fn complete(&self, before: &str) -> (usize, Vec<String>) {
        let words = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = &before[start..];
        let earlier: Vec<&str> = before[..start].split_whitespace().collect();
        let tool_names = || words.tools.iter().map(|tool| tool.name.as_str());
        let candidates: Vec<String> = match earlier[..] {
            [] => NAMES.into_iter().chain(tool_names()).map(|name| format!("{name} ")).collect(),
            ["tools" | "call"] => tool_names().map(|name| format!("{name} ")).collect(),
            ["call", tool, ref given @ ..] | [tool, ref given @ ..] => words.arguments(tool, given, word),
        };
        let mut fitting: Vec<String> = candidates.into_iter().filter(|candidate| candidate.starts_with(word)).collect();
        fitting.sort();
        fitting.dedup();
        fitting.truncate(MAX_CANDIDATES);
        (start, fitting)
    }
}

impl Words {
    /// Returns the arguments of a tool that are not given yet, or the values of the one being typed.
    fn arguments(&self, tool: &str, given: &[&str], word: &str) -> Vec<String> {
        let Some(tool) = self.tools.iter().find(|other| other.name == tool) else { return Vec::new() };
        if let Some((name, _)) = word.split_once('=') {
            let values = tool.arguments.iter().find(|(other, _)| other == name).map(|(_, values)| values.as_slice());
            return values.unwrap_or_default().iter().map(|value| format!("{name}={value} ")).collect();
        }
        let is_given =
            |name: &str| given.iter().any(|word| word.split_once('=').is_some_and(|(given, _)| given == name));
        let left = tool.arguments.iter().filter(|(name, _)| !is_given(name));
        left.map(|(name, _)| format!("{name}=")).collect()
    }
}

/// Returns the arguments of a schema, each with its possible values if they are few.
fn arguments(schema: &Value) -> Vec<(String, Vec<String>)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let values = |property: &Value| match &property["enum"] {
        Value::Array(values) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.iter().map(text).filter(|value| is_word(value)).collect()
        }
        _ if property["type"] == "boolean" => vec!["true".to_owned(), "false".to_owned()],
        _ => Vec::new(),
    };
    let named = properties.filter(|(name, _)| is_word(name));
    named.map(|(name, property)| (name.clone(), values(property))).collect()
}

/// Whether a server's word can be inserted as it is: it neither controls the terminal nor needs quotes.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./:@+-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> SharedWords {
        let schema = serde_json::json!({"properties": {"unit": {"enum": ["metric", "imperial"]}, "place": {},
            "raw": {"type": "boolean"}, "evil\u{1b}[2J": {}}});
        let tools = vec![
            ToolWords { name: "forecast".to_owned(), arguments: arguments(&schema) },
            ToolWords { name: "tides".to_owned(), arguments: Vec::new() },
        ];
        SharedWords(Arc::new(RwLock::new(Words { tools })))
    }

    #[test]
    fn commands_tools_arguments_and_values_are_completed() {
        let completed = |before: &str| words().complete(before);
        assert_eq!(completed("t"), (0, vec!["tides ".to_owned(), "tools ".to_owned()]));
        assert_eq!(completed("tools f"), (6, vec!["forecast ".to_owned()]));
        assert_eq!(completed("call ti"), (5, vec!["tides ".to_owned()]));
        assert_eq!(completed("forecast ").1, ["place=", "raw=", "unit="]);
        assert_eq!(completed("forecast place=x ").1, ["raw=", "unit="]);
        assert_eq!(completed("forecast unit=").1, ["unit=imperial ", "unit=metric "]);
        assert_eq!(completed("call forecast raw=t"), (14, vec!["raw=true ".to_owned()]));
        assert_eq!(completed("nothing x"), (8, Vec::new()));
        assert_eq!(completed("forecast {\"pl"), (9, Vec::new()));
    }
}
