//! HTTP/2 with prior knowledge, by hyper's own client.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use wharf_server::ListenOptions;

use crate::{initialize, remote, soon};

#[tokio::test]
async fn http2_works_with_prior_knowledge() {
    let remote = remote(ListenOptions::default()).await;
    let stream = tokio::net::TcpStream::connect(remote.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let request = http::Request::post(remote.http_url())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::new(Bytes::from(initialize().to_string())))
        .unwrap();
    let asking = async {
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("parrot"), "{body:?}");
    };
    soon(async {
        tokio::select! { () = asking => {}, ended = connection => panic!("too early: {ended:?}") }
    })
    .await;
    soon(remote.close()).await;
}
