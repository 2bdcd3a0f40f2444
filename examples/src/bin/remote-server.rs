//! A custom server on a port, and Streamable HTTP sessions that survive its restart.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::net::SocketAddr;

use serde_json::json;
use wharf::server::{ListenOptions as ServerOptions, RemoteServer, Reply, Router, Toolbox};
use wharf::{CallOptions, Http, Json, NoHost, ProtocolMode, RemoteOptions, Session, SessionOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One router serves Streamable HTTP at /mcp, HTTP+SSE at /sse and WebSocket at /ws.
    let router = Router::new(toolbox, ServerOptions::default());
    let remote = RemoteServer::bind(SocketAddr::from(([127, 0, 0, 1], 0)), router).await?;

    // These headers are sent with every request. `HttpSse` and `WebSocket` accept the same options.
    let headers = vec![("Authorization".to_owned(), "Bearer made-up".to_owned())];
    let transport = Http::new(&remote.http_url(), RemoteOptions { headers, ..RemoteOptions::default() })?;

    // The session detects the era of a server. This server supports both, so the example selects each in turn.
    for protocol in [ProtocolMode::Legacy, ProtocolMode::Auto] {
        let options = SessionOptions { protocol, ..SessionOptions::default() };
        let session = Session::new("greeter".parse()?, transport.clone(), NoHost, options);
        println!("{}:", session.connect().await?.protocol());

        let arguments = Json::from(json!({"name": "Ann"}));
        println!("{}", session.call("greet", &arguments).await?.text());

        // Like a restart of the server: it no longer knows the session, if it had one. The call still succeeds.
        let before = session.session_id();
        remote.router().forget_sessions().await;
        // This header is sent with this call only.
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
    let greet = json!({"name": "greet", "description": "Greets a person", "inputSchema": schema});
    Toolbox::new("greeter", "1.0")
        .tool(greet, |call| async move { Ok(Reply::Text(format!("Hello, {}!", call.text("name")?))) })
}
