//! One server as a child process: list its tools, call one, watch its progress, and see what an error looks like.
//!
//! The command that starts the server is the arguments, for example `one-server uvx mcp-server-time`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use wharf::{CallOptions, Environment, Json, NoHost, Progress, Session, SessionOptions, Stdio};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let command = words.next().ok_or("give the command that starts a server")?;
    #[expect(clippy::disallowed_methods, reason = "a program may read its environment; the library does not")]
    let environment = Environment::allowed_from(std::env::vars_os());
    let transport = Stdio::new(command, words, environment);
    let session = Session::new("example".parse()?, transport, NoHost, SessionOptions::default());

    let listed = session.list_tools().await?;
    for tool in &listed.items {
        println!("{}: {}", tool.name, tool.description_or_default());
    }
    for odd in &listed.quarantined {
        println!("left out: {} {}", odd.name.as_deref().unwrap_or("a tool that"), odd.reason);
    }

    let mut watch = |step: Progress| println!("… {} of {:?}", step.progress, step.total);
    let options = CallOptions { progress: Some(&mut watch), ..CallOptions::default() };
    let arguments = Json::parse(r#"{"x": 20, "y": 22}"#)?;
    match session.call_with("add", &arguments, options).await {
        Ok(output) if output.is_error => println!("the tool failed: {}", output.text()),
        Ok(output) => println!("{}", output.text()),
        Err(error) => println!("no answer: {error} (the call: {:?})", error.outcome()),
    }

    // Arguments that do not fit the tool's schema never leave this process.
    let wrong = Json::parse(r#"{"x": "twenty", "y": 22}"#)?;
    if let Err(error) = session.call("add", &wrong).await {
        println!("{error}");
    }
    session.close().await;
    Ok(())
}
