//! The fields of a server's form: what each is called, whether it is required, and its choices.

use serde_json::Value;
use wharf::config::is_secret_message;

use super::secret_field::is_secret;
use super::text::name as visible_name;

/// How much of a field's name is shown before its title.
const MAX_NAME_CHARS: usize = 60;
/// How much of a field's title or description is shown, and of a choice.
const MAX_TITLE_CHARS: usize = 200;

/// One field of a form.
pub(super) struct FormField<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
    pub(super) is_secret: bool,
    /// The values to choose from; empty if any value may be typed.
    pub(super) choices: Vec<Choice>,
}

/// A value to choose, and what it is called.
pub(super) struct Choice {
    pub(super) value: Value,
    title: Option<String>,
}

impl Choice {
    pub(super) fn new(value: Value, title: Option<String>) -> Self {
        Self { value, title }
    }

    /// Returns the value as the user types it.
    pub(super) fn text(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }

    /// Returns the value and its title, in one line.
    pub(super) fn shown(&self) -> String {
        let value = cut(&self.text(), MAX_TITLE_CHARS);
        match self.title.as_deref().filter(|title| *title != self.text()) {
            Some(title) => format!("{value} ({})", cut(title, MAX_TITLE_CHARS)),
            None => value,
        }
    }
}

impl FormField<'_> {
    /// Returns the name, shortened.
    pub(super) fn shown_name(&self) -> String {
        self.name.chars().take(MAX_NAME_CHARS).collect()
    }

    /// Returns the title or the description.
    pub(super) fn title(&self) -> Option<String> {
        let title = self.schema["title"].as_str();
        let description = self.schema["description"].as_str();
        let texts: Vec<&str> = title.into_iter().chain(description.filter(|text| Some(*text) != title)).collect();
        (!texts.is_empty()).then(|| cut(&texts.join(": "), MAX_TITLE_CHARS))
    }
}

/// Returns the fields of a form. A message that asks for a secret makes every field a secret one.
pub(super) fn fields<'a>(schema: &'a Value, message: &str) -> Vec<FormField<'a>> {
    let asks_for_secret = is_secret_message(message);
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let field = |(name, schema): (&'a String, &'a Value)| FormField {
        name,
        schema,
        is_required: required.contains(&name.as_str()),
        is_secret: asks_for_secret || is_secret(name, schema),
        choices: choices(schema),
    };
    schema["properties"].as_object().into_iter().flatten().map(field).collect()
}

/// Returns the choices of a field, or of the items of a list: `enum` with `enumNames`, or `oneOf` or `anyOf` of constants.
fn choices(schema: &Value) -> Vec<Choice> {
    let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
    if let Some(values) = schema["enum"].as_array() {
        let title = |index: usize| schema["enumNames"][index].as_str().map(str::to_owned);
        return values.iter().enumerate().map(|(index, value)| Choice::new(value.clone(), title(index))).collect();
    }
    let alternatives = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array());
    let constant = |alternative: &Value| {
        let title = alternative["title"].as_str().or(alternative["description"].as_str()).map(str::to_owned);
        Some(Choice::new(alternative.get("const")?.clone(), title))
    };
    let constants: Option<Vec<Choice>> =
        alternatives.map(|found| found.iter().map(constant).collect()).unwrap_or_default();
    constants.unwrap_or_default()
}

fn cut(text: &str, limit: usize) -> String {
    let text = visible_name(text);
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn choices_are_found_in_every_notation() {
        let shown = |schema: Value| choices(&schema).iter().map(Choice::shown).collect::<Vec<_>>();
        assert_eq!(shown(json!({"enum": ["a", "b"], "enumNames": ["Alpha"]})), ["a (Alpha)", "b"]);
        assert_eq!(shown(json!({"oneOf": [{"const": "a", "title": "Alpha"}, {"const": 2}]})), ["a (Alpha)", "2"]);
        assert_eq!(shown(json!({"type": "array", "items": {"anyOf": [{"const": "a"}]}})), ["a"]);
        assert_eq!(shown(json!({"oneOf": [{"type": "null"}, {"type": "string"}]})), [""; 0]);
        assert_eq!(shown(json!({"enum": ["x\nhint: y"]})), ["x\\nhint: y"]);
    }

    #[test]
    fn a_message_that_asks_for_a_password_makes_all_fields_secret() {
        let schema = json!({"properties": {"answer": {"type": "string"}, "ok": {"type": "boolean"}}});
        let secret = |message: &str| fields(&schema, message).iter().map(|field| field.is_secret).collect::<Vec<_>>();
        assert_eq!(secret("Please enter your\u{200b} pass\u{200b}word"), [true, true]);
        assert_eq!(secret("Which city?"), [false, false]);
    }

    #[test]
    fn required_fields_are_marked() {
        let schema = json!({"properties": {"a": {}, "b": {}}, "required": ["b", 1]});
        let required: Vec<bool> = fields(&schema, "").iter().map(|field| field.is_required).collect();
        assert_eq!(required, [false, true]);
    }
}
