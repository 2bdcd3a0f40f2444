//! Translates placeholders: every host has its own meaning for the text between `${` and `}`.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::secrets::variable_name;
use crate::expand::literal;

/// The placeholders of editors for the project directory, and for its name.
const PROJECT: [&str; 3] = ["workspaceFolder", "workspaceRoot", "cwd"];
const BASENAME: &str = "workspaceFolderBasename";

/// The placeholder syntax of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// The syntax of this crate.
    Native,
    /// No placeholders: `${` is plain text.
    Literal,
    /// The syntax of editors: `${env:VAR}`, `${workspaceFolder}`, `${input:id}`.
    Editor,
}

/// Translates the placeholders of a host to the syntax of this crate.
pub(super) struct Placeholders<'a> {
    syntax: Syntax,
    project: Option<&'a Path>,
    /// The inputs that an editor prompts for, by id.
    inputs: BTreeMap<String, Input>,
}

#[derive(Clone)]
struct Input {
    /// The variable that replaces the input, with a default.
    variable: String,
    /// The prompt of the editor in parentheses, or nothing.
    prompt: String,
}

impl<'a> Placeholders<'a> {
    pub(super) fn new(syntax: Syntax, project: Option<&'a Path>) -> Self {
        Self { syntax, project, inputs: BTreeMap::new() }
    }

    /// Adds the inputs that an editor prompts for.
    pub(super) fn with_inputs(mut self, inputs: &[Value]) -> Self {
        let mut taken = HashSet::new();
        for input in inputs {
            let text = |key: &str| input.get(key).and_then(Value::as_str);
            let Some(id) = text("id") else { continue };
            let plain = variable_name(id);
            // There are at least as many candidates as inputs.
            let variable = (1..=inputs.len())
                .map(|number| if number == 1 { plain.clone() } else { format!("{plain}_{number}") })
                .find(|name| taken.insert(name.clone()))
                .unwrap_or(plain);
            let default = text("default").filter(|default| !default.is_empty() && !default.contains(['}', '$']));
            let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
            let prompt = text("description").map(|prompt| format!(" ({prompt})")).unwrap_or_default();
            self.inputs.insert(id.to_owned(), Input { variable: format!("{variable}{default}"), prompt });
        }
        self
    }

    /// Returns the same placeholders outside of any project.
    pub(super) fn without_project(&self) -> Placeholders<'static> {
        Placeholders { syntax: self.syntax, project: None, inputs: self.inputs.clone() }
    }

    /// Translates the placeholders of a text.
    pub(super) fn text(&self, text: &str, notes: &mut Vec<String>) -> String {
        match self.syntax {
            Syntax::Native => text.to_owned(),
            Syntax::Literal => {
                if text.contains("${") {
                    notes.push("`${` is plain text in that host; written as `$${` here".to_owned());
                }
                literal(text)
            }
            Syntax::Editor => self.translate(text, notes),
        }
    }

    /// Translates a command or directory, in which editors expand `~` too.
    pub(super) fn path(&self, text: &str, notes: &mut Vec<String>) -> String {
        match text.strip_prefix("~/") {
            Some(rest) if self.syntax == Syntax::Editor => format!("${{HOME}}/{}", self.text(rest, notes)),
            _ => self.text(text, notes),
        }
    }

    fn translate(&self, text: &str, notes: &mut Vec<String>) -> String {
        let mut translated = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            translated.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                translated.push_str("$${");
                rest = after;
                continue;
            };
            translated.push_str(&self.placeholder(name, notes));
            rest = after;
        }
        translated + rest
    }

    fn placeholder(&self, name: &str, notes: &mut Vec<String>) -> String {
        let project = || self.project.map(|project| literal(&project.to_string_lossy()));
        match name.split_once(':') {
            Some(("env", variable)) => format!("${{{variable}}}"),
            Some(("input", id)) => self.input(id, notes),
            None if name == "userHome" => "${HOME}".to_owned(),
            None if matches!(name, "pathSeparator" | "/") => "/".to_owned(),
            None if PROJECT.contains(&name) => project().unwrap_or_else(|| {
                notes.push(format!("`${{{name}}}` requires a project; set the variable WORKSPACE_FOLDER"));
                "${WORKSPACE_FOLDER}".to_owned()
            }),
            None if name == BASENAME => {
                let basename = self.project.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
                basename.unwrap_or_else(|| {
                    notes.push(format!("`${{{name}}}` requires a project; set the variable WORKSPACE_FOLDER_BASENAME"));
                    "${WORKSPACE_FOLDER_BASENAME}".to_owned()
                })
            }
            None if is_variable(name) => format!("${{{name}}}"),
            _ => {
                notes.push(format!("`${{{name}}}` is not supported and became plain text"));
                format!("$${{{name}}}")
            }
        }
    }

    fn input(&self, id: &str, notes: &mut Vec<String>) -> String {
        let unknown = Input { variable: variable_name(id), prompt: String::new() };
        let Input { variable, prompt } = self.inputs.get(id).unwrap_or(&unknown);
        let name = variable.split_once(":-").map_or(variable.as_str(), |(name, _)| name);
        notes.push(format!("`${{input:{id}}}`{prompt} needs a prompt; set the variable {name} instead"));
        format!("${{{variable}}}")
    }
}

fn is_variable(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
