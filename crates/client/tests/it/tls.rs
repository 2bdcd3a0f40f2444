//! Sessions inside TLS: over HTTP/1.1, HTTP/2 and WebSocket, and with a server that is not whom it should be.

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

use crate::{json, legacy, told};

/// A server in memory with a certificate for `name`, and how to reach it.
struct Secure {
    http: HttpSettings,
    greetings: Arc<AtomicU32>,
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
    let (router, greetings) = (Router::new(toolbox, options), Arc::new(AtomicU32::new(0)));
    let (ours, counted, tasks) = (router.clone(), Arc::clone(&greetings), std::sync::Mutex::new(JoinSet::new()));
    let http = HttpSettings::default().dialing(move |_: DialTo| {
        counted.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tasks.lock().unwrap().spawn(async move {
            // A client that does not trust us goes away.
            if let Ok(stream) = acceptor.accept(theirs).await {
                router.serve_connection(stream).await;
            }
        });
        std::future::ready(Ok(Dialed::new(ours)))
    });
    Secure { http: HttpSettings { extra_ca: Some(authority.pem().into_bytes()), ..http }, greetings, router: ours }
}

fn session(transport: impl Transport) -> Session {
    Session::new("secure".parse().unwrap(), transport, NoHost, legacy())
}

fn options(http: HttpSettings) -> RemoteOptions {
    RemoteOptions { http, ..RemoteOptions::default() }
}

#[tokio::test]
async fn calls_go_through_tls_by_every_protocol() {
    let add = json(json!({"a": 1, "b": 2}));
    for (protocols, connections) in [(&["h2", "http/1.1"][..], 1), (&["http/1.1"], 2)] {
        let server = secure("name.test", protocols);
        let transport = Http::new("https://name.test/mcp", options(server.http)).unwrap();
        let session = session(transport.clone());
        for _ in 0..5 {
            assert_eq!(told(soon(session.call("add", &add)).await), "3", "{protocols:?}");
        }
        // Over HTTP/2 the calls and the stream of what is said unasked share one connection.
        assert_eq!(transport.connections_opened(), connections, "{protocols:?}");
        soon(session.close()).await;
    }
    let server = secure("name.test", &[]);
    let session = session(WebSocket::new("wss://name.test/ws", options(server.http)).unwrap());
    assert_eq!(told(soon(session.call("add", &add)).await), "3");
    soon(session.close()).await;
}

/// What makes a new session cheaper than a new start: there is no second greeting in TLS.
#[tokio::test]
async fn a_lost_session_is_made_anew_on_the_secure_connections_there_are() {
    let add = json(json!({"a": 1, "b": 2}));
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let server = secure("name.test", protocols);
        let session = session(Http::new("https://name.test/mcp", options(server.http.clone())).unwrap());
        assert_eq!(told(soon(session.call("add", &add)).await), "3");
        let (greetings, before) = (server.greetings.load(Ordering::Relaxed), session.session_id());
        server.router.forget_sessions().await;
        assert_eq!(told(soon(session.call("add", &add)).await), "3");
        assert_ne!(session.session_id(), before);
        // Over HTTP/1.1 the new session's stream may need a connection beside that of the call.
        let more = server.greetings.load(Ordering::Relaxed) - greetings;
        assert!(more <= u32::from(protocols == ["http/1.1"]), "{protocols:?}: {more}");
        soon(session.close()).await;
    }
}

#[tokio::test]
async fn a_server_that_is_not_whom_it_should_be_is_refused_at_once_and_not_tried_again() {
    for distrusted in [true, false] {
        let server = secure(if distrusted { "name.test" } else { "other.test" }, &[]);
        let http = if distrusted { HttpSettings { extra_ca: None, ..server.http } } else { server.http };
        let transport = Http::new("https://name.test/mcp", options(http.clone())).unwrap();
        let secure: [Session; 3] = [
            session(transport.clone()),
            // Asking it what it speaks is no second try.
            Session::new("secure".parse().unwrap(), transport, NoHost, SessionOptions::default()),
            session(WebSocket::new("wss://name.test/ws", options(http)).unwrap()),
        ];
        for session in secure {
            let before = server.greetings.load(Ordering::Relaxed);
            let error = soon(session.connect()).await.unwrap_err();
            assert!(matches!(error.kind, ConnectErrorKind::Unusable(_)), "{error}");
            assert!(error.to_string().contains("not secure"), "{error}");
            assert_eq!(server.greetings.load(Ordering::Relaxed) - before, 1);
        }
    }
}
