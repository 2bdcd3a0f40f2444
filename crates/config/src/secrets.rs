//! The secrets of a server's entry, for removal from what is stored or printed.
//!
//! Every value may be a secret, whatever its name. Only values that are clearly none, such as a path or a plain word, stay
//! readable: redacting `production` would damage every text that contains it.

use wharf_protocol::Secret;

use crate::danger::looks_secret;
use crate::server::{ManagedConfig, RemoteConfig, Server, StdioConfig, TransportConfig};

/// Parts of names that say that the value is a secret.
const SECRET_NAMES: [&str; 10] =
    ["TOKEN", "SECRET", "PASS", "PWD", "KEY", "AUTH", "CRED", "COOKIE", "SESSION", "SIGNATURE"];

impl Server {
    /// Returns the values of the entry that may be secret: of variables, headers, options, the URL and the OAuth client.
    pub fn secrets(&self) -> Vec<Secret> {
        let mut found = Vec::new();
        match &self.reach {
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

fn of_process(stdio: &StdioConfig, found: &mut Vec<Secret>) {
    let values = stdio.env.iter().filter(|(name, value)| may_be_secret(name, value.expose()));
    found.extend(values.map(|(_, value)| value.clone()));
    for (place, arg) in stdio.args.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| stdio.args.get(place)).map_or("", String::as_str);
        let (name, value) = arg.split_once('=').unwrap_or((before, arg));
        if looks_secret(name.trim_start_matches('-'), value) {
            found.push(Secret::new(value));
        }
    }
}

fn of_remote(remote: &RemoteConfig, found: &mut Vec<Secret>) {
    found.extend(secret_values(&remote.headers));
    found.extend(remote.oauth.client_secret.clone());
    let (address, query) = remote.url.split_once('?').unwrap_or((&remote.url, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    found.extend(pairs.filter(|(name, value)| may_be_secret(name, value)).map(|(_, value)| Secret::new(value)));
    let authority = address.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let password = authority.and_then(|authority| authority.rsplit_once('@')?.0.split_once(':'));
    found.extend(password.map(|(_, password)| Secret::new(password)));
}

fn secret_values(headers: &[(String, Secret)]) -> impl Iterator<Item = Secret> {
    headers.iter().filter(|(name, value)| may_be_secret(name, value.expose())).map(|(_, value)| value.clone())
}

fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| name.contains(part)) || !is_plain(value)
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

    #[test]
    fn the_secrets_of_an_entry_are_found_wherever_they_are() {
        let secrets = |entry: &str| {
            let read = read_server("s", entry, Scope::User, &Variables::default()).unwrap();
            let mut secrets: Vec<String> =
                read.server.secrets().iter().map(|secret| secret.expose().to_owned()).collect();
            secrets.sort();
            secrets
        };
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
        ] {
            assert!(may_be_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("NODE_ENV", "production"),
            ("ROOT", "/home/me/project"),
            ("PORT", "8080"),
            ("URL", "https://example.com/api"),
            ("Accept", "application/json, text/event-stream"),
        ] {
            assert!(!may_be_secret(name, value), "{name}={value}");
        }
    }
}
