//! The platform that hosts the servers without a URL of their own, and the names of servers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use wharf_client::{Http, RemoteOptions};
use wharf_io::{HttpSettings, percent};
use wharf_protocol::{Secret, ServerName};

use super::client::{ClientOptions, Endpoint, McpClient};
use super::definition::McpResource;
use super::error::FactoryError;

/// The variable with the URL of the platform.
const URL_VARIABLE: &str = "UIPATH_URL";
/// The variable with the access token of the platform.
const TOKEN_VARIABLE: &str = "UIPATH_ACCESS_TOKEN";

/// The maximum length of a server name.
const MAX_NAME_CHARS: usize = 64;

/// The platform that hosts servers. Its URL and token are read only if a server is on it.
#[derive(Clone)]
pub struct Platform {
    access: Arc<dyn Fn() -> Result<Access, FactoryError> + Send + Sync>,
    http: HttpSettings,
}

struct Access {
    url: String,
    token: Secret,
}

impl Platform {
    /// Creates a platform with a URL and an access token.
    pub fn new(url: impl Into<String>, token: impl Into<Secret>) -> Self {
        let url: String = url.into();
        let token: Secret = token.into();
        let access = move || Ok(Access { url: url.clone(), token: token.clone() });
        Self { access: Arc::new(access), http: HttpSettings::default() }
    }

    /// Creates a platform with the URL and the token of `UIPATH_URL` and `UIPATH_ACCESS_TOKEN`, read when needed.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let access = move || {
            let get = |name| lookup(name).filter(|value| !value.is_empty()).ok_or(FactoryError::Variable(name));
            Ok(Access { url: get(URL_VARIABLE)?, token: get(TOKEN_VARIABLE)?.into() })
        };
        Self { access: Arc::new(access), http: HttpSettings::default() }
    }

    /// Sets the network settings, also for servers that are not on the platform.
    #[must_use]
    pub fn with_http(mut self, http: HttpSettings) -> Self {
        self.http = http;
        self
    }

    /// Creates the clients of the servers, in one fleet. The token is sent to the platform only.
    pub(super) fn clients(&self, resources: &[&McpResource]) -> Result<Vec<McpClient>, FactoryError> {
        let options = ClientOptions { http: self.http.clone(), ..ClientOptions::default() };
        let endpoints = resources.iter().zip(unique_names(resources));
        let endpoints = endpoints.map(|(resource, name)| self.endpoint(resource, name)).collect::<Result<_, _>>()?;
        Ok(McpClient::of_all(endpoints, &options))
    }

    fn endpoint(&self, resource: &McpResource, name: ServerName) -> Result<Endpoint, FactoryError> {
        let own_url = resource.server_url.as_deref().filter(|url| !url.trim().is_empty());
        let endpoint = if let Some(url) = own_url {
            Endpoint { name, url: url.to_owned(), headers: Vec::new() }
        } else {
            let path = path(resource).ok_or_else(|| FactoryError::NoUrl(resource.name.clone()))?;
            let Access { url, token } = (self.access)()?;
            let headers = vec![("Authorization".to_owned(), format!("Bearer {}", token.expose()))];
            Endpoint { name, url: format!("{}/agenthub_/mcp/{path}", url.trim_end_matches('/')), headers }
        };
        let check = RemoteOptions { headers: endpoint.headers.clone(), ..RemoteOptions::default() };
        match Http::new(&endpoint.url, check) {
            Ok(_) => Ok(endpoint),
            Err(reason) => Err(FactoryError::Remote { server: resource.name.clone(), reason }),
        }
    }
}

/// Joins the folder and the slug to a URL path, if they are valid.
fn path(resource: &McpResource) -> Option<String> {
    let folders = resource.folder_path.split('/').filter(|part| !part.is_empty());
    let parts: Vec<&str> = folders.chain([resource.slug.as_str()]).collect();
    // A part like `..` would lead to another resource of the platform.
    let is_valid = parts.len() > 1 && parts.iter().all(|part| !matches!(part.trim(), "" | "." | ".."));
    is_valid.then(|| parts.iter().map(|part| percent::encode(part)).collect::<Vec<_>>().join("/"))
}

/// Returns a name for each server. Servers whose names would be equal get a digest of their folder and slug each, so that
/// the names do not depend on the order.
fn unique_names(resources: &[&McpResource]) -> Vec<ServerName> {
    let mut counts: HashMap<ServerName, usize> = HashMap::new();
    for resource in resources {
        *counts.entry(plain_name(resource)).or_default() += 1;
    }
    let mut copies: HashMap<ServerName, usize> = HashMap::new();
    let mut unique_name = |resource: &&McpResource| {
        let name = plain_name(resource);
        if counts[&name] == 1 {
            return name;
        }
        let name = with_suffix(&name, &digest(resource));
        // A server that the definition repeats is distinguished by its position.
        let copy = copies.entry(name.clone()).or_default();
        *copy += 1;
        if *copy == 1 { name } else { with_suffix(&name, &copy.to_string()) }
    };
    resources.iter().map(&mut unique_name).collect()
}

/// Converts the slug, or else the name, to a valid server name.
fn plain_name(resource: &McpResource) -> ServerName {
    let plain = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let text: String = text.chars().map(|c| if allowed(c) { c } else { '-' }).take(MAX_NAME_CHARS).collect();
        text.parse().ok()
    };
    let name = plain(&resource.slug).or_else(|| plain(&resource.name)).or_else(|| plain("mcp"));
    name.expect("`mcp` is a valid name")
}

fn with_suffix(name: &ServerName, suffix: &str) -> ServerName {
    let stem: String = name.as_str().chars().take(MAX_NAME_CHARS - suffix.len() - 1).collect();
    format!("{stem}-{suffix}").parse().expect("a valid name with a valid suffix")
}

fn digest(resource: &McpResource) -> String {
    let mut hash = Sha256::new();
    for part in [&resource.folder_path, &resource.slug, &resource.name] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    format!("{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform").field("http", &self.http).finish_non_exhaustive()
    }
}
