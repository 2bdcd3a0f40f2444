//! The OAuth options of `wharf add`: a client that is registered with the authorization server.

use serde_json::{Map, Value, json};
use wharf::fleet::Scope;

use crate::env::variable;
use crate::error::{UsageError, usage_error};
use crate::term::input::hidden_line;
use crate::term::prompt::is_interactive;

/// The variable of the client secret, if `--client-secret` names none and no terminal is there to ask at.
const SECRET_VARIABLE: &str = "MCP_CLIENT_SECRET";

#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::doc_markdown, reason = "clap prints these texts as they are")]
pub(super) struct OAuthArgs {
    /// Client id that is registered with the authorization server
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Ask for the client secret, or read it from a variable when the server starts [env: MCP_CLIENT_SECRET]
    #[arg(long, value_name = "VARIABLE", num_args = 0..=1, require_equals = true, default_missing_value = "",
        requires = "client_id")]
    client_secret: Option<String>,
    /// Local port for the redirect after signing in
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    callback_port: Option<u16>,
}

impl OAuthArgs {
    /// Adds what was given after the URL.
    pub(super) fn extend(&mut self, late: Self) {
        self.client_id = late.client_id.or(self.client_id.take());
        self.client_secret = late.client_secret.or(self.client_secret.take());
        self.callback_port = late.callback_port.or(self.callback_port);
    }

    /// Returns the first option that is given.
    pub(super) fn first(&self) -> Option<&'static str> {
        let given = [
            ("--client-id", self.client_id.is_some()),
            ("--client-secret", self.client_secret.is_some()),
            ("--callback-port", self.callback_port.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Returns the `oauth` object of an entry; `None` without options. Asks for the secret.
    pub(super) async fn entry(&self, scope: Scope) -> Result<Option<Value>, UsageError> {
        let mut oauth = Map::new();
        if let Some(id) = &self.client_id {
            oauth.insert("clientId".to_owned(), json!(id));
        }
        if let Some(variable) = &self.client_secret {
            oauth.insert("clientSecret".to_owned(), json!(client_secret(variable, scope).await?));
        }
        if let Some(port) = self.callback_port {
            oauth.insert("callbackPort".to_owned(), json!(port));
        }
        Ok((!oauth.is_empty()).then_some(Value::Object(oauth)))
    }
}

/// Returns the client secret as an entry has it: a reference to a variable, or what the user types.
async fn client_secret(named: &str, scope: Scope) -> Result<String, UsageError> {
    let hint = format!("name a variable: --client-secret=NAME, or set {SECRET_VARIABLE}");
    let name = if named.is_empty() && variable(&[SECRET_VARIABLE]).is_some() { SECRET_VARIABLE } else { named };
    if !name.is_empty() {
        // Without the name in the message: it may be a secret, typed by mistake.
        if variable(&[name]).is_some() {
            return Ok(format!("${{{name}}}"));
        }
        let message = "--client-secret names a variable that is not set";
        return Err(usage_error(message.to_owned(), Some("the secret itself does not belong on a command line")));
    }
    if scope == Scope::Project {
        let message = "a project's file must not contain a client secret, because others can read it";
        return Err(usage_error(message.to_owned(), Some(&hint)));
    }
    if !is_interactive() {
        return Err(usage_error("cannot ask for the client secret without a terminal".to_owned(), Some(&hint)));
    }
    let Some(typed) = hidden_line("Client secret: ".to_owned()).await else {
        return Err(usage_error("cannot read the client secret from the terminal".to_owned(), Some(&hint)));
    };
    let typed = typed.trim_end_matches(['\r', '\n']);
    if typed.is_empty() {
        return Err(usage_error("the client secret is empty".to_owned(), Some(&hint)));
    }
    // A literal `${` is not a variable.
    Ok(typed.replace("${", "$${"))
}
