//! The trusted certificate authorities: those of the web, which are built in, and those of the system.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::sync::OnceCell;

/// Where systems store the certificates of their authorities in one file. The first file that exists counts.
#[cfg(all(unix, not(target_os = "macos")))]
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Returns all trusted authorities. The first TLS connection of the process loads them, on a thread for blocking work.
pub(super) async fn trusted() -> Arc<RootCertStore> {
    static TRUSTED: OnceCell<Arc<RootCertStore>> = OnceCell::const_new();
    let loading = TRUSTED.get_or_init(|| async {
        let loaded = tokio::task::spawn_blocking(|| with_system(of_system())).await;
        Arc::new(loaded.unwrap_or_else(|_| built_in()))
    });
    Arc::clone(loading.await)
}

fn built_in() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// Adds the authorities of the system to the built-in ones. Unusable certificates are skipped, as browsers do.
pub(super) fn with_system(certificates: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = built_in();
    let (_, skipped) = roots.add_parsable_certificates(certificates);
    if skipped > 0 {
        tracing::debug!(skipped, "unusable certificates in the trust store of the system");
    }
    roots
}

/// Reads a known file: the library's own search would let environment variables replace the store of the system.
#[cfg(all(unix, not(target_os = "macos")))]
fn of_system() -> Vec<CertificateDer<'static>> {
    first_bundle(&BUNDLES.map(Path::new))
}

#[cfg(not(all(unix, not(target_os = "macos"))))]
fn of_system() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

#[cfg(all(unix, not(target_os = "macos")))]
fn first_bundle(candidates: &[&Path]) -> Vec<CertificateDer<'static>> {
    let Some(bundle) = candidates.iter().find(|path| path.is_file()) else { return Vec::new() };
    let read = rustls_native_certs::load_certs_from_paths(Some(bundle), None);
    for error in &read.errors {
        tracing::debug!(%error, "cannot read the trust store of the system");
    }
    read.certs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorities_of_the_system_are_trusted_besides_the_built_in_ones() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle.pem");
        let authority = rcgen::generate_simple_self_signed(vec!["authority.test".to_owned()]).unwrap();
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(&bundle, format!("# comment\n{}{junk}", authority.cert.pem())).unwrap();
        let missing = folder.path().join("missing.pem");
        let found = first_bundle(&[&missing, &bundle]);
        assert!(found.contains(authority.cert.der()), "{found:?}");
        assert_eq!(with_system(found).len(), built_in().len() + 1);
        assert_eq!(first_bundle(&[&missing]), []);
    }

    #[tokio::test]
    async fn the_trust_store_of_this_system_is_loaded() {
        let exists = BUNDLES.iter().any(|path| Path::new(path).is_file());
        assert_eq!(trusted().await.len() > built_in().len(), exists);
    }
}
