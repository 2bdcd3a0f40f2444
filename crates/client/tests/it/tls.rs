//! TLS: over HTTP/1.1, HTTP/2 and WebSocket, and with a wrong certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use wharf_client::{ConnectErrorKind, Http, NoHost, RemoteOptions, Session, SessionOptions, Transport, WebSocket};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_server::{Reply, Router, Toolbox};
use wharf_testkit::soon;

use crate::{json, legacy, result_text};

/// A server in memory with a certificate for `name`, and the settings to reach it.
struct Secure {
    http: HttpSettings,
    handshakes: Arc<AtomicU32>,
    router: Router,
}

fn secure(name: &str, protocols: &[&str]) -> Secure {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let schema = json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}});
    let toolbox = move || {
        Toolbox::new("secure", "1").tool(json!({"name": "add", "inputSchema": schema}), |call| async move {
            Ok(Reply::Text((call.number("a")? + call.number("b")?).to_string()))
        })
    };
    let options = wharf_server::ListenOptions { allowed_hosts: Some(vec!["name.test".into()]), ..Default::default() };
    let router = Router::new(toolbox, options);
    let handshakes = Arc::new(AtomicU32::new(0));
    let ours = router.clone();
    let counted = Arc::clone(&handshakes);
    let tasks = std::sync::Mutex::new(JoinSet::new());
    let http = HttpSettings::default().dialing(move |_: DialTo| {
        counted.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let acceptor = acceptor.clone();
        let router = router.clone();
        tasks.lock().unwrap().spawn(async move {
            // A client that does not trust the certificate disconnects.
            if let Ok(stream) = acceptor.accept(theirs).await {
                router.serve_connection(stream).await;
            }
        });
        std::future::ready(Ok(Dialed::new(ours)))
    });
    Secure { http: HttpSettings { extra_ca: Some(authority.pem().into_bytes()), ..http }, handshakes, router: ours }
}

fn session(transport: impl Transport) -> Session {
    Session::new("secure".parse().unwrap(), transport, NoHost, legacy())
}

fn options(http: HttpSettings) -> RemoteOptions {
    RemoteOptions { http, ..RemoteOptions::default() }
}

#[tokio::test]
async fn calls_work_over_tls_with_every_transport() {
    let add = json(json!({"a": 1, "b": 2}));
    for (protocols, connections) in [(&["h2", "http/1.1"][..], 1), (&["http/1.1"], 2)] {
        let server = secure("name.test", protocols);
        let transport = Http::new("https://name.test/mcp", options(server.http)).unwrap();
        let session = session(transport.clone());
        for _ in 0..5 {
            assert_eq!(result_text(soon(session.call("add", &add)).await), "3", "{protocols:?}");
        }
        // Over HTTP/2 the calls and the notification stream share one connection.
        assert_eq!(transport.connections_opened(), connections, "{protocols:?}");
        soon(session.close()).await;
    }
    let server = secure("name.test", &[]);
    let session = session(WebSocket::new("wss://name.test/ws", options(server.http)).unwrap());
    assert_eq!(result_text(soon(session.call("add", &add)).await), "3");
    soon(session.close()).await;
}

/// A new session is cheaper than a new connection: it needs no second TLS handshake.
#[tokio::test]
async fn a_lost_session_is_replaced_on_the_pooled_tls_connections() {
    let add = json(json!({"a": 1, "b": 2}));
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let server = secure("name.test", protocols);
        let session = session(Http::new("https://name.test/mcp", options(server.http.clone())).unwrap());
        assert_eq!(result_text(soon(session.call("add", &add)).await), "3");
        let handshakes = server.handshakes.load(Ordering::Relaxed);
        let before = session.session_id();
        server.router.forget_sessions().await;
        assert_eq!(result_text(soon(session.call("add", &add)).await), "3");
        assert_ne!(session.session_id(), before);
        // Over HTTP/1.1 the new session's stream may need a connection beside that of the call.
        let more = server.handshakes.load(Ordering::Relaxed) - handshakes;
        assert!(more <= u32::from(protocols == ["http/1.1"]), "{protocols:?}: {more}");
        soon(session.close()).await;
    }
}

#[tokio::test]
async fn replacing_a_lost_session_reuses_the_tls_connection() {
    let add = json(json!({"a": 1, "b": 2}));
    let server = secure("name.test", &["h2"]);
    let session = session(Http::new("https://name.test/mcp", options(server.http.clone())).unwrap());
    for round in 1..=3 {
        // A closed session starts fresh: HTTP client, TLS handshake, session.
        soon(session.close()).await;
        assert_eq!(result_text(soon(session.call("add", &add)).await), "3");
        assert_eq!(server.handshakes.load(Ordering::Relaxed), round);
        server.router.forget_sessions().await;
        assert_eq!(result_text(soon(session.call("add", &add)).await), "3");
        assert_eq!(server.handshakes.load(Ordering::Relaxed), round, "no second handshake");
    }
    soon(session.close()).await;
}

#[tokio::test]
async fn a_wrong_certificate_is_refused_immediately_and_not_retried() {
    for distrusted in [true, false] {
        let server = secure(if distrusted { "name.test" } else { "other.test" }, &[]);
        let http = if distrusted { HttpSettings { extra_ca: None, ..server.http } } else { server.http };
        let transport = Http::new("https://name.test/mcp", options(http.clone())).unwrap();
        let secure: [Session; 3] = [
            session(transport.clone()),
            // `server/discover` does not count as a retry.
            Session::new("secure".parse().unwrap(), transport, NoHost, SessionOptions::default()),
            session(WebSocket::new("wss://name.test/ws", options(http)).unwrap()),
        ];
        for session in secure {
            let before = server.handshakes.load(Ordering::Relaxed);
            let error = soon(session.connect()).await.unwrap_err();
            assert!(matches!(error.kind, ConnectErrorKind::Untrusted(_)), "{error}");
            assert!(error.to_string().contains("not secure"), "{error}");
            assert_eq!(server.handshakes.load(Ordering::Relaxed) - before, 1);
        }
    }
}
