//! TLS, with the web's certificate authorities and additional ones.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{HttpError, InvalidSettings};
use super::origin::Origin;
use super::stream::Dialed;

/// TLS for requests, which may negotiate HTTP/2, and for bare connections, which may not.
#[derive(Clone)]
pub(super) struct Tls {
    http: TlsConnector,
    bare: TlsConnector,
}

impl Tls {
    pub(super) fn new(extra_ca: Option<&[u8]>) -> Result<Self, InvalidSettings> {
        let unusable = |reason: String| InvalidSettings::Certificates(reason);
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let mut added = 0;
        for certificate in CertificateDer::pem_slice_iter(extra_ca.unwrap_or_default()) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            added += 1;
        }
        if extra_ca.is_some() && added == 0 {
            return Err(unusable("no certificate in the file".to_owned()));
        }
        let versions = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?;
        let bare = versions.with_root_certificates(roots).with_no_client_auth();
        let mut http = bare.clone();
        http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { http: TlsConnector::from(Arc::new(http)), bare: TlsConnector::from(Arc::new(bare)) })
    }

    pub(super) async fn secure(
        &self,
        stream: Dialed,
        origin: &Origin,
        allow_http2: bool,
    ) -> Result<TlsStream<Dialed>, HttpError> {
        let name = ServerName::try_from(origin.host.clone())
            .map_err(|_| HttpError::Untrusted(format!("`{}` is not a valid certificate name", origin.host)))?;
        let connector = if allow_http2 { &self.http } else { &self.bare };
        connector.connect(name, stream).await.map_err(|error| {
            let refused = error.get_ref().and_then(|refused| refused.downcast_ref::<rustls::Error>());
            match refused {
                Some(rustls::Error::InvalidMessage(_)) => {
                    HttpError::Unreachable(format!("{origin} does not support TLS; the URL may need http:// or ws://"))
                }
                Some(refused) if refused.to_string().contains("CaUsedAsEndEntity") => {
                    let reason = "it uses the certificate of an authority (CA:TRUE) as its own";
                    HttpError::Untrusted(format!("{origin}: {reason}; use one with CA:FALSE"))
                }
                Some(refused) => HttpError::Untrusted(format!("{origin}: {refused}")),
                None => HttpError::Unreachable(format!("{origin}: TLS handshake failed: {error}")),
            }
        })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}
