//! An authenticating proxy: absolute URLs for HTTP, tunnels for HTTPS.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wharf_io::{HttpClient, HttpError, HttpSettings, Proxies};

use super::get;
use super::names::Fixed;
use super::server::Server;
use super::tls::{Authority, trusting};

/// `user:pass`.
const WHO: &str = "proxy-authorization: basic dxnlcjpwyxnz";

/// A proxy. Dropping it closes the port and all connections.
struct Proxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy that responds to HTTP itself and opens tunnels to `server`.
    async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let mut accepting = JoinSet::new();
        let log = Arc::clone(&requests);
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, server, Arc::clone(&log)));
            }
        });
        Self { address, requests, _accepting: accepting }
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn url(&self) -> String {
        format!("http://user:pass@{}", self.address)
    }
}

async fn serve(mut stream: TcpStream, server: SocketAddr, log: Arc<Mutex<Vec<String>>>) {
    while let Some(head) = head(&mut stream).await {
        let line = head.lines().next().unwrap_or_default().to_owned();
        log.lock().unwrap().push(line.clone());
        if !head.to_ascii_lowercase().contains(WHO) {
            let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 3\r\n\r\nwho";
            stream.write_all(refusal).await.unwrap();
        } else if line.starts_with("CONNECT ") {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut upstream = TcpStream::connect(server).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
            return;
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nby proxy").await.unwrap();
        }
    }
}

/// Reads the head of a request without a body.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

fn through(proxies: Proxies) -> HttpClient {
    let settings = HttpSettings { proxies, ..HttpSettings::default() };
    HttpClient::new(settings.resolving(Fixed::loopback())).unwrap()
}

#[tokio::test]
async fn an_http_proxy_gets_absolute_urls_and_its_connection_is_reused() {
    let server = Server::start().await;
    let proxy = Proxy::before(server.address).await;
    for proxies in [
        Proxies { http: Some(proxy.url()), ..Proxies::default() },
        Proxies { all: Some(proxy.url()), ..Proxies::default() },
    ] {
        let client = through(proxies);
        for _ in 0..3 {
            assert_eq!(get(&client, "http://name.test/p?q=1").await.unwrap(), "by proxy");
        }
        assert_eq!(proxy.requests(), ["GET http://name.test/p?q=1 HTTP/1.1"; 3]);
        assert_eq!(client.connections_opened(), 1);
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn the_address_of_a_proxy_is_not_that_of_the_server() {
    let authority = Authority::new();
    let peer = async |client: &HttpClient, url: &str| {
        let mut request = http::Request::new(bytes::Bytes::new());
        *request.uri_mut() = url.parse().unwrap();
        client.send(request).await.unwrap().into_body().peer()
    };
    for protocol in ["h2", "http/1.1"] {
        let server = authority.server("name.test", &[protocol]).await;
        let url = format!("https://name.test:{}/p", server.address.port());
        let direct = HttpClient::new(trusting(&authority).resolving(Fixed::loopback())).unwrap();
        assert_eq!(peer(&direct, &url).await, Some([127, 0, 0, 1].into()), "{protocol}");
        let proxy = Proxy::before(server.address).await;
        let proxies = Proxies { all: Some(proxy.url()), ..Proxies::default() };
        let through_proxy = HttpClient::new(HttpSettings { proxies, ..trusting(&authority) }).unwrap();
        for url in ["https://name.test/p", "http://name.test/p"] {
            assert_eq!(peer(&through_proxy, url).await, None, "{protocol}: {url}");
        }
    }
}

#[tokio::test]
async fn an_https_proxy_opens_a_tunnel_in_which_the_server_is_verified() {
    let authority = Authority::new();
    for protocol in ["h2", "http/1.1"] {
        let server = authority.server("name.test", &[protocol]).await;
        let proxy = Proxy::before(server.address).await;
        let proxies = Proxies { https: Some(proxy.url()), ..Proxies::default() };
        let client = HttpClient::new(HttpSettings { proxies, ..trusting(&authority) }).unwrap();
        for _ in 0..3 {
            assert!(get(&client, "https://name.test/p").await.unwrap().ends_with("GET /p at name.test: 0"));
        }
        assert_eq!(proxy.requests(), ["CONNECT name.test:443 HTTP/1.1"]);
        let error = get(&client, "https://other.test/p").await.unwrap_err();
        assert!(matches!(error, HttpError::Untrusted(_)), "{error}");
        assert_eq!(proxy.requests(), ["CONNECT other.test:443 HTTP/1.1"]);
    }
}

#[tokio::test]
async fn a_proxy_that_requires_authentication_is_not_mistaken_for_the_server() {
    let authority = Authority::new();
    let server = authority.server("name.test", &[]).await;
    let proxy = Proxy::before(server.address).await;
    let stranger = || Some(format!("http://{}", proxy.address));
    let client = through(Proxies { all: stranger(), ..Proxies::default() });
    assert_eq!(get(&client, "http://name.test/").await.unwrap(), "407 who");
    let error = get(&client, "https://name.test/").await.unwrap_err();
    assert!(matches!(error, HttpError::Unreachable(_)), "{error}");
    assert!(error.to_string().starts_with("https://name.test cannot be reached by proxy: "), "{error}");
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn an_unreachable_proxy_is_reported_as_such() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = through(Proxies { all: Some(format!("http://user:pass@{free}")), ..Proxies::default() });
    for url in ["http://name.test/", "https://name.test/"] {
        let error = get(&client, url).await.unwrap_err().to_string();
        assert!(error.contains("cannot be reached by proxy: ") && error.contains("refused"), "{error}");
        assert!(!error.contains("pass"), "{error}");
    }
}

#[tokio::test]
async fn excluded_and_loopback_hosts_bypass_the_proxy() {
    let server = Server::start().await;
    let proxy = Proxy::before(server.address).await;
    let no = Some("name.test,.inner.test,10.0.0.0/8".to_owned());
    let client = through(Proxies { all: Some(proxy.url()), no, ..Proxies::default() });
    let port = server.address.port();
    for host in ["name.test", "a.inner.test", "127.0.0.1", "localhost"] {
        let answer = get(&client, &format!("http://{host}:{port}/")).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.1 GET / at {host}:{port}: 0"));
    }
    assert_eq!(proxy.requests(), Vec::<String>::new());
    assert_eq!(get(&client, "http://other.test/").await.unwrap(), "by proxy");
}
