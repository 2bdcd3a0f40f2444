//! Network settings from the environment: proxies and certificates.

use std::time::Duration;

use wharf::{HttpClient, HttpSettings, InvalidSettings, Proxies};

use crate::env::variable;
use crate::error::UsageError;

/// Returns the settings for connections to a URL, from the standard variables.
pub(crate) fn settings(connect: Duration, url: &str) -> Result<HttpSettings, UsageError> {
    let proxies = Proxies {
        http: variable(&["HTTP_PROXY", "http_proxy"]),
        https: variable(&["HTTPS_PROXY", "https_proxy"]),
        all: variable(&["ALL_PROXY", "all_proxy"]),
        no: variable(&["NO_PROXY", "no_proxy"]),
    };
    let is_tls = url.starts_with("https:") || url.starts_with("wss:");
    let extra_ca = if is_tls { extra_certificates()? } else { None };
    let settings = HttpSettings { connect, proxies, extra_ca, ..HttpSettings::default() };
    settings.check().map_err(|error| {
        let hint = match &error {
            InvalidSettings::Certificates(_) => "SSL_CERT_FILE must name a PEM file with certificates",
            InvalidSettings::Proxy(_) => "unset it, or write for example http://proxy.example:3128",
        };
        UsageError { message: error.to_string(), hint: Some(hint.to_owned()) }
    })?;
    Ok(settings)
}

/// Whether connections to a server's URL go through a proxy.
pub(crate) fn uses_proxy(url: &str) -> bool {
    let client = settings(Duration::from_secs(1), url).ok().and_then(|settings| HttpClient::new(settings).ok());
    client.is_some_and(|client| client.uses_proxy(&http_url(url)))
}

/// Returns the HTTP URL of a server: a WebSocket connection begins as HTTP.
pub(super) fn http_url(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}"),
        _ => url.to_owned(),
    }
}

fn extra_certificates() -> Result<Option<Vec<u8>>, UsageError> {
    let Some(path) = variable(&["SSL_CERT_FILE"]) else { return Ok(None) };
    let read = std::fs::read(&path).map_err(|error| UsageError {
        message: format!("cannot read SSL_CERT_FILE `{path}`: {error}"),
        hint: Some("unset it, or name a PEM file with certificates".to_owned()),
    });
    read.map(Some)
}
