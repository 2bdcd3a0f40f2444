//! The secrets of a server's entry, for removal from what is stored or printed.
//!
//! Every value may be a secret, whatever its name. Only values that are clearly none, such as a path or a plain word, stay
//! readable: redacting `production` would damage every text that contains it.

use std::fmt;

use serde_json::Value;
use wharf_protocol::Secret;

use crate::danger::looks_secret;
use crate::raw_entry::RawEntry;
use crate::secret_names::is_secret_name;
use crate::server::{ManagedConfig, RemoteConfig, Server, StdioConfig, TransportConfig};

/// The shortest part of a path that is taken for a secret.
const MIN_PATH_SECRET_CHARS: usize = 16;
/// The fewest digits of a hexadecimal number in a path that is taken for a secret.
const MIN_HEX_SECRET_DIGITS: usize = 32;

impl Server {
    /// Returns the values of the entry that may be secret: of variables, headers, options, the URL and the OAuth client.
    pub fn secrets(&self) -> Vec<Secret> {
        let mut found = Vec::new();
        match &self.transport {
            TransportConfig::Stdio(stdio) => of_process(stdio, &mut found),
            TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
                of_remote(remote, &mut found);
            }
            TransportConfig::Managed(ManagedConfig { launch, headers, .. }) => {
                of_process(launch, &mut found);
                found.extend(secret_values(headers));
            }
            TransportConfig::Custom(..) => {}
        }
        found
    }
}

/// Where an entry contains a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretPlace {
    /// A variable or a header.
    Field {
        /// `env` or `headers`.
        group: &'static str,
        name: String,
    },
    /// The arguments, or the URL.
    Key(&'static str),
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { group, name } => write!(f, "{group}.{name}"),
            Self::Key(key) => f.write_str(key),
        }
    }
}

/// Returns where an entry, as it is written, contains secrets. References to variables are none.
pub(crate) fn secret_places(written: &RawEntry) -> Vec<SecretPlace> {
    let mut places = Vec::new();
    for group in ["env", "headers"] {
        for (name, value) in written.get(group).and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().filter(|text| !text.is_empty() && !text.contains("${"));
            if text.is_some_and(|text| contains_secret(name, text)) {
                places.push(SecretPlace::Field { group, name: name.clone() });
            }
        }
    }
    let mut found = Vec::new();
    let mut before = "";
    for arg in written.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        of_argument(before, arg, &mut found);
        before = arg;
    }
    let is_literal = |secret: &Secret| !secret.expose().contains("${");
    places.extend(found.iter().any(is_literal).then_some(SecretPlace::Key("args")));
    found.clear();
    of_url(written.text("url").unwrap_or_default(), &mut found);
    places.extend(found.iter().any(is_literal).then_some(SecretPlace::Key("url")));
    places
}

/// Whether a value is a secret by its name or its form, or has one in it.
fn contains_secret(name: &str, value: &str) -> bool {
    let mut found = Vec::new();
    of_url(value, &mut found);
    of_connection_string(value, &mut found);
    is_secret_name(name) || looks_secret(name, value) || !found.is_empty()
}

fn of_process(stdio: &StdioConfig, found: &mut Vec<Secret>) {
    for (name, value) in &stdio.env {
        if may_be_secret(name, value.expose()) {
            found.push(value.clone());
        }
        of_url(value.expose(), found);
        of_connection_string(value.expose(), found);
    }
    let mut before = "";
    for arg in &stdio.args {
        of_argument(before, arg, found);
        before = arg;
    }
}

/// Finds the secrets of an argument: an option's value, a variable, a header, or a part of a URL.
fn of_argument(before: &str, arg: &str, found: &mut Vec<Secret>) {
    let option = arg.strip_prefix('-').and_then(|_| arg.split_once('='));
    // A value may end with `=`, as base64 does, so the name of a variable must look like one.
    let is_variable = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let variable = arg.split_once('=').filter(|(name, _)| is_variable(name));
    let whole = (!arg.starts_with('-')).then_some((before, arg));
    for (name, value) in [option, variable, whole].into_iter().flatten() {
        if looks_secret(name.trim_start_matches('-'), value) {
            found.push(Secret::new(value));
        }
        of_url(value, found);
        of_connection_string(value, found);
        if let Some((name, value)) = value.split_once(':')
            && looks_secret(name, value.trim())
        {
            found.push(Secret::new(value.trim()));
        }
    }
}

fn of_remote(remote: &RemoteConfig, found: &mut Vec<Secret>) {
    found.extend(secret_values(&remote.headers));
    found.extend(remote.oauth.client_secret.clone());
    of_url(&remote.url, found);
}

/// Finds the secrets of a connection string: `Server=db;Password=…`.
fn of_connection_string(text: &str, found: &mut Vec<Secret>) {
    if !text.contains(';') {
        return;
    }
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    found.extend(pairs.filter(|(name, _)| is_secret_name(name)).map(|(_, value)| Secret::new(value.trim())));
}

/// Finds the password, the secret parameters and the random parts of a URL: webhooks and links to a private server have
/// theirs in the path. Other texts have none.
fn of_url(url: &str, found: &mut Vec<Secret>) {
    let Some((_, rest)) = url.split_once("://") else { return };
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    found.extend(pairs.filter(|(name, value)| may_be_secret(name, value)).map(|(_, value)| Secret::new(value)));
    let authority = address.split('/').next().and_then(|authority| authority.rsplit_once('@'));
    found.extend(authority.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| Secret::new(password)));
    let path = address.split('#').next().unwrap_or_default();
    found.extend(path.split('/').skip(1).filter(|part| is_random(part)).map(Secret::new));
}

/// Whether a part of a path looks random: long, with digits and with letters of both cases, or a long hexadecimal number
/// such as a UUID.
fn is_random(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_hexadecimal = digits >= MIN_HEX_SECRET_DIGITS && part.bytes().all(|c| c.is_ascii_hexdigit() || c == b'-');
    let is_mixed = part.len() >= MIN_PATH_SECRET_CHARS
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.'))
        && part.bytes().any(|byte| byte.is_ascii_digit())
        && part.bytes().any(|byte| byte.is_ascii_lowercase())
        && part.bytes().any(|byte| byte.is_ascii_uppercase());
    is_hexadecimal || is_mixed
}

fn secret_values(headers: &[(String, Secret)]) -> impl Iterator<Item = Secret> {
    headers.iter().filter(|(name, value)| may_be_secret(name, value.expose())).map(|(_, value)| value.clone())
}

fn may_be_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) || !is_plain(value)
}

/// Whether a value is a path, a number, an address without credentials, or one of a few plain words.
fn is_plain(value: &str) -> bool {
    let is_path = ["/", "~", "./", "../"].iter().any(|start| value.starts_with(start));
    let is_address = (value.starts_with("http://") || value.starts_with("https://")) && !value.contains(['@', '?']);
    let is_number = value.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ':' | '-'));
    let is_word = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '_' | '.' | ',' | '/' | ' ' | '*' | ';');
    is_path || is_address || is_number || value.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::Variables;
    use crate::read_server::read_server;
    use crate::server::Scope;

    fn secrets(entry: &str) -> Vec<String> {
        let read = read_server("s", entry, Scope::User, &Variables::default()).unwrap();
        let mut secrets: Vec<String> = read.server.secrets().iter().map(|secret| secret.expose().to_owned()).collect();
        secrets.sort();
        secrets.dedup();
        secrets
    }

    #[test]
    fn the_secrets_of_arguments_are_found_in_every_form() {
        let of_arguments = |args: &[&str]| secrets(&serde_json::json!({"command": "x", "args": args}).to_string());
        for (args, expected) in [
            (&["--api-key", "YmFzZTY0c2VjcmV0Cg=="][..], &["YmFzZTY0c2VjcmV0Cg=="][..]),
            (&["--api-key=YmFzZTY0c2VjcmV0Cg=="], &["YmFzZTY0c2VjcmV0Cg=="]),
            (&["--header", "Authorization: Bearer hdrsecret12345"], &["Bearer hdrsecret12345"]),
            (&["--header=Authorization:Bearer hdrsecret12345"], &["Bearer hdrsecret12345"]),
            (&["-H", "X-Api-Key:0123456789", "-H", "Accept: text/plain"], &["0123456789"]),
            (&["postgres://me:pa55word@db/x"], &["pa55word"]),
            (&["--db=postgres://me:pa55:w@rd@db:5432/x?sslmode=require"], &["pa55:w@rd"]),
            (&["https://x.test/mcp?api_key=abcdefgh&page=next"], &["abcdefgh"]),
            (&["run", "-e", "GITHUB_TOKEN=abcdefghij", "-e", "DB=mysql://me:pa55word@db"], &["abcdefghij", "pa55word"]),
            (&["--port", "8080:80", "--root", "/home/me", "https://x.test:443/", "a=b", "user@host:dir"], &[]),
        ] {
            assert_eq!(of_arguments(args), expected, "{args:?}");
        }
        let entry = r#"{"command": "x", "env": {"DATABASE_URL": "postgres://me:pa55word@db/x"}}"#;
        assert_eq!(secrets(entry), ["pa55word", "postgres://me:pa55word@db/x"]);
    }

    #[test]
    fn the_secrets_of_webhooks_connection_strings_and_wallets_are_found() {
        let of_variable =
            |name: &str, value: &str| secrets(&serde_json::json!({"command": "x", "env": {name: value}}).to_string());
        for (name, value, secret) in [
            ("URL", "https://hooks.slack.com/services/T01/B02/AbCd1234EfGh5678IjKl9012", "AbCd1234EfGh5678IjKl9012"),
            ("URL", "https://api.telegram.org/bot12345678:AAF-x_Yz0123456789/send", "bot12345678:AAF-x_Yz0123456789"),
            ("URL", "https://discord.com/api/webhooks/123456/aB3_aB3-aB3_aB3-aB3", "aB3_aB3-aB3_aB3-aB3"),
            ("URL", "https://x.test/mcp/0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
            ("URL", "https://x.test/5f0c8a6e-3b1d-4a57-9e2b-0c1d2e3f4a5b/mcp", "5f0c8a6e-3b1d-4a57-9e2b-0c1d2e3f4a5b"),
            ("SLACK_WEBHOOK", "https://x.test/plain", "https://x.test/plain"),
            ("MNEMONIC", "legal winner thank year", "legal winner thank year"),
            ("WALLET_SEED", "legal winner thank year", "legal winner thank year"),
            ("BANKPIN", "123456", "123456"),
            ("PINS", "1234,5678", "1234,5678"),
            ("pinCode", "123456", "123456"),
            ("DB", "Server=db;User Id=me;Password=pa55word;", "pa55word"),
            ("AZURE", "AccountName=me;AccountKey=YWJjZGVmZ2g=;EndpointSuffix=x", "YWJjZGVmZ2g="),
        ] {
            assert!(of_variable(name, value).contains(&secret.to_owned()), "{name}={value}");
        }
        let url = r#"{"url": "https://mcp.test/s/AbCd1234EfGh5678/mcp"}"#;
        assert_eq!(secrets(url), ["AbCd1234EfGh5678"]);
        for (name, value) in [
            ("URL", "https://x.test/some-long-name-of-a-page/0123456789abcdef"),
            ("SPINNER", "dots"),
            ("OPINION", "good"),
        ] {
            assert_eq!(of_variable(name, value), Vec::<String>::new(), "{name}={value}");
        }
    }

    #[test]
    fn the_secrets_of_an_entry_are_found_wherever_they_are() {
        assert_eq!(
            secrets(
                r#"{"command": "x", "args": ["--token=0123456789", "--api-key", "9876543210", "run"],
                "env": {"PASSWORD": "hunter2", "NODE_ENV": "production"}}"#
            ),
            ["0123456789", "9876543210", "hunter2"]
        );
        assert_eq!(
            secrets(
                r#"{"url": "https://x.test/mcp?api_key=abcdefgh&page=next", "headers": {"X-Org": "Org-17",
                "X-Mode": "fast"}, "oauth": {"clientId": "me", "clientSecret": "c1ient"}}"#
            ),
            ["Org-17", "abcdefgh", "c1ient"]
        );
    }

    #[test]
    fn values_that_may_be_secret_are_found_and_plain_ones_are_not() {
        for (name, value) in [
            ("API_TOKEN", "plainword"),
            ("PASSWORD", "/starts-like-a-path"),
            ("ANYTHING", "s3cr3t-value"),
            ("DATABASE_URL", "postgres://me:pw@db/x"),
            ("X", "https://me@host/"),
            ("PIN_CODE", "987654321"),
            ("user-pin", "1234"),
            ("CARD_CVV2", "123"),
        ] {
            assert!(may_be_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("NODE_ENV", "production"),
            ("ROOT", "/home/me/project"),
            ("PORT", "8080"),
            ("SPINDLES", "12"),
            ("PATH_LEVELS", "12"),
            ("URL", "https://example.com/api"),
            ("Accept", "application/json, text/event-stream"),
        ] {
            assert!(!may_be_secret(name, value), "{name}={value}");
        }
    }
}
