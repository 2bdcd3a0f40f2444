//! A calculator server: `calculator` uses it in-process, `calculator stdio` serves it over stdin and stdout, and
//! `calculator http` or `calculator sse` over the network, on port 8000 or the given port.
//!
//! It only listens on loopback. To bind another address, set `ListenOptions::client_auth` and list the host names in
//! `ListenOptions::allowed_hosts`; see docs/serving.md.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::json;
use wharf::server::{ListenOptions, RemoteServer, Reply, Router, Toolbox, serve_stdio, serve_stream};
use wharf::{InProcess, NoHost, Session, SessionOptions};

/// Creates the server: a name and one tool with typed parameters.
fn calculator() -> Toolbox {
    let number = |description: &str| json!({"type": "integer", "description": description});
    let tool = json!({"name": "calculator", "description": "Calculator tool which performs calculations: x + y",
        "inputSchema": {"type": "object", "required": ["x", "y"], "properties":
            {"x": number("First summand"), "y": number("Second summand")}}});
    Toolbox::new("Calculator Server", "1.0").tool(tool, |call| async move {
        let number = |name: &str| call.arguments[name].as_i64().ok_or(format!("`{name}` must be an integer"));
        let sum = number("x")?.checked_add(number("y")?).ok_or("the sum is too large")?;
        Ok(Reply::Text(sum.to_string()))
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => in_process().await?,
        (Some("stdio"), _) => serve_stdio(calculator()).await?,
        (Some(transport @ ("http" | "sse")), port) => {
            let port = port.as_deref().unwrap_or("8000").parse()?;
            let router = Router::new(calculator, ListenOptions::default());
            let remote = RemoteServer::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), router).await?;
            println!("{}", if transport == "http" { remote.http_url() } else { remote.sse_url() });
            std::future::pending::<()>().await;
        }
        (Some(other), _) => return Err(format!("invalid transport `{other}`: expected stdio, http or sse").into()),
    }
    Ok(())
}

async fn in_process() -> Result<(), Box<dyn std::error::Error>> {
    let transport = InProcess::new(|stream| async move { drop(serve_stream(calculator(), stream).await) });
    let session = Session::new("calculator".parse()?, transport, NoHost, SessionOptions::default());
    let sum = session.call("calculator", &json!({"x": 10, "y": 20}).into()).await?;
    println!("10 + 20 = {}", sum.text());
    session.close().await;
    Ok(())
}
