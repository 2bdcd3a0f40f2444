//! Forms that servers ask the user to fill in. Every row names the server, and no text of the server ends a row.

use serde_json::{Map, Value};
use wharf::{Elicitation, ElicitationAnswer, ServerName};

use super::field_value;
use super::form_field::{FormField, fields};
use super::input::{hidden_line, line};
use super::message::stderr_width;
use super::text::name;
use super::wrap::filled;

/// The width of a terminal that does not report its own.
const DEFAULT_WIDTH: usize = 80;
/// How many choices of a field are shown. Others can still be typed.
const MAX_SHOWN_CHOICES: usize = 40;
/// What the user types to decline a form.
const DECLINE: &str = "/decline";

/// Whether servers may ask for passwords and other secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretFields {
    Refuse,
    /// The user may fill them in; what is typed is not shown.
    Allow,
}

/// Why a form is not sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    Declined,
    /// The input ended.
    Cancelled,
}

/// What the user decides about a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Accept,
    Decline,
    /// Ask for every field again, with what was filled in as the default.
    Edit,
}

impl Decision {
    fn parse(typed: &str) -> Option<Self> {
        match typed.to_ascii_lowercase().as_str() {
            "y" | "yes" => Some(Self::Accept),
            "n" | "no" => Some(Self::Decline),
            "e" | "edit" => Some(Self::Edit),
            _ => None,
        }
    }

    fn choice(self) -> &'static str {
        match self {
            Self::Accept => "[y]es",
            Self::Decline => "[n]o",
            Self::Edit => "[e]dit",
        }
    }
}

impl From<Unsent> for ElicitationAnswer {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::Declined => Self::Decline,
            Unsent::Cancelled => Self::Cancel,
        }
    }
}

/// Asks for every field of a form. An empty line selects the default or omits an optional field.
pub(super) async fn fill_in(
    server: &ServerName,
    elicitation: &Elicitation,
    secret_fields: SecretFields,
) -> ElicitationAnswer {
    let form = Form { server };
    form.say(&format!("asks: {}", elicitation.message));
    let answered = match &elicitation.url {
        Some(url) => form.visit(url).await.map(|()| None),
        None => form.fill_in_all(elicitation, secret_fields).await.map(|filled| Some(Value::Object(filled).into())),
    };
    answered.map_or_else(ElicitationAnswer::from, ElicitationAnswer::Accept)
}

/// What one server shows and asks on the terminal.
pub(super) struct Form<'a> {
    pub(super) server: &'a ServerName,
}

impl Form<'_> {
    /// Returns a text as rows that begin with the server's name.
    fn rows(&self, text: &str) -> String {
        let width = stderr_width().unwrap_or(DEFAULT_WIDTH);
        filled(&name(text), &format!("{} │ ", self.server), width).join("\n")
    }

    pub(super) fn say(&self, text: &str) {
        super::message::line(&self.rows(text));
    }

    /// Asks a question. The answer has no spaces around it.
    pub(super) async fn ask(&self, question: &str) -> Result<String, Unsent> {
        answer(line(format!("{}: ", self.rows(question))).await.as_deref())
    }

    async fn ask_hidden(&self, question: &str) -> Result<String, Unsent> {
        answer(hidden_line(format!("{}: ", self.rows(question))).await.as_deref())
    }

    /// Asks until the user decides. Enter alone decides nothing: it would drop a form that was filled in.
    async fn decision(&self, question: &str, allowed: &[Decision]) -> Result<Decision, Unsent> {
        let choices = allowed.iter().map(|decision| decision.choice()).collect::<Vec<_>>().join(", ");
        loop {
            match Decision::parse(&self.ask(&format!("{question} {choices}")).await?) {
                Some(decision) if allowed.contains(&decision) => return Ok(decision),
                _ => self.say(&format!("expected {choices}")),
            }
        }
    }

    async fn visit(&self, url: &str) -> Result<(), Unsent> {
        if let Err(reason) = check_page(url) {
            self.say(&format!("declined: {reason}"));
            return Err(Unsent::Declined);
        }
        self.say(&format!("visit {url}"));
        match self.decision("done?", &[Decision::Accept, Decision::Decline]).await? {
            Decision::Accept => Ok(()),
            Decision::Decline | Decision::Edit => Err(Unsent::Declined),
        }
    }

    async fn fill_in_all(
        &self,
        elicitation: &Elicitation,
        secret_fields: SecretFields,
    ) -> Result<Map<String, Value>, Unsent> {
        let schema = elicitation.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
        let fields = fields(&schema, &elicitation.message);
        if let (SecretFields::Refuse, Some(secret)) = (secret_fields, fields.iter().find(|field| field.is_secret)) {
            let name = secret.shown_name();
            self.say(&format!("declined: `{name}` looks like a secret; --allow-secrets lets you fill it in"));
            return Err(Unsent::Declined);
        }
        if !fields.is_empty() {
            self.say(&format!("(Enter keeps a default or skips an optional field; {DECLINE} declines)"));
        }
        let defaults = elicitation.defaults().to_value().ok().and_then(|value| value.as_object().cloned());
        let mut filled = defaults.unwrap_or_default();
        let all = [Decision::Accept, Decision::Decline, Decision::Edit];
        let allowed = if fields.is_empty() { &all[..2] } else { &all };
        loop {
            for field in &fields {
                // A default that the field does not accept would be refused by the server.
                if filled.get(field.name).is_some_and(|default| !is_accepted(field, default)) {
                    filled.remove(field.name);
                }
                self.fill_in_field(field, &mut filled).await?;
            }
            match self.decision("send this?", allowed).await? {
                Decision::Accept => return Ok(filled),
                Decision::Decline => return Err(Unsent::Declined),
                Decision::Edit => {}
            }
        }
    }

    /// Asks for one field until the field accepts the value.
    async fn fill_in_field(&self, field: &FormField<'_>, filled: &mut Map<String, Value>) -> Result<(), Unsent> {
        let FormField { name, schema, is_required, is_secret, choices } = field;
        if *is_secret {
            // Without a default: it would be shown.
            filled.remove(*name);
        }
        let default = filled.get(*name).map(|value| format!(" [{}]", shown_default(value))).unwrap_or_default();
        let question = if choices.is_empty() {
            format!("{}{default}", label(field))
        } else {
            self.say(&label(field));
            self.show_choices(field);
            let several = if field_value::is_list(schema) { "choose some, separated by commas" } else { "choose one" };
            format!("{several}{default}")
        };
        loop {
            let typed = if *is_secret { self.ask_hidden(&question).await? } else { self.ask(&question).await? };
            if typed.is_empty() {
                if !*is_required || filled.contains_key(*name) {
                    return Ok(());
                }
                self.say(&format!("`{}` is required; {DECLINE} declines the form", field.shown_name()));
                continue;
            }
            let parsed = if choices.is_empty() {
                field_value::parse(schema, &typed)
            } else {
                field_value::parse_choices(schema, choices, &typed)
            };
            match parsed {
                Ok(value) => {
                    filled.insert((*name).to_owned(), value);
                    return Ok(());
                }
                Err(expected) => {
                    self.say(&format!("not accepted: `{}` must be {expected}", field.shown_name()));
                }
            }
        }
    }

    fn show_choices(&self, field: &FormField<'_>) {
        for (index, choice) in field.choices.iter().take(MAX_SHOWN_CHOICES).enumerate() {
            self.say(&format!("  {}) {}", index + 1, choice.shown()));
        }
        if field.choices.len() > MAX_SHOWN_CHOICES {
            self.say(&format!("  … {} more", field.choices.len() - MAX_SHOWN_CHOICES));
        }
    }
}

/// Returns what the user typed, or why the form ends here.
fn answer(typed: Option<&str>) -> Result<String, Unsent> {
    match typed.map(str::trim) {
        Some(DECLINE) => Err(Unsent::Declined),
        Some(typed) => Ok(typed.to_owned()),
        None => Err(Unsent::Cancelled),
    }
}

/// Returns the name of a field, its title, what it accepts, and whether it is required.
fn label(field: &FormField<'_>) -> String {
    let expected = field.choices.is_empty() && field_value::needs_description(field.schema);
    let expected = expected.then(|| field_value::expected(field.schema));
    let hidden = field.is_secret.then(|| "not shown".to_owned());
    let details: Vec<String> = [field.title(), expected, hidden].into_iter().flatten().collect();
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
    let required = if field.is_required { ", required" } else { "" };
    format!("{}{details}{required}", field.shown_name())
}

fn is_accepted(field: &FormField<'_>, value: &Value) -> bool {
    if field.choices.is_empty() {
        return field_value::check(field.schema, value).is_ok();
    }
    let is_choice = |value: &Value| field.choices.iter().any(|choice| choice.value == *value);
    match value {
        Value::Array(values) => {
            let is_valid = field_value::is_list(field.schema) && field_value::check(field.schema, value).is_ok();
            is_valid && values.iter().all(is_choice)
        }
        value => !field_value::is_list(field.schema) && is_choice(value),
    }
}

/// Returns a default as the user would type it.
fn shown_default(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown_default).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Checks that a URL is a page, and that what precedes its host cannot be taken for the host.
fn check_page(url: &str) -> Result<(), &'static str> {
    let page: http::Uri = url.parse().map_err(|_| "the URL of the page is invalid")?;
    if !matches!(page.scheme_str(), Some("https" | "http")) {
        return Err("the URL of the page is not an https URL");
    }
    match page.authority() {
        Some(authority) if !authority.as_str().contains('@') => Ok(()),
        Some(_) => Err("the URL of the page contains a user name, which could be taken for its host"),
        None => Err("the URL of the page has no host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_row_of_a_form_begins_with_text_of_the_server() {
        let server: ServerName = "s".parse().expect("a name");
        let form = Form { server: &server };
        for text in
            ["ok\nhint: run it", "ok\r\nwharf │ hi", &format!("x{}hint: run it", " ".repeat(79)), &"y".repeat(300)]
        {
            let rows = form.rows(text);
            assert!(rows.lines().all(|row| row.starts_with("s │ ") && row.chars().count() <= 80), "{rows}");
        }
    }

    #[test]
    fn only_pages_without_a_user_name_are_shown() {
        for url in ["https://accounts.google.com/x?a=b@c", "http://127.0.0.1:8080/", "https://example.test"] {
            assert_eq!(check_page(url), Ok(()), "{url}");
        }
        for url in [
            "javascript:alert(1)",
            "javascript://a.test/%0aalert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "https://accounts.google.com@evil.test/",
            "https://accounts.google.com:x@evil.test/",
            "https://accounts.google.com\\@evil.test/",
            "/login",
            "",
        ] {
            assert!(check_page(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_label_says_what_a_field_accepts_and_whether_it_is_required() {
        let schema = json!({"properties": {
            "age": {"type": "integer", "title": "Age", "minimum": 0, "maximum": 120},
            "color": {"type": "string", "enum": ["red"], "description": "Favorite"},
            "note": {"type": "string"},
        }, "required": ["age"]});
        let labels: Vec<String> = fields(&schema, "").iter().map(label).collect();
        assert_eq!(labels, ["age (Age; a whole number, from 0 to 120), required", "color (Favorite)", "note"]);
        let wrong = [("age", json!(-1)), ("color", json!("blue")), ("note", json!(1))];
        for (field, (name, default)) in fields(&schema, "").iter().zip(wrong) {
            assert!(field.name == name && !is_accepted(field, &default), "{name}");
        }
    }

    #[test]
    fn a_form_is_declined_at_any_time_and_cancelled_at_the_end_of_the_input() {
        assert_eq!(answer(Some(" /decline\n")), Err(Unsent::Declined));
        assert_eq!(answer(None), Err(Unsent::Cancelled));
        assert_eq!(answer(Some(" x \n")), Ok("x".to_owned()));
    }
}
