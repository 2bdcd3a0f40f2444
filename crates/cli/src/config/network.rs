//! Network settings from the environment: proxies and certificates.

use std::time::Duration;

use wharf::env::EnvError;
use wharf::{HttpClient, HttpSettings, InvalidSettings};

use crate::error::UsageError;

/// Returns the settings for connections to a URL, from the standard variables.
pub(crate) fn settings(connect: Duration, url: &str) -> Result<HttpSettings, UsageError> {
    let settings = wharf::env::http_settings(url).map_err(|error| {
        let hint = match &error {
            EnvError::CertificateFile { .. } => "unset it, or name a PEM file with certificates",
            EnvError::Settings(InvalidSettings::Certificates(_)) => {
                "SSL_CERT_FILE must name a PEM file with certificates"
            }
            EnvError::Settings(InvalidSettings::Proxy(_)) => "unset it, or write for example http://proxy.example:3128",
        };
        UsageError { message: error.to_string(), hint: Some(hint.to_owned()) }
    })?;
    Ok(HttpSettings { connect, ..settings })
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
