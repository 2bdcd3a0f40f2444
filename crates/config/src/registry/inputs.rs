//! Values that the user provides: variables, headers, arguments, and parts of them.

use std::collections::BTreeMap;

use serde::Deserialize as _;

use super::server_json::{RawInput, cut};
use crate::expand::literal;
use crate::import::variable_name;

/// A value that the user may provide.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name, by which the user provides it.
    pub name: String,
    /// What it becomes.
    pub role: InputRole,
    /// What it is for.
    pub description: Option<String>,
    /// Whether the server does not work without it.
    pub is_required: bool,
    /// Whether it is a secret.
    pub is_secret: bool,
    /// The value that is used if the user provides none.
    pub default: Option<String>,
    /// The possible values, if they are limited.
    pub choices: Vec<String>,
}

/// What an input becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    /// An environment variable of the server.
    Variable,
    /// An HTTP header.
    Header,
    /// A command-line argument.
    Argument,
    /// A part of another value.
    Part,
}

/// A text with places for inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    /// Text of the registry.
    Text(String),
    /// The input with this index.
    Input(usize),
}

/// All inputs of an offer, in the order in which they occur.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs(pub(super) Vec<Input>);

/// Why a template has no value.
pub(super) enum NoValue {
    /// The user may leave it out.
    Optional,
    /// The input with this index is missing.
    Missing(usize),
}

impl Inputs {
    /// Returns the template of an argument, a variable or a header, and adds its inputs.
    pub(super) fn template(&mut self, raw: &RawInput, role: InputRole) -> Template {
        let Some(value) = &raw.value else {
            let name = raw.name.as_ref().or(raw.value_hint.as_ref()).map_or("value", String::as_str);
            // The user names an option without its dashes.
            let name = if role == InputRole::Argument { name.trim_start_matches('-') } else { name };
            return Template(vec![Piece::Input(self.add(name.to_owned(), raw, role))]);
        };
        self.parts(value, &raw.variables, raw.is_secret)
    }

    /// Returns the template of a text with `{name}` in it. A name that is not among the variables is text.
    pub(super) fn parts(
        &mut self,
        text: &str,
        variables: &serde_json::Map<String, serde_json::Value>,
        is_secret: bool,
    ) -> Template {
        let mut pieces = Vec::new();
        let mut rest = text;
        let mut plain = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            plain.push_str(before);
            let found = after.split_once('}').and_then(|(name, after)| Some((name, variables.get(name)?, after)));
            let Some((name, variable, after)) = found else {
                plain.push('{');
                rest = after;
                continue;
            };
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            let mut raw = RawInput::deserialize(variable).unwrap_or_default();
            raw.is_secret |= is_secret;
            // The value around it needs it.
            raw.is_required = true;
            match &raw.value {
                Some(value) => pieces.push(Piece::Text(value.clone())),
                None => pieces.push(Piece::Input(self.add(name.to_owned(), &raw, InputRole::Part))),
            }
            rest = after;
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Template(pieces)
    }

    fn add(&mut self, name: String, raw: &RawInput, role: InputRole) -> usize {
        // Inputs of one name get one value. If it is secret in one place, it is secret in all of them.
        let is_secret = raw.is_secret || self.0.iter().any(|input| input.name == name && input.is_secret);
        self.0.iter_mut().filter(|input| input.name == name).for_each(|input| input.is_secret = is_secret);
        if let Some(index) = self.0.iter().position(|input| input.name == name && input.role == role) {
            return index;
        }
        self.0.push(Input {
            name,
            role,
            description: raw.description.as_deref().map(cut),
            is_required: raw.is_required,
            is_secret,
            default: raw.default.clone(),
            choices: raw.choices.clone(),
        });
        self.0.len() - 1
    }

    /// Returns the text of a template. What the user provides is used as it is, so that it may refer to variables. What
    /// the user does not provide refers to a variable of the user's environment where that is possible: a secret is not
    /// written into a file. `references` receives these variables.
    pub(super) fn text(
        &self,
        template: &Template,
        values: &BTreeMap<String, String>,
        references: &mut Vec<String>,
    ) -> Result<String, NoValue> {
        let mut text = String::new();
        // The registry's text, escaped as a whole: `$` and `{` of adjacent pieces would be a reference together.
        let mut plain = String::new();
        for piece in &template.0 {
            let index = match piece {
                Piece::Text(piece) => {
                    plain.push_str(piece);
                    continue;
                }
                Piece::Input(index) => *index,
            };
            let input = &self.0[index];
            match (values.get(&input.name), &input.default) {
                (Some(value), _) => {
                    text.push_str(&literal(&std::mem::take(&mut plain)));
                    text.push_str(value);
                }
                (None, _) if !input.is_required => return Err(NoValue::Optional),
                (None, Some(default)) if !input.is_secret => plain.push_str(default),
                (None, _) if input.is_secret || input.role == InputRole::Variable => {
                    let variable = match input.role {
                        InputRole::Variable => input.name.clone(),
                        _ => variable_name(&input.name),
                    };
                    text.push_str(&literal(&std::mem::take(&mut plain)));
                    text.push_str("${");
                    text.push_str(&variable);
                    text.push('}');
                    references.push(variable);
                }
                (None, _) => return Err(NoValue::Missing(index)),
            }
        }
        text.push_str(&literal(&plain));
        Ok(text)
    }
}
