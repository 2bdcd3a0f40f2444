//! TLS, with the certificate authorities of the web and of the system, and additional ones.

mod roots;

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{HttpError, InvalidSettings};
use super::origin::Origin;
use super::stream::Dialed;

/// TLS for all connections of a client. The trust store is loaded with the first of them, because most clients connect
/// to this machine without TLS.
pub(super) struct Tls {
    /// The additional authorities.
    extra: RootCertStore,
    connectors: OnceCell<Connectors>,
}

/// TLS for requests, which may negotiate HTTP/2, and for bare connections, which may not.
struct Connectors {
    http: TlsConnector,
    bare: TlsConnector,
}

impl Tls {
    pub(super) fn new(extra_ca: Option<&[u8]>) -> Result<Self, InvalidSettings> {
        let unusable = |reason: String| InvalidSettings::Certificates(reason);
        let mut extra = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(extra_ca.unwrap_or_default()) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            extra.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if extra_ca.is_some() && extra.is_empty() {
            return Err(unusable("no certificate in the file".to_owned()));
        }
        Ok(Self { extra, connectors: OnceCell::new() })
    }

    pub(super) async fn secure(
        &self,
        stream: Dialed,
        origin: &Origin,
        allow_http2: bool,
    ) -> Result<TlsStream<Dialed>, HttpError> {
        let name = ServerName::try_from(origin.host.clone())
            .map_err(|_| HttpError::Untrusted(format!("`{}` is not a valid certificate name", origin.host)))?;
        let connecting =
            self.connectors.get_or_try_init(|| async { Connectors::new(roots::trusted().await, &self.extra) });
        let connectors = connecting.await.map_err(|error| HttpError::Untrusted(format!("{origin}: {error}")))?;
        let connector = if allow_http2 { &connectors.http } else { &connectors.bare };
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

impl Connectors {
    fn new(trusted: Arc<RootCertStore>, extra: &RootCertStore) -> Result<Self, rustls::Error> {
        let roots = if extra.is_empty() {
            trusted
        } else {
            Arc::new(RootCertStore { roots: [trusted.roots.as_slice(), extra.roots.as_slice()].concat() })
        };
        let provider = Arc::new(default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let bare = versions.with_root_certificates(roots).with_no_client_auth();
        let mut http = bare.clone();
        http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { http: TlsConnector::from(Arc::new(http)), bare: TlsConnector::from(Arc::new(bare)) })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    #[tokio::test]
    async fn a_server_with_a_certificate_of_a_system_authority_is_trusted() {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["name.test".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()));
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let origin = Origin { secure: true, host: "name.test".to_owned(), port: 443 };
        for (system, is_trusted) in [(vec![authority.der().clone()], true), (Vec::new(), false)] {
            let trusted = Arc::new(roots::with_system(system));
            let extra = RootCertStore::empty();
            let connectors = OnceCell::new_with(Some(Connectors::new(trusted, &extra).unwrap()));
            let tls = Tls { extra, connectors };
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (secured, _) = tokio::join!(tls.secure(Dialed::new(ours), &origin, true), acceptor.accept(theirs));
            assert_eq!(secured.is_ok(), is_trusted);
            assert_eq!(matches!(secured, Err(HttpError::Untrusted(_))), !is_trusted);
        }
    }
}
