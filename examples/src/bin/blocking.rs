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
    let result = portal.use_tool(&session, "tool-123", "add", &Json::parse(r#"{"x": 10, "y": 20}"#)?);
    println!("{}", serde_json::to_string(&result)?);
    portal.close(&session)?;
    Ok(())
}
