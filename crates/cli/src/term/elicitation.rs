//! Forms that servers ask the user to fill in. Every row names the server, and no text of the server ends a row.

use serde_json::{Map, Value};
use wharf::{Elicitation, ElicitationAnswer, ServerName};

use super::field_value;
use super::input::{hidden_line, line};
use super::message::stderr_width;
use super::secret_field::{is_secret, is_secret_message};
use super::text::name;
use super::wrap::filled;

/// The width of a terminal that does not report its own.
const DEFAULT_WIDTH: usize = 80;
/// How much of a field's name is shown before its title.
const MAX_NAME_CHARS: usize = 60;

/// Whether servers may ask for passwords and other secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretFields {
    Refuse,
    /// The user may fill them in; what is typed is not shown.
    Allow,
}

/// Asks for every field of a form. An empty line selects the default or omits the field.
pub(super) async fn fill_in(
    server: &ServerName,
    elicitation: &Elicitation,
    secret_fields: SecretFields,
) -> ElicitationAnswer {
    let form = Form { server };
    form.say(&format!("asks: {}", elicitation.message));
    if let Some(url) = &elicitation.url {
        if let Err(reason) = check_page(url) {
            form.say(&format!("declined: {reason}"));
            return ElicitationAnswer::Decline;
        }
        form.say(&format!("visit {url}"));
        return match form.ask("done? [y/N]").await.as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => ElicitationAnswer::Accept(None),
            Some(_) => ElicitationAnswer::Decline,
            None => ElicitationAnswer::Cancel,
        };
    }
    let schema = elicitation.schema.as_ref().and_then(|schema| schema.to_value().ok()).unwrap_or_default();
    let fields: Vec<Field<'_>> = fields(&schema, &elicitation.message);
    if let (SecretFields::Refuse, Some(secret)) = (secret_fields, fields.iter().find(|field| field.is_secret)) {
        form.say(&format!("declined: `{}` looks like a secret; --allow-secrets lets you fill it in", secret.name));
        return ElicitationAnswer::Decline;
    }
    let mut filled =
        elicitation.defaults().to_value().ok().and_then(|value| value.as_object().cloned()).unwrap_or_default();
    for field in &fields {
        match form.fill_in_field(field, &mut filled).await {
            Some(()) => {}
            None => return ElicitationAnswer::Cancel,
        }
    }
    match form.ask("send this? [y/N]").await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ElicitationAnswer::Accept(Some(Value::Object(filled).into())),
        Some(_) => ElicitationAnswer::Decline,
        None => ElicitationAnswer::Cancel,
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

/// One field of a form.
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    is_secret: bool,
}

/// Returns the fields. A message that asks for a secret makes every field a secret one.
fn fields<'a>(schema: &'a Value, message: &str) -> Vec<Field<'a>> {
    let asks_for_secret = is_secret_message(message);
    let field = |(name, schema): (&'a String, &'a Value)| Field {
        name,
        schema,
        is_secret: asks_for_secret || is_secret(name, schema),
    };
    schema["properties"].as_object().into_iter().flatten().map(field).collect()
}

/// A form of one server on the terminal.
struct Form<'a> {
    server: &'a ServerName,
}

impl Form<'_> {
    /// Returns a text as rows that begin with the server's name.
    fn rows(&self, text: &str) -> String {
        let width = stderr_width().unwrap_or(DEFAULT_WIDTH);
        filled(&name(text), &format!("{} │ ", self.server), width).join("\n")
    }

    fn say(&self, text: &str) {
        super::message::line(&self.rows(text));
    }

    async fn ask(&self, question: &str) -> Option<String> {
        line(format!("{}: ", self.rows(question))).await
    }

    /// Asks for one field until the field accepts the type of the value; `None` at the end of the input.
    async fn fill_in_field(&self, field: &Field<'_>, filled: &mut Map<String, Value>) -> Option<()> {
        let Field { name, schema, is_secret } = *field;
        let title = schema["title"].as_str().or(schema["description"].as_str()).map(|title| format!(" ({title})"));
        let shown_name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let label = format!("{shown_name}{}", title.unwrap_or_default());
        loop {
            let typed = if is_secret {
                // Without a default: it would be shown.
                filled.remove(name);
                hidden_line(format!("{}: ", self.rows(&format!("{label} (not shown)")))).await?
            } else {
                let default = filled.get(name).map(|value| format!(" [{value}]")).unwrap_or_default();
                self.ask(&format!("{label}{default}")).await?
            };
            let typed = typed.trim();
            if typed.is_empty() {
                return Some(());
            }
            if let Some(value) = field_value::parse(schema, typed) {
                filled.insert(name.to_owned(), value);
                return Some(());
            }
            self.say(&format!("not accepted: `{shown_name}` must be {}", field_value::expected(schema)));
        }
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
    fn a_message_that_asks_for_a_password_makes_all_fields_secret() {
        let schema = json!({"properties": {"answer": {"type": "string"}, "ok": {"type": "boolean"}}});
        let secret = |message: &str| fields(&schema, message).iter().map(|field| field.is_secret).collect::<Vec<_>>();
        assert_eq!(secret("Please enter your\u{200b} pass\u{200b}word"), [true, true]);
        assert_eq!(secret("Which city?"), [false, false]);
    }
}
