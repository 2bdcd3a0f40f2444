//! What stands between `${` and `}`, which every host reads in its own way.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::secrets::variable;

/// How a host reads texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// As we do.
    Ours,
    /// As they are.
    Plain,
    /// As editors do: `${env:VAR}`, `${workspaceFolder}`, `${input:id}`.
    Editor,
}

/// Translates texts.
pub(super) struct Words<'a> {
    dialect: Dialect,
    project: Option<&'a Path>,
    /// What is asked of a person, by its id: the variable that takes its place, and what was asked.
    inputs: BTreeMap<String, Input>,
}

struct Input {
    variable: String,
    asked: String,
}

impl<'a> Words<'a> {
    pub(super) fn new(dialect: Dialect, project: Option<&'a Path>) -> Self {
        Self { dialect, project, inputs: BTreeMap::new() }
    }

    /// The same, knowing what an editor would ask for.
    pub(super) fn with_inputs(mut self, inputs: &[Value]) -> Self {
        let mut taken = HashSet::new();
        for input in inputs {
            let text = |key: &str| input.get(key).and_then(Value::as_str);
            let Some(id) = text("id") else { continue };
            let plain = variable(id);
            // More than all of them cannot be taken.
            let variable = (1..=inputs.len())
                .map(|number| if number == 1 { plain.clone() } else { format!("{plain}_{number}") })
                .find(|name| taken.insert(name.clone()))
                .unwrap_or(plain);
            let default = text("default").filter(|default| !default.is_empty() && !default.contains(['}', '$']));
            let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
            let asked = text("description").map(|asked| format!(" ({asked})")).unwrap_or_default();
            self.inputs.insert(id.to_owned(), Input { variable: format!("{variable}{default}"), asked });
        }
        self
    }

    /// A text that says here what it said there.
    pub(super) fn text(&self, text: &str, notes: &mut Vec<String>) -> String {
        match self.dialect {
            Dialect::Ours => text.to_owned(),
            Dialect::Plain => {
                if text.contains("${") {
                    notes.push("`${` is plain text there; here that is written `$${`".to_owned());
                }
                text.replace("${", "$${")
            }
            Dialect::Editor => self.edited(text, notes),
        }
    }

    /// The text of a command or a folder, where an editor knows `~` too.
    pub(super) fn path(&self, text: &str, notes: &mut Vec<String>) -> String {
        match text.strip_prefix("~/") {
            Some(rest) if self.dialect == Dialect::Editor => format!("${{HOME}}/{}", self.text(rest, notes)),
            _ => self.text(text, notes),
        }
    }

    fn edited(&self, text: &str, notes: &mut Vec<String>) -> String {
        let (mut edited, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            edited.push_str(before);
            let Some((word, after)) = after.split_once('}') else {
                edited.push_str("$${");
                rest = after;
                continue;
            };
            edited.push_str(&self.word(word, notes));
            rest = after;
        }
        edited + rest
    }

    fn word(&self, word: &str, notes: &mut Vec<String>) -> String {
        let folder = || self.project.map(|folder| folder.to_string_lossy().replace("${", "$${"));
        match word.split_once(':') {
            Some(("env", name)) => format!("${{{name}}}"),
            Some(("input", id)) => self.input(id, notes),
            None if word == "userHome" => "${HOME}".to_owned(),
            None if matches!(word, "pathSeparator" | "/") => "/".to_owned(),
            None if matches!(word, "workspaceFolder" | "workspaceRoot" | "cwd") => folder().unwrap_or_else(|| {
                notes.push(format!("`${{{word}}}` needs a project; set the variable WORKSPACE_FOLDER"));
                "${WORKSPACE_FOLDER}".to_owned()
            }),
            None if word == "workspaceFolderBasename" => {
                let name = self.project.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
                name.unwrap_or_else(|| {
                    notes.push(format!("`${{{word}}}` needs a project; set the variable WORKSPACE_FOLDER_BASENAME"));
                    "${WORKSPACE_FOLDER_BASENAME}".to_owned()
                })
            }
            None if is_variable(word) => format!("${{{word}}}"),
            _ => {
                notes.push(format!("`${{{word}}}` means nothing here, and is plain text now"));
                format!("$${{{word}}}")
            }
        }
    }

    fn input(&self, id: &str, notes: &mut Vec<String>) -> String {
        let unknown = Input { variable: variable(id), asked: String::new() };
        let Input { variable, asked } = self.inputs.get(id).unwrap_or(&unknown);
        let name = variable.split_once(":-").map_or(variable.as_str(), |(name, _)| name);
        notes.push(format!("`${{input:{id}}}` was asked of you{asked}; set the variable {name} instead"));
        format!("${{{variable}}}")
    }
}

fn is_variable(word: &str) -> bool {
    let first = word.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
