//! The text of a turn: `{{name}}` stands for the value of a variable, `\{{` for two braces.
//!
//! A text is split once, when it is read. Values are inserted and never read again, so a value that contains braces does
//! not become a placeholder.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::state::State;
use crate::problem::quoted;
use crate::template::is_identifier;

/// The text of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PromptText {
    written: String,
    parts: Vec<Part>,
}

/// A text with a placeholder that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPrompt(String);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    /// Name of a variable.
    Variable(String),
}

impl PromptText {
    /// Reads a text.
    ///
    /// # Errors
    /// If a placeholder is not closed, or is not the name of a variable.
    pub fn new(written: &str) -> Result<Self, InvalidPrompt> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = written;
        while let Some(start) = rest.find("{{") {
            if let Some(before) = rest[..start].strip_suffix('\\') {
                text.push_str(before);
                text.push_str("{{");
                rest = &rest[start + 2..];
                continue;
            }
            text.push_str(&rest[..start]);
            let Some((inside, after)) = rest[start + 2..].split_once("}}") else {
                return Err(InvalidPrompt("`{{` is not closed; write `\\{{` for two braces".to_owned()));
            };
            let name = inside.trim();
            if !is_identifier(name) {
                let found = quoted(inside);
                return Err(InvalidPrompt(format!(
                    "{found} is not a name of a variable; write `\\{{{{` for two braces"
                )));
            }
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Variable(name.to_owned()));
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { written: written.to_owned(), parts })
    }

    /// Returns the text of a file as a text without placeholders.
    pub(crate) fn literal(text: &str) -> Self {
        let parts = vec![Part::Text(text.to_owned())];
        Self { written: text.replace("{{", "\\{{"), parts }
    }

    /// Returns the text as written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the names of the variables in the text.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Returns the text if it has no placeholders.
    pub(crate) fn as_literal(&self) -> Option<String> {
        let text = |part: &Part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Variable(_) => None,
        };
        self.parts.iter().map(text).collect()
    }

    /// Returns the text with the values of its variables.
    pub(crate) fn expand(&self, state: &State) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(name) => state.text(name),
        });
        parts.collect()
    }
}

impl fmt::Display for PromptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl TryFrom<String> for PromptText {
    type Error = InvalidPrompt;

    fn try_from(text: String) -> Result<Self, InvalidPrompt> {
        Self::new(&text)
    }
}

impl From<PromptText> for String {
    fn from(text: PromptText) -> Self {
        text.written
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expanded(text: &str) -> String {
        let state = json!({"city": "Oslo", "hours": 9, "seen": ["a", "b"], "evil": "{{city}} \\{{hours}}"});
        let state = State::new(state.as_object().unwrap());
        PromptText::new(text).unwrap().expand(&state)
    }

    #[test]
    fn placeholders_become_values_once() {
        assert_eq!(expanded("{{city}}: {{ hours }} h, {{seen}}"), "Oslo: 9 h, a, b");
        assert_eq!(expanded("plain { text } }}"), "plain { text } }}");
        assert_eq!(expanded("\\{{city}} {{city}}"), "{{city}} Oslo");
        // A value is text, whatever it contains.
        assert_eq!(expanded("{{evil}}!"), "{{city}} \\{{hours}}!");
    }

    #[test]
    fn unreadable_placeholders_say_how_to_write_braces() {
        let error = |text: &str| PromptText::new(text).unwrap_err().to_string();
        assert_eq!(error("a {{city"), "`{{` is not closed; write `\\{{` for two braces");
        assert_eq!(error("{{a b}}"), "\"a b\" is not a name of a variable; write `\\{{` for two braces");
        assert_eq!(error("{{}}"), "\"\" is not a name of a variable; write `\\{{` for two braces");
    }

    #[test]
    fn a_literal_text_stays_what_it_is() {
        for text in ["a {{b}} c", "{{", "\\{{x}}", "plain"] {
            let literal = PromptText::literal(text);
            let again = PromptText::new(literal.as_str()).unwrap();
            assert_eq!(again.as_literal().as_deref(), Some(text), "{text}");
        }
    }
}
