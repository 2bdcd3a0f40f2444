//! Scripted servers over the old HTTP+SSE.

use serde_json::{Value, json};
use tokio::net::TcpStream;
use wharf_testkit::{HttpScripted, Listening, Script, Step, soon};

use crate::wire::{Wire, echo, echoed, event, initialize};

/// Opens a stream, and a second connection for posts.
async fn open(server: &HttpScripted) -> (Listening, Wire<TcpStream>, Wire<TcpStream>) {
    let listening = server.listen().await;
    let mut stream = Wire::to(listening.address()).await;
    let posts = Wire::to(listening.address()).await;
    stream.send("GET /sse", "").await;
    assert_eq!(soon(stream.head()).await.unwrap().get("content-type"), Some("text/event-stream"));
    let endpoint = soon(stream.chunk()).await.unwrap();
    assert_eq!(endpoint.as_deref(), Some("event: endpoint\ndata: /messages?session=1\n\n"));
    (listening, stream, posts)
}

const MESSAGES: &str = "POST /messages?session=1";

#[tokio::test]
async fn responses_arrive_on_the_stream_in_the_order_of_the_posts() {
    let server = HttpScripted::new(Script::good());
    let (listening, mut stream, mut posts) = open(&server).await;
    assert_eq!(listening.sse_url(), format!("http://{}/sse", listening.address()));
    for message in [initialize(), echo(2, "a"), echo(3, "b")] {
        let (head, body) = soon(posts.request(MESSAGES, &message.to_string())).await;
        assert_eq!((head.status, body.as_str()), (202, ""));
    }
    assert!(soon(stream.chunk()).await.unwrap().unwrap().contains("protocolVersion"));
    assert_eq!(soon(stream.chunk()).await.unwrap(), Some(event(&echoed(2, "a"))));
    assert_eq!(soon(stream.chunk()).await.unwrap(), Some(event(&echoed(3, "b"))));
    assert_eq!(soon(posts.request("POST /sse", &initialize().to_string())).await.0.status, 405);
}

#[tokio::test]
async fn a_wipe_ends_the_stream_even_while_a_call_hangs() {
    let server = HttpScripted::new(Script::good().on_call("echo", [Step::Hang]));
    let (_listening, mut stream, mut posts) = open(&server).await;
    soon(posts.request(MESSAGES, &echo(2, "").to_string())).await;
    server.wipe();
    assert_eq!(soon(stream.chunk()).await.unwrap(), None);
    assert_eq!(soon(posts.request(MESSAGES, &echo(3, "").to_string())).await.0.status, 404);
}

#[tokio::test]
async fn a_silent_wipe_leaves_a_stream_without_responses() {
    let server = HttpScripted::new(Script::good());
    let (_listening, mut stream, mut posts) = open(&server).await;
    server.wipe_silently();
    assert_eq!(soon(posts.request(MESSAGES, &echo(2, "").to_string())).await.0.status, 404);
    let message: Value = json!({"jsonrpc": "2.0", "method": "still there"});
    server.push(message.clone()).await;
    assert_eq!(soon(stream.chunk()).await.unwrap(), Some(event(&message)));
}

#[tokio::test]
async fn a_post_can_be_refused_and_the_stream_cut() {
    let refusal = Step::Http { status: 500, headers: Vec::new(), body: "not now".into() };
    let server = HttpScripted::new(Script::good().once("ping", [refusal]).on("ping", [Step::HangUp]));
    let (_listening, mut stream, mut posts) = open(&server).await;
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
    let (head, body) = soon(posts.request(MESSAGES, &ping)).await;
    assert_eq!((head.status, body.as_str()), (500, "not now"));
    assert_eq!(soon(posts.request(MESSAGES, &ping)).await.0.status, 202);
    soon(stream.chunk()).await.unwrap_err();
}
