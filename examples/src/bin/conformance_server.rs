//! The server for the protocol's conformance suite. Prints its URL, and ends with its input.

#![expect(clippy::print_stdout, reason = "the parent process reads the URL")]

use std::net::SocketAddr;

use wharf::server::{ListenOptions, RemoteServer, Router};
use wharf_examples::conformance::ConformanceServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ConformanceServer::default();
    let router = Router::new(move || server.clone(), ListenOptions::default());
    let remote = RemoteServer::bind(SocketAddr::from(([127, 0, 0, 1], 0)), router).await?;
    println!("{}", remote.http_url());
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    remote.close().await;
    Ok(())
}
