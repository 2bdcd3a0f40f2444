//! Reads the links with which web pages add a server to an editor.
//!
//! `vscode:mcp/install?{JSON}` and `vscode-insiders:…` carry an entry as JSON, `cursor://anysphere.cursor-deeplink/mcp/install`
//! carries it as base64 in `config`. Both exist as `https` links that redirect to them. Nothing is opened or requested: the
//! link itself has the entry. The author of the page chose what it runs, so a caller shows it before anything happens.

use std::path::Path;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value, json};
use wharf_io::percent;

use super::host::ImportHost;
use super::imported::ImportedServer;

/// A longer link is not one.
const MAX_LINK_BYTES: usize = 64 * 1024;
/// Links that carry another link redirect at most this often.
const MAX_REDIRECTS: usize = 2;

/// A server in a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkedServer {
    /// The editor that the link is for.
    pub host: ImportHost,
    /// The server.
    pub server: ImportedServer,
}

/// Why a link has no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLink {
    /// The link is longer than any real one.
    #[error("the link is longer than {MAX_LINK_BYTES} bytes")]
    TooLong,
    /// The link does not have the form of its editor.
    #[error("the link is invalid: {0}")]
    Malformed(String),
}

/// The form of a link, and what carries the server.
enum Form<'a> {
    /// JSON with a name.
    VsCode(&'a str),
    /// A query with `name` and `config`.
    Query(ImportHost, &'a str),
    /// A query whose `url` is another link.
    Redirect(&'a str),
}

/// Whether a text is a link that adds a server to an editor.
pub fn is_link(text: &str) -> bool {
    form(text).is_some()
}

fn form(link: &str) -> Option<Form<'_>> {
    let starts = |prefix: &str| {
        let head = link.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then(|| &link[prefix.len()..])
    };
    for scheme in ["vscode:", "vscode-insiders:"] {
        if let Some(rest) = starts(scheme) {
            let rest = rest.trim_start_matches('/');
            return rest.strip_prefix("mcp/install?").map(Form::VsCode);
        }
    }
    if let Some(rest) = starts("cursor://anysphere.cursor-deeplink/mcp/install?") {
        return Some(Form::Query(ImportHost::Cursor, rest));
    }
    for host in ["https://cursor.com/", "https://www.cursor.com/"] {
        // The page exists in several languages: `/en/install-mcp`.
        if let Some(rest) = starts(host) {
            let (path, query) = rest.split_once('?')?;
            let is_page = path.split('/').next_back() == Some("install-mcp") && path.matches('/').count() <= 1;
            return is_page.then_some(Form::Query(ImportHost::Cursor, query));
        }
    }
    for host in ["https://vscode.dev/redirect", "https://insiders.vscode.dev/redirect"] {
        if let Some(rest) = starts(host) {
            if let Some(query) = rest.strip_prefix("/mcp/install?") {
                return Some(Form::Query(ImportHost::VsCode, query));
            }
            return rest.strip_prefix('?').map(Form::Redirect);
        }
    }
    None
}

/// Reads the server of a link. `project` is the current project directory, for which editors have a placeholder.
///
/// # Errors
/// If the link has no server that can be used.
pub fn read_link(link: &str, project: Option<&Path>) -> Result<LinkedServer, InvalidLink> {
    let mut link = link.trim().to_owned();
    for _ in 0..=MAX_REDIRECTS {
        if link.len() > MAX_LINK_BYTES {
            return Err(InvalidLink::TooLong);
        }
        match form(&link) {
            Some(Form::VsCode(encoded)) => return vscode(&object(&percent::decode(encoded))?, project),
            Some(Form::Query(host, query)) => return from_query(host, query, project),
            Some(Form::Redirect(query)) => {
                let url = parameter(query, "url").ok_or_else(|| malformed("it has no `url`"))?;
                link = url;
            }
            None => return Err(malformed("it is not a link of VS Code or Cursor")),
        }
    }
    Err(malformed("it redirects too often"))
}

fn malformed(reason: &str) -> InvalidLink {
    InvalidLink::Malformed(reason.to_owned())
}

fn vscode(server: &Map<String, Value>, project: Option<&Path>) -> Result<LinkedServer, InvalidLink> {
    let name = server.get("name").and_then(Value::as_str).ok_or_else(|| malformed("it has no `name`"))?;
    // The entry is beside the name, or in `config`.
    let mut entry = match server.get("config") {
        Some(Value::Object(config)) => config.clone(),
        _ => server.iter().filter(|(key, _)| *key != "name").map(|(key, value)| (key.clone(), value.clone())).collect(),
    };
    let inputs = entry.remove("inputs").unwrap_or_else(|| json!([]));
    let file = json!({"servers": {name: entry}, "inputs": inputs});
    imported(ImportHost::VsCode, &file, project)
}

fn from_query(host: ImportHost, query: &str, project: Option<&Path>) -> Result<LinkedServer, InvalidLink> {
    let name = parameter(query, "name").filter(|name| !name.is_empty()).ok_or_else(|| malformed("it has no `name`"))?;
    let config = parameter(query, "config").ok_or_else(|| malformed("it has no `config`"))?;
    let text = if config.trim_start().starts_with('{') { config } else { from_base64(&config)? };
    let mut entry = object(&text)?;
    if host == ImportHost::VsCode {
        entry.insert("name".to_owned(), name.into());
        return vscode(&entry, project);
    }
    split_command(&mut entry);
    imported(host, &json!({"mcpServers": {name: entry}}), project)
}

/// Splits a command that contains its arguments, as Cursor allows.
fn split_command(entry: &mut Map<String, Value>) {
    let line = entry.get("command").and_then(Value::as_str).filter(|line| line.contains(' '));
    let has_args = entry.get("args").and_then(Value::as_array).is_some_and(|args| !args.is_empty());
    if let (Some(words), false) = (line.and_then(shlex::split), has_args)
        && let Some((command, args)) = words.split_first()
    {
        let (command, args) = (json!(command), json!(args));
        entry.insert("command".to_owned(), command);
        entry.insert("args".to_owned(), args);
    }
}

fn imported(host: ImportHost, file: &Value, project: Option<&Path>) -> Result<LinkedServer, InvalidLink> {
    let file = super::read(host, &file.to_string(), project).map_err(|error| malformed(&error.to_string()))?;
    match (file.servers.into_iter().next(), file.skipped.into_iter().next()) {
        (Some(server), _) => Ok(LinkedServer { host, server }),
        (None, Some((_, reason))) => Err(InvalidLink::Malformed(reason)),
        (None, None) => Err(malformed("it has no server")),
    }
}

fn object(text: &str) -> Result<Map<String, Value>, InvalidLink> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(malformed("its entry is not a JSON object")),
        Err(error) => Err(InvalidLink::Malformed(format!("its entry is not JSON: {error}"))),
    }
}

/// Returns a parameter of a query. A `+` stays: base64 has it.
fn parameter(query: &str, name: &str) -> Option<String> {
    let query = query.split('#').next().unwrap_or_default();
    let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(percent::decode(pair))
}

fn from_base64(text: &str) -> Result<String, InvalidLink> {
    let engine = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let text = text.trim().replace('-', "+").replace('_', "/").replace(' ', "+");
    let bytes = engine.decode(text).map_err(|_| malformed("its `config` is not base64"))?;
    String::from_utf8(bytes).map_err(|_| malformed("its `config` is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    fn outcome(link: &str) -> String {
        assert!(is_link(link), "{link}");
        match read_link(link, None) {
            Ok(LinkedServer { host, server }) => {
                format!("{host} {} {} {:?}", server.name, Value::Object(server.entry), server.notes)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn links_of_vscode_carry_json_also_behind_a_redirect() {
        let json = r#"{"name":"time","command":"uvx","args":["mcp-server-time"],"env":{"TZ":"${env:TZ}"}}"#;
        let expected =
            r#"vscode time {"type":"stdio","command":"uvx","args":["mcp-server-time"],"env":{"TZ":"${TZ}"}} []"#;
        let encoded = percent::encode(json);
        for link in [
            format!("vscode:mcp/install?{encoded}"),
            format!("vscode-insiders:mcp/install?{encoded}"),
            format!(
                "https://insiders.vscode.dev/redirect?url={}",
                percent::encode(&format!("vscode:mcp/install?{encoded}"))
            ),
            format!(
                "https://vscode.dev/redirect/mcp/install?name=time&config={}",
                percent::encode(r#"{"command":"uvx","args":["mcp-server-time"],"env":{"TZ":"${env:TZ}"}}"#)
            ),
        ] {
            assert_eq!(outcome(&link), expected, "{link}");
        }
    }

    #[test]
    fn links_of_cursor_carry_base64() {
        let json = r#"{"command":"npx -y 'a b'","env":{"KEY":"x>?"}}"#;
        let expected = r#"cursor my-server {"type":"stdio","command":"npx","args":["-y","a b"],"env":{"KEY":"x>?"}}"#;
        for config in [
            BASE64_STANDARD.encode(json),
            BASE64_URL_SAFE_NO_PAD.encode(json),
            percent::encode(&BASE64_STANDARD.encode(json)),
        ] {
            for start in [
                "cursor://anysphere.cursor-deeplink/mcp/install",
                "https://cursor.com/en/install-mcp",
                "https://cursor.com/install-mcp",
            ] {
                let shown = outcome(&format!("{start}?name=my%20server&config={config}"));
                assert!(shown.starts_with(expected), "{shown}");
            }
        }
        let remote = BASE64_STANDARD.encode(r#"{"url":"https://example.com/mcp"}"#);
        let shown = outcome(&format!("cursor://anysphere.cursor-deeplink/mcp/install?name=r&config={remote}"));
        assert!(shown.starts_with(r#"cursor r {"type":"http","url":"https://example.com/mcp"}"#), "{shown}");
    }

    #[test]
    fn hostile_links_are_refused() {
        assert!(
            !is_link("vscode:extension/x") && !is_link("https://example.com/install-mcp?name=a") && !is_link("uvx")
        );
        let cursor = |query: &str| outcome(&format!("cursor://anysphere.cursor-deeplink/mcp/install?{query}"));
        assert_eq!(cursor("name=a&config=%00"), "the link is invalid: its `config` is not base64");
        assert_eq!(cursor("config=e30"), "the link is invalid: it has no `name`");
        assert!(cursor("name=a&config=W10").ends_with("its entry is not a JSON object"));
        assert!(cursor("name=g%D1%96thub&config=eyJjb21tYW5kIjoieCJ9").contains("looks like `github`"));
        assert!(outcome("vscode:mcp/install?%7B%22name%22:1}").ends_with("it has no `name`"));
        let mut link = "vscode:mcp/install?{}".to_owned();
        for _ in 0..5 {
            link = format!("https://vscode.dev/redirect?url={}", percent::encode(&link));
        }
        assert_eq!(outcome(&link), "the link is invalid: it redirects too often");
        assert_eq!(
            outcome(&format!("vscode:mcp/install?{}", "x".repeat(MAX_LINK_BYTES))),
            InvalidLink::TooLong.to_string()
        );
    }
}
