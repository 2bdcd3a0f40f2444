//! Servers whose certificate only `SSL_CERT_FILE` makes trusted.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use wharf_testkit::Script;

use crate::remote::remote;
use crate::{ran, wharf};

/// A TLS endpoint in front of a server without TLS.
struct TlsFront {
    address: SocketAddr,
    /// The certificate of its authority, in PEM.
    authority: String,
    _runtime: Runtime,
}

fn tls_front(to: SocketAddr) -> TlsFront {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()));
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    // The runtime ends the task with the test.
    drop(runtime.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                // A client that does not trust the certificate disconnects.
                let Ok(mut secured) = acceptor.accept(stream).await else { return };
                let Ok(mut server) = TcpStream::connect(to).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut secured, &mut server).await;
            });
        }
    }));
    TlsFront { address, authority: authority.pem(), _runtime: runtime }
}

#[test]
fn an_authority_in_ssl_cert_file_is_trusted() {
    let remote = remote(Script::good());
    let front = tls_front(remote.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, &front.authority).unwrap();
    let port = front.address.port();
    for url in [format!("https://localhost:{port}/mcp"), format!("wss://localhost:{port}/ws")] {
        let command = || wharf(&["tools", "--mcp", &format!("s={url}")]);
        let refused = ran(command());
        assert!(refused.code == 4 && refused.err.contains("the connection is not secure"), "{}", refused.err);
        let mut trusting = command();
        trusting.env("SSL_CERT_FILE", &file);
        let trusted = ran(trusting);
        assert_eq!(trusted.code, 0, "{url}: {}", trusted.err);
        assert!(trusted.out.contains("add"), "{}", trusted.out);
    }
}
