//! Where servers are that a definition names without an address.

use std::fmt;
use std::sync::Arc;

use wharf_io::{HttpSettings, percent};
use wharf_protocol::{Secret, ServerName};

use super::{ClientOptions, FactoryError, McpClient, McpResource};

/// The variable that holds the address of the platform.
const URL: &str = "UIPATH_URL";
/// The variable that holds what we show to it.
const TOKEN: &str = "UIPATH_ACCESS_TOKEN";

/// The platform that hosts servers. It is looked for only when a server is on it.
#[derive(Clone)]
pub struct Platform {
    find: Arc<dyn Fn() -> Result<Place, FactoryError> + Send + Sync>,
    http: HttpSettings,
}

struct Place {
    url: String,
    token: Secret,
}

impl Platform {
    /// The platform at an address, and what we show to it.
    pub fn new(url: impl Into<String>, token: impl Into<Secret>) -> Self {
        let (url, token): (String, Secret) = (url.into(), token.into());
        let find = move || Ok(Place { url: url.clone(), token: token.clone() });
        Self { find: Arc::new(find), http: HttpSettings::default() }
    }

    /// The platform that the variables `UIPATH_URL` and `UIPATH_ACCESS_TOKEN` name, by a look at them when it is needed.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let find = move || {
            let get = |name| lookup(name).filter(|value| !value.is_empty()).ok_or(FactoryError::Variable(name));
            Ok(Place { url: get(URL)?, token: get(TOKEN)?.into() })
        };
        Self { find: Arc::new(find), http: HttpSettings::default() }
    }

    /// The same, with connections made like this; servers that are not on the platform are reached so too.
    #[must_use]
    pub fn with_http(mut self, http: HttpSettings) -> Self {
        self.http = http;
        self
    }

    /// A client for a server. What we show to the platform goes only there.
    pub(super) fn client(&self, resource: &McpResource) -> Result<McpClient, FactoryError> {
        let own = resource.server_url.as_deref().filter(|url| !url.trim().is_empty());
        let (url, headers) = if let Some(url) = own {
            (url.to_owned(), Vec::new())
        } else {
            let path = path(resource).ok_or_else(|| FactoryError::NoUrl(resource.name.clone()))?;
            let Place { url, token } = (self.find)()?;
            let headers = vec![("Authorization".to_owned(), format!("Bearer {}", token.expose()))];
            (format!("{}/agenthub_/mcp/{path}", url.trim_end_matches('/')), headers)
        };
        let options = ClientOptions { headers, http: self.http.clone(), ..ClientOptions::default() };
        McpClient::new(name_of(resource), &url, options)
            .map_err(|reason| FactoryError::Remote { server: resource.name.clone(), reason })
    }
}

/// The folder and the slug as the path of an address, if they can be one.
fn path(resource: &McpResource) -> Option<String> {
    let folders = resource.folder_path.split('/').filter(|part| !part.is_empty());
    let parts: Vec<&str> = folders.chain([resource.slug.as_str()]).collect();
    // A part that climbs would lead to something else of the platform's.
    let usable = parts.len() > 1 && parts.iter().all(|part| !matches!(part.trim(), "" | "." | ".."));
    usable.then(|| parts.iter().map(|part| percent::encode(part)).collect::<Vec<_>>().join("/"))
}

/// A name that servers may have here.
fn name_of(resource: &McpResource) -> ServerName {
    let plain = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let text: String = text.chars().map(|c| if allowed(c) { c } else { '-' }).take(64).collect();
        text.parse().ok()
    };
    let name = plain(&resource.slug).or_else(|| plain(&resource.name)).or_else(|| plain("mcp"));
    name.expect("`mcp` is a name")
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Platform").field("http", &self.http).finish_non_exhaustive()
    }
}
