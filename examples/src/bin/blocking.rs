//! Wharf in a synchronous program: calls an in-process calculator like a function.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use wharf::blocking::Portal;
use wharf::server::serve_stream;
use wharf::{InProcess, Json, NoHost, Session, SessionOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transport = InProcess::new(|stream| async {
        let _ = serve_stream(wharf_examples::calculator(), stream).await;
    });
    let session = Session::new("calculator".parse()?, transport, NoHost, SessionOptions::default());
    let portal = Portal::shared()?;
    let arguments = Json::parse(r#"{"x": 10, "y": 20}"#)?;
    // The session is closed after the scope.
    let result = portal.with_client(&session, |client| client.use_tool("tool-123", "add", &arguments))?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}
