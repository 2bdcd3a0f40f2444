//! Certificates made for the occasion: good ones are believed, and a bad one is refused with the reason.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;
use wharf_io::{HttpClient, HttpError, HttpSettings, InvalidSettings, Proxies};

use super::names::Fixed;
use super::server::Server;
use super::{get, hasty, post};

/// Somebody who signs certificates.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: Vec<u8>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
        // Its key is part of its name, so that no two are taken for each other.
        params.distinguished_name.push(DnType::CommonName, format!("{:?}", &key.public_key_raw()[..16]));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A server named `name` that speaks `protocols`, with a certificate that ended in `end`.
    fn acceptor(&self, name: &str, protocols: &[&str], end: i32) -> TlsAcceptor {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new([name.to_owned()]).unwrap());
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

/// Settings that trust an authority and find every name on this machine.
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
        let (server, client) =
            (authority.server("name.test", protocols).await, HttpClient::new(trusting(&authority)).unwrap());
        let answer = format!("{expected} POST /p at name.test:{}: 4", server.address.port());
        for _ in 0..20 {
            assert_eq!(post(&client, &url(&server), "four").await.unwrap(), answer);
        }
        assert_eq!((client.connections_opened(), server.names()), (1, vec!["name.test".to_owned()]));
    }
}

#[tokio::test]
async fn requests_at_a_time_share_a_connection_of_http_2() {
    let authority = Authority::new();
    let (server, client) =
        (authority.server("name.test", &["h2"]).await, HttpClient::new(trusting(&authority)).unwrap());
    get(&client, &url(&server)).await.unwrap();
    let url = url(&server);
    for answer in futures_util::future::join_all((0..40).map(|_| post(&client, &url, "four"))).await {
        assert!(answer.unwrap().starts_with("HTTP/2.0 POST /p"));
    }
    assert_eq!(client.connections_opened(), 1);
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_connection_behind() {
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
async fn a_secure_connection_that_the_far_end_closed_is_replaced() {
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
async fn a_certificate_that_is_not_in_order_is_refused_with_the_reason_and_nothing_is_sent() {
    let (ours, stranger) = (Authority::new(), Authority::new());
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
        let told = error.to_string();
        assert!(
            told.starts_with("the connection is not secure: https://name.test:") && told.contains(reason),
            "{told}"
        );
        assert_eq!(client.connections_opened(), 0);
    }
}

#[tokio::test]
async fn a_certificate_of_ours_is_not_trusted_unless_we_are_told_to() {
    let authority = Authority::new();
    let server = authority.server("name.test", &[]).await;
    let client = HttpClient::new(HttpSettings::default().resolving(Fixed::loopback())).unwrap();
    let error = get(&client, &url(&server)).await.unwrap_err();
    assert!(matches!(&error, HttpError::Untrusted(reason) if reason.contains("UnknownIssuer")), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_unreachable_at_once_and_a_mute_one_at_the_limit() {
    let plain = Server::start().await;
    let client = HttpClient::new(hasty().resolving(Fixed::loopback())).unwrap();
    let error = get(&client, &url(&plain)).await.unwrap_err();
    assert!(matches!(error, HttpError::Untrusted(_) | HttpError::Unreachable(_)), "{error}");
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = format!("https://name.test:{}", mute.local_addr().unwrap().port());
    let error = get(&client, &mute).await.unwrap_err();
    assert!(matches!(error, HttpError::Unreachable(_)), "{error}");
}

#[test]
fn what_is_no_certificate_is_no_setting() {
    let half = b"-----BEGIN CERTIFICATE-----\nMIIB\n".to_vec();
    let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    for (content, reason) in
        [(b"hello".to_vec(), "there is none in the file"), (Vec::new(), "there is none"), (half, ""), (wrong, "")]
    {
        let settings = HttpSettings { extra_ca: Some(content), ..HttpSettings::default() };
        let InvalidSettings::Certificates(told) = HttpClient::new(settings).unwrap_err() else { panic!() };
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn what_is_no_proxy_is_no_setting_and_is_not_shown() {
    for written in
        ["nonsense://us:s3cret@h", "http://us:s3cret@ bad host", "socks4://h:1080", "http://h:99999", "http://"]
    {
        let proxies = Proxies { https: Some(written.into()), ..Proxies::default() };
        let error = HttpClient::new(HttpSettings { proxies, ..HttpSettings::default() }).unwrap_err();
        assert_eq!(error, InvalidSettings::Proxy("HTTPS_PROXY"), "{written}");
        assert!(!error.to_string().contains("s3cret"));
    }
    for written in ["", "proxy.test:3128", "http://u:p@proxy.test", "https://proxy.test", "socks5h://[::1]:1080"] {
        let proxies = Proxies { all: Some(written.into()), ..Proxies::default() };
        HttpClient::new(HttpSettings { proxies, ..HttpSettings::default() }).unwrap();
    }
}
