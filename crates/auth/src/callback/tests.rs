use tokio::io::AsyncWriteExt as _;
use wharf_testkit::{eventually, soon};

use super::*;

const LONG: Duration = Duration::from_secs(600);

/// Waits for the state `right`; returns the port.
async fn waiting() -> (u16, JoinSet<Result<String, CallbackError>>) {
    let callback = Callback::listen(None).await.unwrap();
    let port = callback.listener.local_addr().unwrap().port();
    let mut wait = JoinSet::new();
    wait.spawn(async move { callback.came_back("right", LONG).await });
    (port, wait)
}

async fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.unwrap()
}

/// Sends a request and reads the whole response.
async fn send(port: u16, request: impl AsRef<[u8]>) -> String {
    let exchange = async {
        let mut stream = connect(port).await;
        stream.write_all(request.as_ref()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    soon(exchange).await
}

async fn get(port: u16, target: &str) -> String {
    send(port, format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n\r\n")).await
}

/// Sends the expected redirect, which ends the wait.
async fn comes_back(port: u16, mut wait: JoinSet<Result<String, CallbackError>>) {
    let answer = get(port, "/callback?code=c%2F1&state=right").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("You are signed in. You can close this page."), "{answer}");
    let url = soon(wait.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(url, format!("http://127.0.0.1:{port}/callback?code=c%2F1&state=right"));
}

/// Sends another request, which is rejected and does not end the wait.
async fn refused(request: impl FnOnce(u16) -> Vec<u8>, status: &str) {
    let (port, mut wait) = waiting().await;
    let answer = send(port, request(port)).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    assert!(answer.ends_with("</html>\n"), "{answer}");
    assert!(wait.try_join_next().is_none());
    comes_back(port, wait).await;
}

#[tokio::test]
async fn the_listener_is_closed_after_the_redirect() {
    let callback = Callback::listen(None).await.unwrap();
    let address = callback.listener.local_addr().unwrap();
    assert_eq!(callback.redirect_uri(), format!("http://{address}/callback"));
    assert!(address.ip().is_loopback());
    let mut wait = JoinSet::new();
    wait.spawn(async move { callback.came_back("right", LONG).await });
    comes_back(address.port(), wait).await;
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(Callback::listen(Some(address.port())).await.unwrap().listener.local_addr().unwrap(), address);
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let callback = Callback::listen(None).await.unwrap();
    let port = callback.listener.local_addr().unwrap().port();
    assert_eq!(Callback::listen(Some(port)).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_request_may_arrive_in_pieces() {
    let (port, mut wait) = waiting().await;
    let mut stream = connect(port).await;
    stream.set_nodelay(true).unwrap();
    for piece in
        ["G", "ET /callback?code=c&state=ri", "ght HTTP/1.1\r\nHost: local", "host:", &port.to_string(), "\r\n\r", "\n"]
    {
        stream.write_all(piece.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    let url = soon(wait.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(url, format!("http://127.0.0.1:{port}/callback?code=c&state=right"));
}

#[tokio::test]
async fn a_denied_authorization_ends_the_wait() {
    let (port, mut wait) = waiting().await;
    let answer = get(port, "/callback?error=access_denied%3Cb%3E&state=right").await;
    assert!(answer.contains("Sign-in failed: access_denied?b?."), "{answer}");
    assert!(!answer.contains("signed in"), "{answer}");
    let url = soon(wait.join_next()).await.unwrap().unwrap().unwrap();
    assert!(url.ends_with("/callback?error=access_denied%3Cb%3E&state=right"), "{url}");
}

#[tokio::test]
async fn a_request_without_the_right_state_does_not_end_the_wait() {
    for query in ["?code=c&state=wrong", "?code=c", "?error=access_denied&state=wrong", "?error=access_denied", ""] {
        let request = |port| format!("GET /callback{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").into();
        refused(request, "400 Bad Request").await;
    }
}

#[tokio::test]
async fn another_host_does_not_end_the_wait() {
    let request = |port| format!("GET /callback?state=right HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n").into();
    refused(request, "403 Forbidden").await;
    refused(|_| "GET /callback?state=right HTTP/1.1\r\n\r\n".into(), "403 Forbidden").await;
}

#[tokio::test]
async fn a_posted_form_gets_a_response_and_does_not_end_the_wait() {
    // More than fits into the socket buffers.
    let body = "x".repeat(12 * 1024 * 1024);
    let request = |port| {
        let length = body.len();
        format!(
            "POST /callback?state=right HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    refused(|port| request(port).into(), "405 Method Not Allowed").await;
}

#[tokio::test]
async fn the_favicon_is_not_found() {
    let request = |port| format!("GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").into();
    refused(request, "404 Not Found").await;
}

#[tokio::test]
async fn another_protocol_is_rejected_at_once() {
    refused(|_| b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".into(), "400 Bad Request").await;
    refused(|_| b"HELLO\xff\xfe\r\n\r\n".into(), "400 Bad Request").await;
}

#[tokio::test]
async fn an_endless_request_head_is_rejected() {
    let request = |port| {
        let cookies = "c".repeat(MAX_HEAD_BYTES);
        format!("GET /callback?state=right HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookies}\r\n\r\n").into()
    };
    refused(request, "431 ").await;
}

#[tokio::test]
async fn many_idle_connections_do_not_delay_the_redirect() {
    let (port, wait) = waiting().await;
    let mut silent = Vec::new();
    for number in 0..5 * MAX_CONNECTIONS {
        let mut stream = connect(port).await;
        if number % 2 == 0 {
            stream.write_all(b"GET /callback").await.unwrap();
        }
        silent.push(stream);
    }
    let started = Instant::now();
    comes_back(port, wait).await;
    assert!(started.elapsed() < HEAD_TIMEOUT / 2, "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_redirect_is_read_before_later_connections_close_it() {
    let callback = Callback::listen(None).await.unwrap();
    let address = callback.listener.local_addr().unwrap();
    // All of them connect before the listener accepts.
    let mut connections: Vec<_> =
        (0..=2 * MAX_CONNECTIONS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let request = format!("GET /callback?code=c&state=right HTTP/1.1\r\nHost: {address}\r\n\r\n");
    std::io::Write::write_all(&mut connections[0], request.as_bytes()).unwrap();
    timeout(HEAD_TIMEOUT, callback.came_back("right", LONG)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_few_idle_connections_stay_open() {
    let (port, wait) = waiting().await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS - 1 {
        silent.push(connect(port).await);
    }
    sleep(3 * MIN_CONNECTION_TIME).await;
    // The browser may send the redirect on a connection that it opened in advance.
    let first = silent.first_mut().unwrap();
    first.write_all(format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(first.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    comes_back(port, wait).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_a_timeout() {
    let (port, mut wait) = waiting().await;
    let started = Instant::now();
    let mut stream = connect(port).await;
    stream.write_all(b"GET /callback?state=right").await.unwrap();
    let mut answer = String::new();
    eventually(stream.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "");
    assert!(started.elapsed() >= HEAD_TIMEOUT && started.elapsed() < LONG, "{:?}", started.elapsed());
    assert!(wait.try_join_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_at_the_deadline() {
    let callback = Callback::listen(None).await.unwrap();
    let address = callback.listener.local_addr().unwrap();
    let started = Instant::now();
    let error = eventually(callback.came_back("right", LONG)).await.unwrap_err();
    assert!(matches!(error, CallbackError::Late(LONG)));
    assert_eq!(error.to_string(), "no redirect from the browser within 600s");
    assert!(started.elapsed() >= LONG);
    assert!(TcpStream::connect(address).await.is_err());
}
