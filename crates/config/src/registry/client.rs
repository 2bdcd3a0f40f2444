//! Requests to a registry (`/v0.1/servers`), limited in time, size and number.

use std::time::Duration;

use http::header::ACCEPT;
use http::uri::Scheme;
use http::{Request, Uri};
use serde_json::Value;
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress, is_loopback_host};
use wharf_io::{HttpClient, HttpSettings, percent};

use super::server_json::{InvalidServer, RegistryServer};

/// Maximum time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of one response.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// How many servers one page has.
const PAGE_SIZE: usize = 100;
/// How many words of a search are asked for.
const MAX_WORDS: usize = 4;
/// How many pages are read for one word.
const MAX_PAGES: usize = 10;
/// A longer cursor is not one.
const MAX_CURSOR_BYTES: usize = 4096;
/// The name of the newest version.
const LATEST: &str = "latest";
/// How much of an error's text is shown.
const MAX_MESSAGE_CHARS: usize = 200;

/// A registry of servers.
#[derive(Debug)]
pub struct Registry {
    /// The URL without a slash at its end.
    base: String,
    client: HttpClient,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct FoundServers {
    /// The latest versions of the servers that match.
    pub servers: Vec<RegistryServer>,
    /// Whether the registry has more that match.
    pub has_more: bool,
}

/// Why a registry gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The URL of the registry is not usable.
    #[error("invalid registry URL: {0}")]
    Url(&'static str),
    /// The registry could not be reached.
    #[error("cannot reach the registry: {0}")]
    Unreachable(String),
    /// The registry did not answer in time.
    #[error("the registry did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The registry does not have the server, or not in this version.
    #[error("the registry has no such server or version")]
    NotFound,
    /// The registry answered with an error.
    #[error("the registry answered with HTTP status {status}{message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// What the registry said, after a colon, or nothing.
        message: String,
    },
    /// The answer is not that of a registry.
    #[error("the answer is not that of an MCP registry: {0}")]
    Malformed(String),
    /// The registry has the server, and what it says about it cannot be used.
    #[error("the registry's description of the server is invalid: {0}")]
    Server(#[from] InvalidServer),
}

impl Registry {
    /// Creates a client for the registry at a URL, which must be `https` or on this machine: what it returns decides what
    /// runs here.
    ///
    /// # Errors
    /// If the URL is not usable.
    pub fn new(url: &str, settings: HttpSettings) -> Result<Self, RegistryError> {
        let base = url.trim_end_matches('/');
        let uri = address::parse(base, HTTP_SCHEMES).map_err(|invalid| {
            RegistryError::Url(match invalid {
                InvalidAddress::Credentials => "it contains a user name or password",
                InvalidAddress::NoScheme | InvalidAddress::Scheme(_) => NOT_HTTPS,
                _ => "it is malformed",
            })
        })?;
        if uri.scheme() != Some(&Scheme::HTTPS) && !is_loopback_host(uri.host().unwrap_or_default()) {
            return Err(RegistryError::Url(NOT_HTTPS));
        }
        if uri.query().is_some() || base.contains('#') {
            return Err(RegistryError::Url("it has a query or a fragment"));
        }
        let client = HttpClient::new(settings).map_err(|error| RegistryError::Unreachable(error.to_string()))?;
        Ok(Self { base: base.to_owned(), client })
    }

    /// Returns the URL of the registry.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Searches for servers whose name, title and description contain all words. A registry searches names only, so it is
    /// asked for each word, the longest first, until servers are found. Reads a limited number of pages.
    ///
    /// # Errors
    /// If the registry gives no answer.
    pub async fn search(&self, words: &[String], limit: usize) -> Result<FoundServers, RegistryError> {
        let mut by_length: Vec<&str> = words.iter().map(String::as_str).collect();
        by_length.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let mut found = FoundServers::default();
        for word in by_length.into_iter().take(MAX_WORDS) {
            found = self.search_names(word, words, limit).await?;
            if !found.servers.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Searches for servers with a word in their names, and with all words anywhere.
    async fn search_names(&self, word: &str, words: &[String], limit: usize) -> Result<FoundServers, RegistryError> {
        let mut found = FoundServers::default();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut path = format!("/v0.1/servers?version=latest&limit={PAGE_SIZE}&search={}", percent::encode(word));
            if let Some(cursor) = &cursor {
                path = format!("{path}&cursor={}", percent::encode(cursor));
            }
            let (servers, next) = page(&self.get(&path).await?)?;
            for server in servers.into_iter().filter(|server| server.matches(words)) {
                if found.servers.iter().any(|other| other.name == server.name) {
                    continue;
                }
                if found.servers.len() == limit {
                    found.has_more = true;
                    return Ok(found);
                }
                found.servers.push(server);
            }
            // A registry that repeats its cursor would never end.
            match next {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(found),
            }
        }
        found.has_more = true;
        Ok(found)
    }

    /// Returns one version of a server; the latest if none is given.
    ///
    /// # Errors
    /// If the registry does not have it, or gives no answer.
    pub async fn server(&self, name: &str, version: Option<&str>) -> Result<RegistryServer, RegistryError> {
        let wanted = percent::encode(version.unwrap_or(LATEST));
        let answer = self.get(&format!("/v0.1/servers/{}/versions/{wanted}", percent::encode(name))).await?;
        let server = RegistryServer::from_response(&answer)?;
        if server.name != name {
            let given: String = server.name.chars().take(MAX_MESSAGE_CHARS).collect();
            return Err(RegistryError::Malformed(format!("it is about another server, `{given}`")));
        }
        if version.is_some_and(|version| version != LATEST && version != server.version) {
            let given: String = server.version.chars().take(MAX_MESSAGE_CHARS).collect();
            return Err(RegistryError::Malformed(format!("it is about another version, `{given}`")));
        }
        Ok(server)
    }

    async fn get(&self, path: &str) -> Result<Value, RegistryError> {
        let request = async {
            let uri: Uri = format!("{}{path}", self.base).parse().map_err(|_| RegistryError::Url("it is malformed"))?;
            let request = Request::get(uri).header(ACCEPT, "application/json").body(Vec::new().into());
            let request = request.map_err(|error| RegistryError::Unreachable(error.to_string()))?;
            let sent = self.client.send(request).await;
            let mut response = sent.map_err(|error| RegistryError::Unreachable(error.to_string()))?;
            let status = response.status();
            let body = response.body_mut().read_all(MAX_RESPONSE_BYTES).await;
            let body = body.map_err(|error| RegistryError::Unreachable(error.to_string()))?;
            match status.as_u16() {
                _ if status.is_success() => serde_json::from_slice(&body)
                    .map_err(|error| RegistryError::Malformed(format!("invalid JSON: {error}"))),
                404 => Err(RegistryError::NotFound),
                status => Err(RegistryError::Status { status, message: message(&body) }),
            }
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, request).await;
        answer.unwrap_or(Err(RegistryError::Timeout(REQUEST_TIMEOUT)))
    }
}

const NOT_HTTPS: &str = "it must start with https://";

/// Returns the servers of a page, and the cursor of the next one. An invalid server costs only itself.
fn page(answer: &Value) -> Result<(Vec<RegistryServer>, Option<String>), RegistryError> {
    let no_servers = || RegistryError::Malformed("it has no list `servers`".to_owned());
    let servers = answer.get("servers").and_then(Value::as_array).ok_or_else(no_servers)?;
    let servers = servers.iter().take(PAGE_SIZE).filter_map(|server| RegistryServer::from_response(server).ok());
    let next = answer["metadata"]["nextCursor"].as_str();
    let next = next.filter(|next| !next.is_empty() && next.len() <= MAX_CURSOR_BYTES);
    Ok((servers.collect(), next.map(str::to_owned)))
}

/// Returns the text of an error: registries use `error`, and `detail` of problem documents.
fn message(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = ["error", "detail", "title"].iter().find_map(|key| answer.get(*key)?.as_str());
    let text: String = text.unwrap_or_default().chars().take(MAX_MESSAGE_CHARS).collect();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_loopback_registries_are_used() {
        let url = |url: &str| Registry::new(url, HttpSettings::default()).map(|registry| registry.url().to_owned());
        assert_eq!(url("https://registry.example.com/api/"), Ok("https://registry.example.com/api".to_owned()));
        assert_eq!(url("http://127.0.0.1:8080"), Ok("http://127.0.0.1:8080".to_owned()));
        for bad in
            ["http://registry.example.com", "file:///etc/passwd", "https://u:p@example.com", "https://a.com/?x=1", ""]
        {
            assert!(matches!(url(bad), Err(RegistryError::Url(_))), "{bad}");
        }
    }
}
