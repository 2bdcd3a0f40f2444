//! The HTTP client over real sockets: connection reuse, size limits and redirects.

mod names;
mod proxy;
mod server;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use wharf_io::{BodyError, HttpClient, HttpError, HttpSettings};
use wharf_testkit::soon;

use server::Server;

fn client() -> HttpClient {
    HttpClient::new(HttpSettings::default()).unwrap()
}

/// Returns settings with a short connection timeout.
fn short_timeout() -> HttpSettings {
    HttpSettings { connect: Duration::from_millis(300), ..HttpSettings::default() }
}

async fn get(client: &HttpClient, url: &str) -> Result<String, HttpError> {
    let response = soon(client.send(Request::get(url).body(Bytes::new()).unwrap())).await?;
    let status = response.status().as_u16();
    let text = String::from_utf8(soon(response.into_body().read_all(1 << 20)).await.unwrap()).unwrap();
    Ok(if status == 200 { text } else { format!("{status} {text}") })
}

async fn post(client: &HttpClient, url: &str, content: &'static str) -> Result<String, HttpError> {
    let response = soon(client.send(Request::post(url).body(Bytes::from(content)).unwrap())).await?;
    let status = response.status().as_u16();
    let text = String::from_utf8(soon(response.into_body().read_all(1 << 20)).await.unwrap()).unwrap();
    Ok(if status == 200 { text } else { format!("{status} {text}") })
}

#[tokio::test]
async fn sequential_requests_of_any_task_share_a_connection() {
    let server = Server::start().await;
    let client = client();
    let host = server.address;
    for _ in 0..50 {
        assert_eq!(post(&client, &server.url("/p"), "four").await.unwrap(), format!("HTTP/1.1 POST /p at {host}: 4"));
    }
    for _ in 0..10 {
        let client = client.clone();
        let url = server.url("/task");
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { get(&client, &url).await.unwrap() });
        assert_eq!(tasks.join_next().await.unwrap().unwrap(), format!("HTTP/1.1 GET /task at {host}: 0"));
    }
    assert_eq!((server.accepted(), client.connections_opened()), (1, 1));
}

#[tokio::test]
async fn concurrent_requests_open_connections_that_later_ones_reuse() {
    let server = Server::start().await;
    let client = client();
    for _ in 0..3 {
        let url = server.url("/");
        futures_util::future::join_all((0..8).map(|_| get(&client, &url))).await;
    }
    assert_eq!(client.connections_opened(), 8);
}

#[tokio::test]
async fn a_connection_closed_by_the_server_is_replaced() {
    let server = Server::start().await;
    let client = client();
    for connections in 1..4 {
        post(&client, &server.url("/"), "x").await.unwrap();
        assert_eq!(client.connections_opened(), connections);
        server.hang_up().await;
    }
}

/// The server never reads the rest of the first request; a request that reused the connection would hang.
#[tokio::test]
async fn a_connection_with_an_early_response_is_not_reused() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        let mut streams = Vec::new();
        for answer in ["413 Too Large", "200 OK"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; 64]).await.unwrap();
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 2\r\n\r\nno");
            stream.write_all(answer.as_bytes()).await.unwrap();
            streams.push(stream);
        }
        std::future::pending::<()>().await;
    });
    let client = client();
    let large = Request::post(&url).body(Bytes::from(vec![b'x'; 64 << 20])).unwrap();
    let response = soon(client.send(large)).await.unwrap();
    assert_eq!(response.status(), 413);
    soon(response.into_body().read_all(100)).await.unwrap();
    assert_eq!(post(&client, &url, "a request of more than the sixty-four bytes").await.unwrap(), "no");
    assert_eq!(client.connections_opened(), 2);
}

#[tokio::test]
async fn an_unread_response_does_not_reach_the_next_request() {
    let server = Server::start().await;
    let client = client();
    let request = Request::get(server.url("/long/1000000")).body(Bytes::new()).unwrap();
    drop(soon(client.send(request)).await.unwrap());
    assert!(get(&client, &server.url("/next")).await.unwrap().starts_with("HTTP/1.1 GET /next"));
    assert_eq!(client.connections_opened(), 2);
}

#[tokio::test]
async fn a_body_is_limited_with_and_without_an_announced_length() {
    let server = Server::start().await;
    let client = client();
    for (path, most, expected) in [
        ("/long/1000", 1000, Ok(1000)),
        ("/long/1001", 1000, Err(BodyError::TooLong(1000))),
        ("/long/20000000", 1000, Err(BodyError::TooLong(1000))),
        ("/chunks/1000", 1000, Ok(1000)),
        ("/chunks/1100", 1000, Err(BodyError::TooLong(1000))),
        ("/chunks/900000000", 1000, Err(BodyError::TooLong(1000))),
    ] {
        let request = Request::get(server.url(path)).body(Bytes::new()).unwrap();
        let mut body = soon(client.send(request)).await.unwrap().into_body();
        assert_eq!(soon(body.read_all(most)).await.map(|content| content.len()), expected, "{path}");
    }
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    let server = Server::start().await;
    let client = client();
    let request = Request::get(server.url("/chunks/900000000")).body(Bytes::new()).unwrap();
    let mut body = soon(client.send(request)).await.unwrap().into_body();
    soon(body.chunk()).await.unwrap().unwrap();
    server.hang_up().await;
    let rest = async { while let Some(Ok(_)) = body.chunk().await {} };
    soon(rest).await;
    assert_eq!(get(&client, &server.url("/")).await.unwrap(), format!("HTTP/1.1 GET / at {}: 0", server.address));
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_and_with_the_same_method() {
    let server = Server::start().await;
    let other = Server::start().await;
    let client = client();
    let host = server.address;
    let outcome = async |url: String| match post(&client, &url, "four").await {
        Ok(text) => text,
        Err(error) => error.to_string(),
    };
    for status in [307, 308] {
        let arrived = format!("HTTP/1.1 POST /there at {host}: 4");
        assert_eq!(outcome(server.url(&format!("/to/{status}?/there"))).await, arrived);
        assert_eq!(outcome(server.url(&format!("/to/{status}?there"))).await, arrived.replace("/there", "/to/there"));
        assert_eq!(outcome(server.url(&format!("/to/{status}?{}", server.url("/there")))).await, arrived);
    }
    let elsewhere = [other.url("/"), format!("https://{host}/"), format!("http://localhost:{}/", host.port())];
    for target in elsewhere {
        let refused = format!("it redirects to `{target}`, which is another origin or an invalid URL");
        assert_eq!(outcome(server.url(&format!("/to/307?{target}"))).await, refused);
    }
    assert_eq!(other.accepted(), 0);
    // These would change the method to GET, so the caller gets the redirect.
    for status in [301, 302, 303] {
        assert_eq!(outcome(server.url(&format!("/to/{status}?/there"))).await, format!("{status} elsewhere"));
    }
    let followed = get(&client, &server.url("/to/302?/there")).await.unwrap();
    assert_eq!(followed, format!("HTTP/1.1 GET /there at {host}: 0"));
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    let server = Server::start().await;
    let client = client();
    let error = post(&client, &server.url("/to/307?"), "x").await.unwrap_err();
    assert_eq!(error.to_string(), "it redirects more than 5 times");
}

#[tokio::test]
async fn a_unix_socket_is_used_for_every_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = Server::on_socket(&path);
    let client = HttpClient::new(HttpSettings::default().over_unix_socket(&path)).unwrap();
    for _ in 0..3 {
        assert_eq!(get(&client, "http://any.test/p").await.unwrap(), "HTTP/1.1 GET /p at any.test: 0");
    }
    assert_eq!(server.accepted(), 1);
    let client = HttpClient::new(HttpSettings::default().over_unix_socket(folder.path().join("none"))).unwrap();
    let error = get(&client, "http://any.test/p").await.unwrap_err().to_string();
    assert!(
        error.starts_with("http://any.test cannot be reached: ") && error.contains("/none: No such file"),
        "{error}"
    );
}
