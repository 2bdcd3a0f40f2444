//! Behavior of every transport: host checks, paths and shutdown.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wharf_server::{ClientAuth, ListenOptions, RemoteServer, Reply, Router, TokenCheck};

use crate::raw::Http;
use crate::{call, initialize, initialized, remote, router, server_name, soon, sse, streamable, toolbox, websocket};

const UPGRADE: [&str; 4] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

#[tokio::test]
async fn unknown_hosts_and_origins_are_refused_everywhere() {
    let remote = remote(ListenOptions::default()).await;
    for target in ["POST /mcp", "GET /mcp", "DELETE /mcp", "GET /sse", "POST /messages?session=x", "GET /ws"] {
        for headers in [
            &["Host: evil.example"][..],
            &["Origin: http://evil.example"],
            &["Origin: null"],
            &["Origin: http://localhost", "Origin: http://localhost"],
        ] {
            let head = Http::connect(&remote).await.send(target, &[headers, &UPGRADE].concat(), "").await;
            assert_eq!(head.status, 403, "{target} {headers:?}");
        }
    }
}

#[tokio::test]
async fn allowed_hosts_are_accepted_everywhere() {
    let allowed_hosts = Some(vec!["wharf.example".to_owned()]);
    let remote = remote(ListenOptions { allowed_hosts, ..ListenOptions::default() }).await;
    let named = ["Host: wharf.example", "Origin: https://wharf.example"];
    assert_eq!(Http::connect(&remote).await.post("/mcp", &named, &initialize()).await.status, 200);
    assert_eq!(Http::connect(&remote).await.send("GET /sse", &named, "").await.status, 200);
    let head = Http::connect(&remote).await.send("GET /ws", &[&named[..], &UPGRADE].concat(), "").await;
    assert_eq!(head.status, 101);
}

#[tokio::test]
async fn other_paths_are_not_found_and_other_methods_not_allowed() {
    let remote = remote(ListenOptions::default()).await;
    let mut http = Http::connect(&remote).await;
    for (target, status, allow) in [
        ("GET /", 404, None),
        ("POST /mcp/", 404, None),
        ("PUT /mcp", 405, Some("GET, POST, DELETE")),
        ("POST /sse", 405, Some("GET")),
        ("GET /messages", 405, Some("POST")),
        ("POST /ws", 405, Some("GET")),
    ] {
        let head = http.send(target, &[], "").await;
        http.body(&head).await;
        assert_eq!((head.status, head.header("allow")), (status, allow), "{target}");
    }
}

#[tokio::test]
async fn closing_ends_open_streams_within_its_timeout() {
    let remote = remote(ListenOptions::default()).await;
    let address = remote.address();
    let (mut calling, session) = streamable::open(&remote).await;
    calling.post("/mcp", &[&session], &call(2, "hang", "")).await;
    let (mut stream, path) = sse::open(&remote).await;
    let mut http = Http::connect(&remote).await;
    for message in [initialize(), initialized(), call(2, "hang", "")] {
        let head = http.post(&path, &[], &message).await;
        http.body(&head).await;
    }
    let mut socket = websocket::open(&remote).await;

    let start = Instant::now();
    let all_closed = async {
        while calling.event().await.is_some() {}
        while stream.event().await.is_some() {}
        websocket::close_code(&mut socket).await;
        drop(socket);
    };
    soon(async { tokio::join!(remote.close(), all_closed) }).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn dropping_ends_open_streams() {
    let remote = remote(ListenOptions::default()).await;
    let (mut stream, _) = sse::open(&remote).await;
    let mut socket = websocket::open(&remote).await;
    drop(remote);
    while stream.event().await.is_some() {}
    soon(async { while let Some(Ok(_)) = futures_util::StreamExt::next(&mut socket).await {} }).await;
}

#[tokio::test]
async fn no_handler_outlives_its_router() {
    let held = Arc::new(());
    let make = {
        let held = held.clone();
        move || {
            let held = held.clone();
            let tool = move |_| {
                let held = held.clone();
                async move { Ok(Reply::Text(Arc::strong_count(&held).to_string())) }
            };
            toolbox().tool(json!({ "name": "hold", "inputSchema": { "type": "object" } }), tool)
        }
    };
    let router = Router::new(make, ListenOptions::default());
    let remote = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await.unwrap();
    let clients = (streamable::open(&remote).await, sse::open(&remote).await, websocket::open(&remote).await);
    assert!(Arc::strong_count(&held) > 4, "one here, one to make more, one per client");
    let ((), ()) = tokio::join!(remote.close(), async { drop(clients) });
    soon(async {
        while Arc::strong_count(&held) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_may_be_any_stream() {
    let router = router(ListenOptions::default());
    let (ours, theirs) = tokio::io::duplex(1024);
    let client = async move {
        let mut http = Http::over(ours);
        let head = http.post("/mcp", &[], &initialize()).await;
        assert_eq!(head.status, 200);
        assert_eq!(server_name(&http.message().await.unwrap()), "parrot");
    };
    soon(async { tokio::join!(client, router.serve_connection(theirs)) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected_after_a_minute() {
    let router = router(ListenOptions { keep_alive: Duration::from_secs(1), ..ListenOptions::default() });
    let (ours, theirs) = tokio::io::duplex(512);
    let client = async move {
        let mut http = Http::over(ours);
        http.send("GET /sse", &[], "").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
    };
    let start = Instant::now();
    let cut_off = async {
        router.serve_connection(theirs).await;
        start.elapsed()
    };
    let ((), elapsed) = tokio::join!(client, cut_off);
    assert!(elapsed > Duration::from_secs(60) && elapsed < Duration::from_secs(150), "{elapsed:?}");
}

#[tokio::test]
async fn urls_use_loopback_when_every_interface_is_listened_on() {
    let options = ListenOptions { client_auth: ClientAuth::Anyone, ..ListenOptions::default() };
    let remote = RemoteServer::bind(([0, 0, 0, 0], 0).into(), router(options)).await.unwrap();
    let port = remote.address().port();
    assert_eq!(remote.http_url(), format!("http://127.0.0.1:{port}/mcp"));
    assert_eq!(remote.sse_url(), format!("http://127.0.0.1:{port}/sse"));
    assert_eq!(remote.ws_url(), format!("ws://127.0.0.1:{port}/ws"));
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_authentication() {
    let bind = async |address: &str, client_auth: ClientAuth| {
        let options = ListenOptions { client_auth, ..ListenOptions::default() };
        RemoteServer::bind(address.parse().unwrap(), router(options)).await.map(drop)
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:0.0.0.0]:0"] {
        let error = bind(address, ClientAuth::Local).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{address}: {error}");
        assert!(error.to_string().contains("without authentication"), "{error}");
    }
    for address in ["127.0.0.1:0", "127.0.0.2:0"] {
        bind(address, ClientAuth::Local).await.unwrap();
    }
    bind("0.0.0.0:0", ClientAuth::Anyone).await.unwrap();
    bind("0.0.0.0:0", ClientAuth::Bearer(TokenCheck::token("t"))).await.unwrap();
}

#[tokio::test]
async fn every_transport_requires_the_bearer_token() {
    let client_auth = ClientAuth::Bearer(TokenCheck::token("s3cret"));
    let remote = remote(ListenOptions { client_auth, ..ListenOptions::default() }).await;
    for (target, headers, allowed) in [
        ("POST /mcp", &[][..], 400..=422),
        ("GET /sse", &[], 200..=200),
        ("POST /messages?session=x", &[], 404..=404),
        ("GET /ws", &UPGRADE, 101..=101),
    ] {
        for wrong in [None, Some("Authorization: Bearer wrong")] {
            let mut http = Http::connect(&remote).await;
            let head = http.send(target, &[headers, wrong.as_slice()].concat(), "").await;
            assert_eq!((head.status, head.header("www-authenticate")), (401, Some("Bearer")), "{target}");
        }
        let mut http = Http::connect(&remote).await;
        let head = http.send(target, &[headers, &["Authorization: Bearer s3cret"]].concat(), "").await;
        assert!(allowed.contains(&head.status), "{target}: {}", head.status);
    }
}

#[tokio::test]
async fn sessions_of_all_transports_are_bounded_together() {
    let remote = remote(ListenOptions { max_sessions: 2, ..ListenOptions::default() }).await;
    let mut first = Http::connect(&remote).await;
    let head = first.post("/mcp", &[], &initialize()).await;
    let session = format!("Mcp-Session-Id: {}", head.header("mcp-session-id").unwrap());
    let (stream, _) = sse::open(&remote).await;
    let refused = async || {
        for target in ["POST /mcp", "GET /sse"] {
            let mut http = Http::connect(&remote).await;
            let head = match target {
                "POST /mcp" => http.post("/mcp", &[], &initialize()).await,
                _ => http.send(target, &[], "").await,
            };
            assert_eq!((head.status, head.header("retry-after")), (503, Some("5")), "{target}");
        }
    };
    refused().await;
    // Sessions that exist are not affected.
    let head = Http::connect(&remote).await.post("/mcp", &[&session], &initialized()).await;
    assert_eq!(head.status, 202);
    // A session that ends makes room for another.
    let head = Http::connect(&remote).await.send("DELETE /mcp", &[&session], "").await;
    assert!(head.status < 300, "{}", head.status);
    let head = Http::connect(&remote).await.post("/mcp", &[], &initialize()).await;
    assert_eq!(head.status, 200);
    refused().await;
    drop(stream);
    // The server notices the end of the stream soon.
    soon(async {
        while Http::connect(&remote).await.post("/mcp", &[], &initialize()).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
