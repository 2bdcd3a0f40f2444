//! A server of one's own on a port, and sessions with it over Streamable HTTP that survive its being started again.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::net::SocketAddr;

use serde_json::json;
use wharf::server::{ListenOptions as ServerOptions, RemoteServer, Reply, Router, Toolbox};
use wharf::{CallOptions, Http, Json, NoHost, ProtocolMode, RemoteOptions, Session, SessionOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One router serves Streamable HTTP at /mcp, HTTP with SSE at /sse and WebSocket at /ws.
    let router = Router::new(toolbox, ServerOptions::default());
    let remote = RemoteServer::bind(SocketAddr::from(([127, 0, 0, 1], 0)), router).await?;

    // These headers go with every request. What `HttpSse` and `WebSocket` take is the same.
    let headers = vec![("Authorization".to_owned(), "Bearer made-up".to_owned())];
    let transport = Http::new(&remote.http_url(), RemoteOptions { headers, ..RemoteOptions::default() })?;

    // What a server speaks is found out by itself; here it speaks all there is, and we choose.
    for protocol in [ProtocolMode::Legacy, ProtocolMode::Auto] {
        let options = SessionOptions { protocol, ..SessionOptions::default() };
        let session = Session::new("greeter".parse()?, transport.clone(), NoHost, options);
        println!("{}:", session.connect().await?.protocol());

        let arguments = Json::from(json!({"name": "Ann"}));
        println!("{}", session.call("greet", &arguments).await?.text());

        // As if the server had been started again: if it kept a session for us, it does not know it any more. The call
        // succeeds all the same.
        let before = session.session_id();
        remote.router().forget_sessions().await;
        // This header goes with this call alone.
        let headers = vec![("X-Request-Id".to_owned(), "7".to_owned())];
        let output = session.call_with("greet", &arguments, CallOptions { headers, ..CallOptions::default() }).await?;
        println!("{}", output.text());
        println!("another session: {}", before != session.session_id());
        session.close().await;
    }
    println!("HTTP clients made: {}", transport.clients_made());
    remote.close().await;
    Ok(())
}

fn toolbox() -> Toolbox {
    let schema = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    let greet = json!({"name": "greet", "description": "Greets somebody", "inputSchema": schema});
    Toolbox::new("greeter", "1.0")
        .tool(greet, |call| async move { Ok(Reply::Text(format!("Hello, {}!", call.text("name")?))) })
}
