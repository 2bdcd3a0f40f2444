//! What the environment says about the network: proxies, and whom else to trust. Only the binary reads it.

use std::time::Duration;

use wharf::{HttpSettings, Proxies};

use crate::servers::Misuse;

/// How connections are made, as the standard variables have it.
pub(crate) fn settings(connect: Duration) -> Result<HttpSettings, Misuse> {
    let proxies = Proxies {
        http: variable(&["HTTP_PROXY", "http_proxy"]),
        https: variable(&["HTTPS_PROXY", "https_proxy"]),
        all: variable(&["ALL_PROXY", "all_proxy"]),
        no: variable(&["NO_PROXY", "no_proxy"]),
    };
    let extra_ca = match variable(&["SSL_CERT_FILE"]) {
        None => None,
        Some(path) => Some(std::fs::read(&path).map_err(|error| Misuse {
            what: format!("SSL_CERT_FILE names `{path}`, which cannot be read: {error}"),
            hint: Some("unset it, or name a file with certificates in PEM".to_owned()),
        })?),
    };
    Ok(HttpSettings { connect, proxies, extra_ca, ..HttpSettings::default() })
}

/// The first of these that is set to something.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.trim().is_empty())
}
