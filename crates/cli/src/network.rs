//! What the environment says about the network: proxies, and whom else to trust. Only the binary reads it.

use std::time::Duration;

use wharf::{HttpSettings, InvalidSettings, Proxies};

use crate::servers::Misuse;
use crate::surroundings::variable;

/// How connections to this address are made, as the standard variables have it.
pub(crate) fn settings(connect: Duration, url: &str) -> Result<HttpSettings, Misuse> {
    let proxies = Proxies {
        http: variable(&["HTTP_PROXY", "http_proxy"]),
        https: variable(&["HTTPS_PROXY", "https_proxy"]),
        all: variable(&["ALL_PROXY", "all_proxy"]),
        no: variable(&["NO_PROXY", "no_proxy"]),
    };
    let secure = url.starts_with("https:") || url.starts_with("wss:");
    let extra_ca = match variable(&["SSL_CERT_FILE"]).filter(|_| secure) {
        None => None,
        Some(path) => Some(std::fs::read(&path).map_err(|error| Misuse {
            what: format!("SSL_CERT_FILE names `{path}`, which cannot be read: {error}"),
            hint: Some("unset it, or name a file with certificates in PEM".to_owned()),
        })?),
    };
    let settings = HttpSettings { connect, proxies, extra_ca, ..HttpSettings::default() };
    settings.check().map_err(|error| {
        let hint = match &error {
            InvalidSettings::Certificates(_) => "SSL_CERT_FILE has to name a file with certificates in PEM",
            InvalidSettings::Proxy(_) => "unset it, or write for example http://proxy.example:3128",
        };
        Misuse { what: error.to_string(), hint: Some(hint.to_owned()) }
    })?;
    Ok(settings)
}
