//! A model that says what a file tells it to: canned turns over live tools.
//!
//! ```yaml
//! - text: Let me add that up.
//!   tools:
//!     - name: mcp__calculator__add
//!       arguments: {a: 1, b: 2}
//! - text: It is three.
//! ```

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf::ToolCall;

use crate::servers::{Misuse, misuse};

/// The largest file of turns that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

/// What the model says, turn by turn.
#[derive(Debug)]
pub(crate) struct Turns(Vec<Turn>);

/// What the model says in one turn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turn {
    /// What it says to the person.
    #[serde(default)]
    pub(crate) text: String,
    /// Which tools it calls.
    #[serde(default)]
    tools: Vec<Call>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    id: Option<String>,
}

/// A file is a list of turns, or says that it is one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(Vec<Turn>),
    Named { turns: Vec<Turn> },
}

impl Turns {
    /// Reads a file of turns.
    pub(crate) fn read(file: &Path) -> Result<Self, Misuse> {
        let shown = file.display();
        let unreadable = |error: std::io::Error| misuse(format!("{shown} cannot be read: {error}"), None);
        if std::fs::metadata(file).map_err(unreadable)?.len() > LARGEST {
            return Err(misuse(format!("{shown} is larger than {} MiB", LARGEST / (1024 * 1024)), None));
        }
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let turns = parse(&text).map_err(|reason| {
            let hint =
                "a turn is `- text: …`, with `tools: [{name: mcp__SERVER__TOOL, arguments: {…}}]` if it calls some";
            misuse(format!("{shown}: {reason}"), Some(hint))
        })?;
        if turns.is_empty() {
            return Err(misuse(format!("{shown} holds no turns"), None));
        }
        Ok(Self(turns))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Turn> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

fn parse(text: &str) -> Result<Vec<Turn>, String> {
    // First as the one shape and then as the other, so that what is wrong is told of the shape it has.
    let listed = serde_saphyr::from_str::<Vec<Turn>>(text);
    match listed {
        Ok(turns) => Ok(turns),
        Err(error) => match serde_saphyr::from_str::<Written>(text) {
            Ok(Written::Plain(turns) | Written::Named { turns }) => Ok(turns),
            Err(_) => Err(error.to_string()),
        },
    }
}

impl Turn {
    /// The calls of this turn, the `number`th, as a model would make them.
    pub(crate) fn calls(&self, number: usize) -> Vec<ToolCall> {
        let call = |(position, call): (usize, &Call)| ToolCall {
            id: call.id.clone().unwrap_or_else(|| format!("call_{number}_{}", position + 1)).into(),
            name: call.name.as_str().into(),
            arguments: Value::Object(call.arguments.clone()).into(),
        };
        self.tools.iter().enumerate().map(call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_with_their_calls_in_either_shape() {
        let plain =
            "- text: adding\n  tools:\n    - name: mcp__c__add\n      arguments: {a: 1, note: \"2\"}\n- text: three\n";
        let named = format!("turns:\n  {}", plain.trim_end().replace('\n', "\n  "));
        for text in [plain, &named] {
            let turns = parse(text).unwrap();
            assert_eq!(turns.len(), 2);
            let calls = turns[0].calls(1);
            assert_eq!((&*calls[0].id, &*calls[0].name), ("call_1_1", "mcp__c__add"));
            assert_eq!(calls[0].arguments.as_str(), r#"{"a":1,"note":"2"}"#);
        }
    }

    #[test]
    fn what_is_no_turn_says_where() {
        let said = parse("- text: hello\n  tool: add\n").unwrap_err();
        assert!(said.contains("tool") && said.contains("line 2"), "{said}");
    }
}
