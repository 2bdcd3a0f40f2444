//! The calculator over every transport.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use wharf::{Environment, Http, HttpSse, NoHost, RemoteOptions, Session, SessionOptions, Transport};
use wharf_testkit::soon;

const CALCULATOR: &str = env!("CARGO_BIN_EXE_calculator");

/// A calculator that serves until it is dropped, and its URL.
struct Serving(Child, String);

impl Serving {
    fn over(transport: &str) -> Self {
        let mut server = Command::new(CALCULATOR).args([transport, "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self(server, url.trim().to_owned())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

async fn check(transport: impl Transport) {
    let session = Session::new("calculator".parse().unwrap(), transport, NoHost, SessionOptions::default());
    let listed = soon(session.list_tools()).await.unwrap();
    let tool = &listed.items[0];
    assert_eq!((listed.items.len(), &*tool.name), (1, "calculator"));
    assert_eq!(tool.description.as_deref(), Some("Calculator tool which performs calculations: x + y"));
    let sum = soon(session.call("calculator", &json!({"x": 10, "y": 20}).into())).await.unwrap();
    assert_eq!(sum.text(), "30");
    let refused = soon(session.call("calculator", &json!({"x": 1.5, "y": 2}).into())).await.unwrap_err();
    assert!(refused.to_string().contains("1.5 is not of type \"integer\""), "{refused}");
    let failed = soon(session.call("calculator", &json!({"x": i64::MAX, "y": 1}).into())).await.unwrap();
    assert_eq!((failed.is_error, failed.text().as_str()), (true, "the sum is too large"));
    soon(session.close()).await;
}

#[tokio::test]
async fn it_adds_over_stdio() {
    check(wharf::Stdio::new(CALCULATOR, ["stdio"], Environment::default())).await;
}

#[tokio::test]
async fn it_adds_over_http() {
    let serving = Serving::over("http");
    assert!(serving.1.starts_with("http://127.0.0.1:") && serving.1.ends_with("/mcp"), "{}", serving.1);
    check(Http::new(&serving.1, RemoteOptions::default()).unwrap()).await;
}

#[tokio::test]
async fn it_adds_over_sse() {
    let serving = Serving::over("sse");
    assert!(serving.1.starts_with("http://127.0.0.1:") && serving.1.ends_with("/sse"), "{}", serving.1);
    check(HttpSse::new(&serving.1, RemoteOptions::default()).unwrap()).await;
}

#[test]
fn it_adds_in_process_and_rejects_unknown_transports() {
    assert_eq!(crate::output(CALCULATOR, &[]), "10 + 20 = 30\n");
    let refused = Command::new(CALCULATOR).arg("carrier-pigeon").output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected stdio, http or sse"));
}
