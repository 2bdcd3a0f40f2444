//! Settings from the environment of the process, the same as those of the binary.
//!
//! Only this module of the library reads the environment, and only when the host calls it. Certificates of the system's
//! trust store are trusted in any case.
//!
//! | variable | meaning |
//! |---|---|
//! | `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` | proxies, by the scheme of the URL or for all; in upper or lower case |
//! | `NO_PROXY` | hosts without a proxy; loopback never uses one |
//! | `SSL_CERT_FILE` | a PEM file with additional certificate authorities |
//!
//! ```no_run
//! use wharf::{Http, NoHost, RemoteOptions, Session, SessionOptions};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "https://mcp.example.com/mcp";
//! let options = RemoteOptions { http: wharf::env::http_settings(url)?, ..RemoteOptions::default() };
//! let session = Session::new("docs".parse()?, Http::new(url, options)?, NoHost, SessionOptions::default());
//! # drop(session);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "fleet")]
use std::sync::Arc;

use wharf_io::{Environment, HttpSettings, InvalidSettings, Proxies};

/// Why the variables of the environment cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The file of `SSL_CERT_FILE` cannot be read.
    #[error("cannot read SSL_CERT_FILE `{path}`: {reason}")]
    CertificateFile {
        /// The value of the variable.
        path: String,
        /// The cause.
        reason: String,
    },
    /// A proxy or a certificate is invalid.
    #[error(transparent)]
    Settings(InvalidSettings),
}

/// Returns the network settings for connections to a URL.
///
/// # Errors
/// If a proxy is invalid, or for TLS the file of `SSL_CERT_FILE`.
pub fn http_settings(url: &str) -> Result<HttpSettings, EnvError> {
    http_settings_from(url, variable)
}

/// Like [`http_settings`], with variables from `lookup` instead of the environment.
///
/// # Errors
/// Like [`http_settings`].
pub fn http_settings_from(url: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<HttpSettings, EnvError> {
    let first = |names: [&str; 2]| names.into_iter().filter_map(&lookup).find(|value| !value.trim().is_empty());
    let proxies = Proxies {
        http: first(["HTTP_PROXY", "http_proxy"]),
        https: first(["HTTPS_PROXY", "https_proxy"]),
        all: first(["ALL_PROXY", "all_proxy"]),
        no: first(["NO_PROXY", "no_proxy"]),
    };
    // A wrong file must not affect servers without TLS.
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let path = lookup("SSL_CERT_FILE").filter(|path| !path.trim().is_empty());
    let path = path.filter(|_| matches!(scheme.as_str(), "https" | "wss"));
    let read = path.map(|path| {
        let failed =
            |error: std::io::Error| EnvError::CertificateFile { path: path.clone(), reason: error.to_string() };
        std::fs::read(&path).map_err(failed)
    });
    let settings = HttpSettings { proxies, extra_ca: read.transpose()?, ..HttpSettings::default() };
    settings.check().map_err(EnvError::Settings)?;
    Ok(settings)
}

/// Returns the variables that server processes inherit: an allow-list.
#[expect(clippy::disallowed_methods, reason = "the host asks for the environment")]
pub fn child_environment() -> Environment {
    Environment::allowed_from(std::env::vars_os())
}

/// Returns what servers of a fleet get from the environment: variables for processes, and network settings.
#[cfg(feature = "fleet")]
pub fn host_environment() -> wharf_fleet::HostEnvironment {
    wharf_fleet::HostEnvironment {
        environment: child_environment(),
        network: Arc::new(|url, connect| match http_settings(url) {
            Ok(settings) => Ok(HttpSettings { connect, ..settings }),
            Err(error) => Err(error.to_string()),
        }),
        ..wharf_fleet::HostEnvironment::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "the host asks for the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, variables: &[(&str, &str)]) -> Result<HttpSettings, EnvError> {
        let lookup = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        http_settings_from(url, lookup)
    }

    #[test]
    fn proxies_are_read_in_both_cases_and_blank_ones_are_unset() {
        let variables =
            [("HTTPS_PROXY", " "), ("https_proxy", "http://proxy.test:1"), ("ALL_PROXY", "socks5://all.test")];
        let found = settings("http://a.test/", &variables).unwrap().proxies;
        assert_eq!((found.http, found.https.as_deref()), (None, Some("http://proxy.test:1")));
        assert_eq!(found.all.as_deref(), Some("socks5://all.test"));
        let wrong = settings("http://a.test/", &[("HTTP_PROXY", "ftp://x")]).unwrap_err();
        assert_eq!(wrong, EnvError::Settings(InvalidSettings::Proxy("HTTP_PROXY")));
    }

    #[test]
    fn the_certificate_file_counts_for_tls_only() {
        let variables = [("SSL_CERT_FILE", "/no/such/file")];
        assert!(settings("http://a.test/", &variables).unwrap().extra_ca.is_none());
        for url in ["https://a.test/", "WSS://a.test/"] {
            let error = settings(url, &variables).unwrap_err();
            assert!(error.to_string().starts_with("cannot read SSL_CERT_FILE `/no/such/file`: "), "{error}");
        }
    }
}
