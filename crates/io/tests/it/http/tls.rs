//! Generated certificates: valid ones are accepted, invalid ones are refused with the reason.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;
use wharf_io::{HttpClient, HttpError, HttpSettings, InvalidSettings, Proxies};

use super::names::Fixed;
use super::server::Server;
use super::{get, post, short_timeout};

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: Vec<u8>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // The name includes the key, so that authorities are distinct.
        params.distinguished_name.push(DnType::CommonName, format!("{:?}", &key.public_key_raw()[..16]));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Creates a server named `name` with these ALPN `protocols` and a certificate that expires in the year `end`.
    fn acceptor(&self, name: &str, protocols: &[&str], end: i32) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(end, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    pub(super) async fn server(&self, name: &str, protocols: &[&str]) -> Server {
        Server::secure(self.acceptor(name, protocols, 4000)).await
    }
}

/// Returns settings that trust an authority and resolve every name to loopback.
pub(super) fn trusting(authority: &Authority) -> HttpSettings {
    HttpSettings { extra_ca: Some(authority.pem.clone()), ..HttpSettings::default().resolving(Fixed::loopback()) }
}

fn url(server: &Server) -> String {
    format!("https://name.test:{}/p", server.address.port())
}

#[tokio::test]
async fn the_server_chooses_the_protocol_and_requests_share_a_connection() {
    let authority = Authority::new();
    for (protocols, expected) in
        [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["h2"], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let server = authority.server("name.test", protocols).await;
        let client = HttpClient::new(trusting(&authority)).unwrap();
        let answer = format!("{expected} POST /p at name.test:{}: 4", server.address.port());
        for _ in 0..20 {
            assert_eq!(post(&client, &url(&server), "four").await.unwrap(), answer);
        }
        assert_eq!((client.connections_opened(), server.names()), (1, vec!["name.test".to_owned()]));
    }
}

#[tokio::test]
async fn concurrent_requests_share_an_http2_connection() {
    let authority = Authority::new();
    let server = authority.server("name.test", &["h2"]).await;
    let client = HttpClient::new(trusting(&authority)).unwrap();
    get(&client, &url(&server)).await.unwrap();
    let url = url(&server);
    for answer in futures_util::future::join_all((0..40).map(|_| post(&client, &url, "four"))).await {
        assert!(answer.unwrap().starts_with("HTTP/2.0 POST /p"));
    }
    assert_eq!(client.connections_opened(), 1);
}

#[tokio::test]
async fn dropping_a_client_closes_its_connections() {
    let authority = Authority::new();
    for protocol in ["h2", "http/1.1"] {
        let server = authority.server("name.test", &[protocol]).await;
        let client = HttpClient::new(trusting(&authority)).unwrap();
        post(&client, &url(&server), "four").await.unwrap();
        assert_eq!(server.open(), 1, "{protocol}");
        drop(client);
        wharf_testkit::until(async || server.open() == 0).await;
    }
}

#[tokio::test]
async fn a_tls_connection_closed_by_the_server_is_replaced() {
    let authority = Authority::new();
    for protocol in ["h2", "http/1.1"] {
        let server = authority.server("name.test", &[protocol]).await;
        let client = HttpClient::new(trusting(&authority)).unwrap();
        for connections in 1..4 {
            post(&client, &url(&server), "four").await.unwrap();
            assert_eq!(client.connections_opened(), connections, "{protocol}");
            server.hang_up().await;
        }
    }
}

#[tokio::test]
async fn an_invalid_certificate_is_refused_with_the_reason_before_anything_is_sent() {
    let ours = Authority::new();
    let stranger = Authority::new();
    let both = &["h2", "http/1.1"][..];
    for (acceptor, reason) in [
        (ours.acceptor("name.test", both, 2021), "certificate expired"),
        (ours.acceptor("other.test", both, 4000), "certificate not valid for name \"name.test\""),
        (stranger.acceptor("name.test", both, 4000), "UnknownIssuer"),
    ] {
        let server = Server::secure(acceptor).await;
        let client = HttpClient::new(trusting(&ours)).unwrap();
        let error = get(&client, &url(&server)).await.unwrap_err();
        assert!(matches!(error, HttpError::Untrusted(_)), "{error}");
        let error = error.to_string();
        assert!(
            error.starts_with("the connection is not secure: https://name.test:") && error.contains(reason),
            "{error}"
        );
        assert_eq!(client.connections_opened(), 0);
    }
}

#[tokio::test]
async fn a_custom_authority_is_not_trusted_by_default() {
    let authority = Authority::new();
    let server = authority.server("name.test", &[]).await;
    let client = HttpClient::new(HttpSettings::default().resolving(Fixed::loopback())).unwrap();
    let error = get(&client, &url(&server)).await.unwrap_err();
    assert!(matches!(&error, HttpError::Untrusted(reason) if reason.contains("UnknownIssuer")), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_fails_immediately_and_a_silent_one_at_the_timeout() {
    let plain = Server::start().await;
    let client = HttpClient::new(short_timeout().resolving(Fixed::loopback())).unwrap();
    let error = get(&client, &url(&plain)).await.unwrap_err();
    assert!(matches!(error, HttpError::Untrusted(_) | HttpError::Unreachable(_)), "{error}");
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = format!("https://name.test:{}", mute.local_addr().unwrap().port());
    let error = get(&client, &mute).await.unwrap_err();
    assert!(matches!(error, HttpError::Unreachable(_)), "{error}");
}

#[test]
fn an_invalid_certificate_is_an_invalid_setting() {
    let half = b"-----BEGIN CERTIFICATE-----\nMIIB\n".to_vec();
    let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    for (content, reason) in
        [(b"hello".to_vec(), "no certificate in the file"), (Vec::new(), "no certificate"), (half, ""), (wrong, "")]
    {
        let settings = HttpSettings { extra_ca: Some(content), ..HttpSettings::default() };
        let InvalidSettings::Certificates(error) = HttpClient::new(settings).unwrap_err() else { panic!() };
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn an_invalid_proxy_is_an_invalid_setting_and_is_not_shown() {
    for proxy in
        ["nonsense://us:s3cret@h", "http://us:s3cret@ bad host", "socks4://h:1080", "http://h:99999", "http://"]
    {
        let proxies = Proxies { https: Some(proxy.into()), ..Proxies::default() };
        let error = HttpClient::new(HttpSettings { proxies, ..HttpSettings::default() }).unwrap_err();
        assert_eq!(error, InvalidSettings::Proxy("HTTPS_PROXY"), "{proxy}");
        assert!(!error.to_string().contains("s3cret"));
    }
    for proxy in ["", "proxy.test:3128", "http://u:p@proxy.test", "https://proxy.test", "socks5h://[::1]:1080"] {
        let proxies = Proxies { all: Some(proxy.into()), ..Proxies::default() };
        HttpClient::new(HttpSettings { proxies, ..HttpSettings::default() }).unwrap();
    }
}
