//! One server as a child process: lists its tools, calls one with progress, and shows an error.
//!
//! The arguments are the command that starts the server, for example `one-server uvx mcp-server-time`.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use wharf::{CallOptions, Environment, Json, NoHost, Progress, Session, SessionOptions, Stdio};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().ok_or("missing arguments: the command that starts a server")?;
    #[expect(clippy::disallowed_methods, reason = "a program may read its environment; the library does not")]
    let environment = Environment::allowed_from(std::env::vars_os());
    let transport = Stdio::new(command, arguments, environment);
    let session = Session::new("example".parse()?, transport, NoHost, SessionOptions::default());

    let listed = session.list_tools().await?;
    for tool in &listed.items {
        println!("{}: {}", tool.name, tool.description_or_default());
    }
    for tool in &listed.quarantined {
        println!("skipped tool {}: {}", tool.name.as_deref().unwrap_or("without a name"), tool.reason);
    }

    let mut watch = |step: Progress| println!("… {} of {:?}", step.progress, step.total);
    let options = CallOptions { progress: Some(&mut watch), ..CallOptions::default() };
    let arguments = Json::parse(r#"{"x": 20, "y": 22}"#)?;
    match session.call_with("add", &arguments, options).await {
        Ok(output) if output.is_error => println!("the tool failed: {}", output.text()),
        Ok(output) => println!("{}", output.text()),
        Err(error) => println!("call failed: {error} (outcome: {:?})", error.outcome()),
    }

    // Arguments that do not match the tool's schema are never sent.
    let wrong = Json::parse(r#"{"x": "twenty", "y": 22}"#)?;
    if let Err(error) = session.call("add", &wrong).await {
        println!("{error}");
    }
    session.close().await;
    Ok(())
}
