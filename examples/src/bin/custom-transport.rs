//! A custom transport: MCP over a plain TCP socket, one message per line.
//!
//! A transport is anything that opens a pair of streams, for example a closure. The session calls it at first use and
//! after every disconnect, and so reconnects automatically.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wharf::server::serve_stream;
use wharf::{Json, Link, NoHost, OpenError, Session, SessionOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut server = JoinSet::new();
    server.spawn(async move {
        // Serving one client at a time is enough here.
        while let Ok((stream, _)) = listener.accept().await {
            let _ = serve_stream(wharf_examples::calculator(), stream).await;
        }
    });

    let transport = move || async move {
        let stream = TcpStream::connect(address).await.map_err(|error| OpenError::Other(error.to_string()))?;
        let (reader, writer) = stream.into_split();
        Ok(Link::from_bytes(reader, writer))
    };
    let session = Session::new("tcp".parse()?, transport, NoHost, SessionOptions::default());
    let sum = session.call("add", &Json::parse(r#"{"x": 10, "y": 20}"#)?).await?;
    println!("10 + 20 = {}", sum.text());

    session.close().await;
    let again = session.call("add", &Json::parse(r#"{"x": 1, "y": 2}"#)?).await?;
    println!("after closing: 1 + 2 = {}, connection {}", again.text(), session.health().connections);
    session.close().await;
    server.shutdown().await;
    Ok(())
}
