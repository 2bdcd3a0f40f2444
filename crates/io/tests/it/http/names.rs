//! Custom resolvers, and addresses that do not respond.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use wharf_io::{HttpClient, HttpError, HttpSettings, Resolve};

use super::server::Server;
use super::{get, short_timeout};

/// Resolves every name to the same addresses, which can change.
#[derive(Clone)]
pub(super) struct Fixed {
    addresses: Arc<Mutex<Vec<IpAddr>>>,
    lookups: Arc<AtomicUsize>,
}

impl Fixed {
    pub(super) fn loopback() -> Self {
        Self::at(&[1])
    }

    /// Resolves to loopback addresses with these last bytes.
    fn at(last: &[u8]) -> Self {
        let names = Self { addresses: Arc::default(), lookups: Arc::default() };
        names.moves_to(last);
        names
    }

    fn moves_to(&self, last: &[u8]) {
        *self.addresses.lock().unwrap() = last.iter().map(|last| Ipv4Addr::new(127, 0, 0, *last).into()).collect();
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

impl Resolve for Fixed {
    fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let addresses = self.addresses.lock().unwrap().clone();
        std::future::ready(Ok(addresses)).boxed()
    }
}

/// Fails for every name.
struct Unknown;

impl Resolve for Unknown {
    fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        std::future::ready(Err(io::Error::new(io::ErrorKind::NotFound, "no such host (NXDOMAIN)"))).boxed()
    }
}

/// Never resolves.
struct Mute;

impl Resolve for Mute {
    fn resolve(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        std::future::pending().boxed()
    }
}

async fn unreachable(settings: HttpSettings, url: &str) -> String {
    let error = get(&HttpClient::new(settings).unwrap(), url).await.unwrap_err();
    assert!(matches!(error, HttpError::Unreachable(_)), "{error}");
    error.to_string()
}

#[tokio::test]
async fn an_unknown_name_is_reported() {
    let error = unreachable(HttpSettings::default().resolving(Unknown), "http://no.test:81/").await;
    assert!(error.starts_with("http://no.test:81 cannot be reached: ") && error.contains("NXDOMAIN"), "{error}");
    let error = unreachable(HttpSettings::default().resolving(Fixed::at(&[])), "https://no.test/").await;
    assert!(
        error.starts_with("https://no.test cannot be reached: ") && error.contains("`no.test` has no address"),
        "{error}"
    );
}

#[tokio::test]
async fn a_name_unknown_to_the_system_is_reported() {
    let error = unreachable(HttpSettings::default(), "http://no-such-host.invalid/").await;
    assert!(error.starts_with("http://no-such-host.invalid cannot be reached: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_hangs_fails_at_the_timeout() {
    let began = Instant::now();
    let client = HttpClient::new(HttpSettings::default().resolving(Mute)).unwrap();
    let request = http::Request::get("http://slow.test/").body(bytes::Bytes::new()).unwrap();
    let error = client.send(request).await.unwrap_err();
    assert_eq!(error.to_string(), "no connection to http://slow.test within 30 s");
    assert_eq!(began.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn a_name_is_resolved_again_only_when_its_connection_is_closed() {
    let names = Fixed::loopback();
    let first = Server::start().await;
    let port = first.address.port();
    let second = Server::at(SocketAddr::from(([127, 0, 0, 2], port))).await;
    let client = HttpClient::new(HttpSettings::default().resolving(names.clone())).unwrap();
    let url = format!("http://moving.test:{port}/");
    for _ in 0..3 {
        get(&client, &url).await.unwrap();
    }
    names.moves_to(&[2]);
    get(&client, &url).await.unwrap();
    assert_eq!((first.accepted(), second.accepted(), names.lookups()), (1, 0, 1));
    first.close().await;
    get(&client, &url).await.unwrap();
    assert_eq!((second.accepted(), names.lookups()), (1, 2));
}

#[tokio::test]
async fn one_responding_address_of_several_is_enough() {
    let server = Server::start().await;
    let url = format!("http://many.test:{}/", server.address.port());
    let client = HttpClient::new(HttpSettings::default().resolving(Fixed::at(&[3, 1]))).unwrap();
    get(&client, &url).await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_reported_immediately() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = unreachable(HttpSettings::default(), &format!("http://{free}/")).await;
    assert!(error.starts_with(&format!("http://{free} cannot be reached: ")) && error.contains("refused"), "{error}");
}

/// An address that drops all packets: the backlog of its listener is full and stays full.
struct BlackHole {
    address: SocketAddr,
    _room: Vec<TcpStream>,
    _listener: tokio::net::TcpListener,
}

impl BlackHole {
    async fn at(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut room = Vec::new();
        while let Ok(taken) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            room.push(taken.unwrap());
        }
        Self { address, _room: room, _listener: listener }
    }
}

#[tokio::test]
async fn an_unresponsive_address_fails_at_the_timeout() {
    let hole = BlackHole::at("127.0.0.1:0".parse().unwrap()).await;
    let began = Instant::now();
    let url = format!("http://{}/", hole.address);
    let error = unreachable(short_timeout(), &url).await;
    assert_eq!(error, format!("no connection to http://{} within 0.3 s", hole.address));
    assert!((Duration::from_millis(300)..Duration::from_secs(5)).contains(&began.elapsed()));
}

#[tokio::test]
async fn an_unresponsive_address_does_not_block_one_that_responds() {
    let server = Server::start().await;
    let port = server.address.port();
    let _hole = BlackHole::at(SocketAddr::from(([127, 0, 0, 2], port))).await;
    let settings = HttpSettings { connect: Duration::from_secs(1), ..HttpSettings::default() };
    let client = HttpClient::new(settings.resolving(Fixed::at(&[2, 1]))).unwrap();
    get(&client, &format!("http://many.test:{port}/")).await.unwrap();
}
