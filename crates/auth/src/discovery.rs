//! Who can let us in: from a server's address, or its challenge, to the authorization server's own description.

use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Request, Uri};
use serde::{Deserialize, Deserializer};
use wharf_io::{HttpClient, HttpError};

use super::OAuthError;
use super::challenge::Challenge;
use super::reach::{Nearness, refusal};

/// The most a description may have.
pub(super) const MOST_READ: usize = 512 * 1024;
/// How long one may take.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// What a server says about who may let us in (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resource {
    #[serde(rename = "resource")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "if_any")]
    authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// What an authorization server says about itself (RFC 8414, or that of an `OpenID` provider).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Issuer {
    #[serde(rename = "issuer")]
    pub(super) name: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(deserialize_with = "if_any")]
    pub(super) scopes_supported: Vec<String>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "if_any")]
    code_challenge_methods_supported: Vec<String>,
    #[serde(deserialize_with = "if_any")]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(rename = "authorization_response_iss_parameter_supported", deserialize_with = "if_any")]
    pub(super) says_iss: bool,
}

/// What was found out.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) resource: Option<Resource>,
    pub(super) issuer: Issuer,
}

/// Looks things up for one server.
#[derive(Clone)]
pub(super) struct Explorer<'a> {
    pub(super) http: &'a HttpClient,
    pub(super) endpoint: &'a Uri,
    /// What it names may be no nearer than this.
    pub(super) nearest: Nearness,
    /// Where whoever lets us in describes themselves, where the host knows that better than the server.
    pub(super) described_at: Option<&'a str>,
}

impl Explorer<'_> {
    /// Finds out who lets us in.
    pub(super) async fn find(&self, challenge: &Challenge) -> Result<Found, OAuthError> {
        if let Some(place) = self.described_at {
            return self.find_at(place, challenge).await;
        }
        let resource = self.resource(challenge).await?;
        // Servers of the first revision with authorization are their own authorization servers.
        let named = resource.as_ref().and_then(|resource| resource.authorization_servers.first());
        let issuer = if let Some(named) = named {
            self.issuer(named).await?.ok_or_else(|| OAuthError::NoMetadata(named.clone()))?
        } else {
            let own = origin(self.endpoint);
            self.issuer(&own).await?.unwrap_or_else(|| Issuer::assumed(&own))
        };
        self.check(&issuer)?;
        Ok(Found { resource, issuer })
    }

    /// The same where the host knows where to look. What the server says about itself is of use, and can be done without.
    async fn find_at(&self, place: &str, challenge: &Challenge) -> Result<Found, OAuthError> {
        let resource = match self.resource(challenge).await {
            Err(OAuthError::Unreachable { .. }) => None,
            resource => resource?,
        };
        let issuer: Issuer = self.get(place).await?.ok_or_else(|| OAuthError::NoMetadata(place.to_owned()))?;
        // Nobody describes others: what comes back, and what is kept, goes by the issuer's name.
        let lives_there = |name: &str| Some(origin(&name.parse().ok()?) == origin(&place.parse().ok()?));
        if lives_there(&issuer.name) != Some(true) {
            return Err(OAuthError::OtherIssuer { claimed: issuer.name, issuer: place.to_owned() });
        }
        self.check(&issuer)?;
        Ok(Found { resource, issuer })
    }

    /// Whether the server still names this issuer; also where it says nothing, or is not the one to say it.
    pub(super) async fn still_names(&self, challenge: &Challenge, issuer: &str) -> Result<bool, OAuthError> {
        if self.described_at.is_some() {
            return Ok(true);
        }
        let named = self.resource(challenge).await?.map(|resource| resource.authorization_servers).unwrap_or_default();
        Ok(named.is_empty() || named.iter().any(|named| is_same(named, issuer)))
    }

    async fn resource(&self, challenge: &Challenge) -> Result<Option<Resource>, OAuthError> {
        let (origin, path) = (origin(self.endpoint), self.endpoint.path().trim_end_matches('/'));
        let usual = format!("{origin}/.well-known/oauth-protected-resource");
        let candidates = match &challenge.resource_metadata {
            Some(named) => vec![named.clone()],
            None if path.is_empty() => vec![usual],
            None => vec![format!("{usual}{path}"), usual],
        };
        for url in candidates {
            let Some(resource) = self.get::<Resource>(&url).await? else { continue };
            // Otherwise any server could have us sign in for another one, and show it our token.
            if let Some(claimed) = resource.name.as_deref().filter(|claimed| !covers(claimed, self.endpoint)) {
                let (claimed, endpoint) = (claimed.to_owned(), self.endpoint.to_string());
                return Err(OAuthError::OtherResource { claimed, endpoint });
            }
            return Ok(Some(resource));
        }
        Ok(None)
    }

    /// An issuer's description of itself, from the places where it may be.
    async fn issuer(&self, issuer: &str) -> Result<Option<Issuer>, OAuthError> {
        let parsed = issuer.parse::<Uri>().map_err(|_| self.refused(issuer, "it cannot be read"))?;
        let (origin, path) = (origin(&parsed), parsed.path().trim_end_matches('/'));
        let mut places = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        for place in places {
            let Some(found) = self.get::<Issuer>(&place).await? else { continue };
            if !is_same(&found.name, issuer) {
                let (claimed, issuer) = (found.name, issuer.to_owned());
                return Err(OAuthError::OtherIssuer { claimed, issuer });
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// What cannot be used is refused before anything is sent to it.
    fn check(&self, issuer: &Issuer) -> Result<(), OAuthError> {
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

    /// A description; `None` where there is none.
    async fn get<T: for<'d> Deserialize<'d>>(&self, url: &str) -> Result<Option<T>, OAuthError> {
        if let Some(reason) = refusal(url, self.nearest) {
            return Err(self.refused(url, &reason));
        }
        let unreachable = |reason: String| OAuthError::Unreachable { url: url.to_owned(), reason };
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.parse().map_err(|_| self.refused(url, "it cannot be read"))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let reading = async {
            let response = self.http.send(request).await.map_err(|error| match error {
                HttpError::Redirected(_) => self.refused(url, &error.to_string()),
                error => unreachable(error.to_string()),
            })?;
            let (status, mut body) = (response.status(), response.into_body());
            if status.is_server_error() {
                return Err(unreachable(format!("HTTP {}", status.as_u16())));
            }
            if !status.is_success() {
                return Ok(None);
            }
            let content = body.read_all(MOST_READ).await.map_err(|error| unreachable(error.to_string()))?;
            // A page that says sorry with a good status is no description.
            Ok(serde_json::from_slice(&content).ok())
        };
        let late = || unreachable(format!("no answer within {} s", LIMIT.as_secs()));
        tokio::time::timeout(LIMIT, reading).await.unwrap_or_else(|_| Err(late()))
    }
}

impl Issuer {
    /// What an authorization server of the first revision is believed to have where it says nothing.
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

/// Whether two names are of one issuer. Many do not care about the slash at their end.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// What is said to be nothing is not said.
fn if_any<'d, D: Deserializer<'d>, T: Default + Deserialize<'d>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Scheme, host and port.
pub(super) fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    format!("{scheme}://{}", uri.authority().map_or("", |authority| authority.as_str()).to_ascii_lowercase())
}

/// Whether what a server claims to be covers where it was reached.
fn covers(claimed: &str, endpoint: &Uri) -> bool {
    let Ok(claimed) = claimed.parse::<Uri>() else { return false };
    let (claimed_path, path) = (claimed.path().trim_end_matches('/'), endpoint.path().trim_end_matches('/'));
    let below = path.strip_prefix(claimed_path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    origin(&claimed) == origin(endpoint) && below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_what_is_below_it_and_nothing_else() {
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
