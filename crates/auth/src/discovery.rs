//! Metadata discovery: from the URL of a server, or its challenge, to the metadata of the authorization server.

use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Request, Uri};
use serde::{Deserialize, Deserializer};
use wharf_io::{HttpClient, HttpError};

use crate::challenge::Challenge;
use crate::error::OAuthError;
use crate::network_zone::{NetworkZone, refusal};

/// Maximum size of a response.
pub(super) const MAX_RESPONSE_BYTES: usize = 512 * 1024;
/// Timeout of one request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Protected resource metadata (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceMetadata {
    #[serde(rename = "resource")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(rename = "dpop_bound_access_tokens_required", deserialize_with = "null_as_default")]
    pub(super) requires_dpop: bool,
}

/// Authorization server metadata (RFC 8414), or that of an `OpenID` provider.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IssuerMetadata {
    #[serde(rename = "issuer")]
    pub(super) name: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) scopes_supported: Vec<String>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "null_as_default")]
    code_challenge_methods_supported: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(rename = "authorization_response_iss_parameter_supported", deserialize_with = "null_as_default")]
    pub(super) returns_iss: bool,
}

/// The metadata of a server and of its authorization server.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) issuer: IssuerMetadata,
}

/// Discovers the metadata of one server.
#[derive(Clone)]
pub(super) struct MetadataDiscovery<'a> {
    pub(super) http: &'a HttpClient,
    pub(super) endpoint: &'a Uri,
    /// URLs in the metadata must not be nearer than this zone.
    pub(super) nearest: NetworkZone,
    /// The URL of the authorization server metadata, if it is configured.
    pub(super) issuer_metadata_url: Option<&'a str>,
}

impl MetadataDiscovery<'_> {
    /// Discovers the authorization server.
    pub(super) async fn find(&self, challenge: &Challenge) -> Result<Metadata, OAuthError> {
        if let Some(url) = self.issuer_metadata_url {
            return self.find_at(url, challenge).await;
        }
        let resource = self.resource(challenge).await?;
        // In the first protocol revision with authorization, the server is its own authorization server.
        let named = resource.as_ref().and_then(|resource| resource.authorization_servers.first());
        let issuer = if let Some(named) = named {
            self.issuer(named).await?.ok_or_else(|| OAuthError::NoMetadata(named.clone()))?
        } else {
            let own = origin(self.endpoint);
            self.issuer(&own).await?.unwrap_or_else(|| IssuerMetadata::assumed(&own))
        };
        self.check(&issuer)?;
        Ok(Metadata { resource, issuer })
    }

    /// Reads the configured authorization server metadata. The resource metadata is optional then.
    async fn find_at(&self, url: &str, challenge: &Challenge) -> Result<Metadata, OAuthError> {
        let resource = match self.resource(challenge).await {
            Err(OAuthError::Unreachable { .. }) => None,
            resource => resource?,
        };
        let issuer: IssuerMetadata = self.get(url).await?.ok_or_else(|| OAuthError::NoMetadata(url.to_owned()))?;
        // An issuer describes itself only: redirects and stored credentials are matched by its name.
        let has_same_origin = |name: &str| Some(origin(&name.parse().ok()?) == origin(&url.parse().ok()?));
        if has_same_origin(&issuer.name) != Some(true) {
            return Err(OAuthError::OtherIssuer { claimed: issuer.name, issuer: url.to_owned() });
        }
        self.check(&issuer)?;
        Ok(Metadata { resource, issuer })
    }

    /// Returns whether the server still names this issuer. True if it names none, or if the issuer is configured.
    pub(super) async fn still_names(&self, challenge: &Challenge, issuer: &str) -> Result<bool, OAuthError> {
        if self.issuer_metadata_url.is_some() {
            return Ok(true);
        }
        let named = self.resource(challenge).await?.map(|resource| resource.authorization_servers).unwrap_or_default();
        Ok(named.is_empty() || named.iter().any(|named| is_same_issuer(named, issuer)))
    }

    async fn resource(&self, challenge: &Challenge) -> Result<Option<ResourceMetadata>, OAuthError> {
        let origin = origin(self.endpoint);
        let path = self.endpoint.path().trim_end_matches('/');
        let root = format!("{origin}/.well-known/oauth-protected-resource");
        let candidates = match &challenge.resource_metadata {
            Some(named) => vec![named.clone()],
            None if path.is_empty() => vec![root],
            None => vec![format!("{root}{path}"), root],
        };
        for url in candidates {
            let Some(resource) = self.get::<ResourceMetadata>(&url).await? else { continue };
            // Otherwise a server could obtain a token that is meant for another one.
            if let Some(claimed) = resource.name.as_deref().filter(|claimed| !covers(claimed, self.endpoint)) {
                let endpoint = self.endpoint.to_string();
                return Err(OAuthError::OtherResource { claimed: claimed.to_owned(), endpoint });
            }
            return Ok(Some(resource));
        }
        Ok(None)
    }

    /// Reads the metadata of an issuer from its well-known URLs.
    async fn issuer(&self, issuer: &str) -> Result<Option<IssuerMetadata>, OAuthError> {
        let parsed = issuer.parse::<Uri>().map_err(|_| self.refused(issuer, "invalid URL"))?;
        let origin = origin(&parsed);
        let path = parsed.path().trim_end_matches('/');
        let mut urls = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        for url in urls {
            let Some(found) = self.get::<IssuerMetadata>(&url).await? else { continue };
            if !is_same_issuer(&found.name, issuer) {
                return Err(OAuthError::OtherIssuer { claimed: found.name, issuer: issuer.to_owned() });
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Rejects unsupported metadata and URLs that are not allowed, before any request is sent to them.
    fn check(&self, issuer: &IssuerMetadata) -> Result<(), OAuthError> {
        if !issuer.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(OAuthError::NoProof(issuer.name.clone()));
        }
        let named = [&issuer.authorization_endpoint, &issuer.registration_endpoint, &issuer.revocation_endpoint];
        for url in named.into_iter().flatten().chain([&issuer.token_endpoint]) {
            if let Some(reason) = refusal(url, self.nearest) {
                return Err(self.refused(url, &reason));
            }
        }
        Ok(())
    }

    fn refused(&self, url: &str, reason: &str) -> OAuthError {
        OAuthError::Refused { server: self.endpoint.to_string(), url: url.to_owned(), reason: reason.to_owned() }
    }

    /// Requests metadata; `None` if there is none at this URL.
    async fn get<T: for<'d> Deserialize<'d>>(&self, url: &str) -> Result<Option<T>, OAuthError> {
        if let Some(reason) = refusal(url, self.nearest) {
            return Err(self.refused(url, &reason));
        }
        let unreachable = |reason: String| OAuthError::Unreachable { url: url.to_owned(), reason };
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.parse().map_err(|_| self.refused(url, "invalid URL"))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let exchange = async {
            let response = self.http.send(request).await.map_err(|error| match error {
                HttpError::Redirected(_) => self.refused(url, &error.to_string()),
                error => unreachable(error.to_string()),
            })?;
            let status = response.status();
            let mut body = response.into_body();
            if status.is_server_error() {
                return Err(unreachable(format!("HTTP {}", status.as_u16())));
            }
            if !status.is_success() {
                return Ok(None);
            }
            let content = body.read_all(MAX_RESPONSE_BYTES).await.map_err(|error| unreachable(error.to_string()))?;
            // An error page with status 200 is not metadata.
            Ok(serde_json::from_slice(&content).ok())
        };
        let timed_out = || unreachable(format!("no response within {} s", REQUEST_TIMEOUT.as_secs()));
        tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or_else(|_| Err(timed_out()))
    }
}

impl IssuerMetadata {
    /// Returns the default endpoints of the first protocol revision, for an authorization server without metadata.
    fn assumed(origin: &str) -> Self {
        Self {
            name: origin.to_owned(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            code_challenge_methods_supported: vec!["S256".to_owned()],
            ..Self::default()
        }
    }
}

/// Compares issuers without a trailing slash, which many authorization servers use inconsistently.
fn is_same_issuer(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Treats `null` like an absent key.
fn null_as_default<'d, D: Deserializer<'d>, T: Default + Deserialize<'d>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Returns scheme, host and port.
pub(super) fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    format!("{scheme}://{}", uri.authority().map_or("", |authority| authority.as_str()).to_ascii_lowercase())
}

/// Returns whether a resource identifier covers the URL of the server.
fn covers(claimed: &str, endpoint: &Uri) -> bool {
    let Ok(claimed) = claimed.parse::<Uri>() else { return false };
    let claimed_path = claimed.path().trim_end_matches('/');
    let path = endpoint.path().trim_end_matches('/');
    let is_below = path.strip_prefix(claimed_path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    origin(&claimed) == origin(endpoint) && is_below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_paths_below_it_only() {
        let endpoint: Uri = "https://example.com/mcp/v1".parse().unwrap();
        for claimed in
            ["https://example.com", "https://EXAMPLE.com/", "https://example.com/mcp", "https://example.com/mcp/v1/"]
        {
            assert!(covers(claimed, &endpoint), "{claimed}");
        }
        for claimed in [
            "https://example.com/mc",
            "https://evil.com/mcp",
            "http://example.com/mcp",
            "https://example.com:444/mcp",
            "x",
        ] {
            assert!(!covers(claimed, &endpoint), "{claimed}");
        }
    }
}
