//! Remote servers: transports, headers, proxy and certificate variables, errors and their hints.

use tokio::runtime::Runtime;
use wharf_testkit::{HttpScripted, Listening, Script, Step};

use crate::{RunOutput, ran, screen, wharf};

/// A scripted server on a local port.
pub(crate) struct Remote {
    server: HttpScripted,
    listening: Listening,
    /// Runs the server until the test ends.
    _runtime: Runtime,
}

pub(crate) fn remote(script: Script) -> Remote {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = HttpScripted::new(script);
    let listening = runtime.block_on(server.listen());
    Remote { server, listening, _runtime: runtime }
}

impl Remote {
    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.listening.address()
    }

    /// Returns the received requests.
    pub(crate) fn requests(&self) -> Vec<wharf_testkit::SeenRequest> {
        self.server.requests()
    }

    /// Returns the last received message with this method.
    pub(crate) fn sent(&self, method: &str) -> serde_json::Value {
        let requests = self.server.requests();
        let mut messages = requests.iter().rev().filter_map(|seen| serde_json::from_str(&seen.body).ok());
        messages.find(|message: &serde_json::Value| message["method"] == method).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> RunOutput {
        let mcp = format!("s={}", self.listening.url());
        ran(wharf(&[arguments, &["--mcp", &mcp]].concat()))
    }

    /// Returns the output of a run with a fixed port.
    fn screen(&self, ran: &RunOutput) -> String {
        screen(ran).replace(&self.listening.address().port().to_string(), "PORT")
    }
}

pub(crate) fn refuse(status: u16, headers: &[(&str, &str)], body: &str) -> Step {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Step::Http { status, headers, body: body.to_owned() }
}

#[test]
fn tools_are_called_over_every_transport() {
    let remote = remote(Script::good());
    let sse = format!("sse+{}", remote.listening.sse_url());
    for url in [remote.listening.url(), sse, remote.listening.ws_url()] {
        let mcp = format!("s={url}");
        let listed = ran(wharf(&["tools", "--json", "--mcp", &mcp]));
        assert!(listed.code == 0 && listed.out.contains(r#""name":"echo""#), "{url}: {}", screen(&listed));
        let called = ran(wharf(&["call", "s", "add", "a=20", "b=22", "--mcp", &mcp]));
        assert_eq!((called.code, called.out.as_str()), (0, "42\n"), "{url}: {}", called.err);
    }
}

#[test]
fn headers_are_sent_to_their_server() {
    let remote = remote(Script::good());
    let ran = remote.run(&["tools", "-H", "Authorization: Bearer t0k3n", "--header", "X-Team:blue"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let requests = remote.server.requests();
    assert!(!requests.is_empty());
    assert!(
        requests.iter().all(|seen| seen.headers["authorization"] == "Bearer t0k3n" && seen.headers["x-team"] == "blue")
    );
}

#[test]
fn invalid_headers_are_usage_errors_without_their_values() {
    let cases: [&[&str]; 5] = [
        &["tools", "-H", "A: t0k3n", "--mcp", "a=http://127.0.0.1:1/mcp", "--mcp", "b=http://127.0.0.1:1/mcp"],
        &["tools", "-H", "A: t0k3n", "--mcp", "a=cmd"],
        &["tools", "-H", "t0k3n", "--mcp", "a=http://127.0.0.1:1/mcp"],
        &["tools", "-H", "Host: t0k3n", "--mcp", "a=http://127.0.0.1:1/mcp"],
        &["tools", "--mcp", "a=http://user:t0k3n@127.0.0.1:1/mcp"],
    ];
    let screens: Vec<String> = cases.iter().map(|case| screen(&ran(wharf(case)))).collect();
    assert!(screens.iter().all(|screen| !screen.contains("t0k3n")));
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn http_401_exits_with_3_and_shows_the_login_command() {
    let script = Script::good().on("initialize", [refuse(401, &[("www-authenticate", "Bearer realm=\"x\"")], "")]);
    let remote = remote(script);
    insta::assert_snapshot!(remote.screen(&remote.run(&["tools"])));
    let sent = remote.run(&["tools", "-H", "authorization: Bearer t0k3n"]);
    assert!(
        sent.code == 3 && sent.err.ends_with("hint: the server rejected the Authorization header\n"),
        "{}",
        sent.err
    );
}

#[test]
fn a_non_mcp_response_is_quoted_in_the_error() {
    let remote = remote(Script::good().on("initialize", [refuse(404, &[], "<html>\u{1b}[31mNot Found</html>")]));
    insta::assert_snapshot!(remote.screen(&remote.run(&["tools"])));
}

#[test]
fn a_refused_connection_is_reported_with_a_hint() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mcp = format!("s=http://127.0.0.1:{port}/mcp");
    let ran = ran(wharf(&["call", "s", "add", "a=1", "b=2", "--mcp", &mcp]));
    insta::assert_snapshot!(screen(&ran).replace(&port.to_string(), "PORT"));
}

#[test]
fn http_errors_of_calls_are_reported_in_json() {
    let script = Script::good().on_call("add", [refuse(500, &[], "out of order")]);
    let remote = remote(script);
    insta::assert_snapshot!(remote.screen(&remote.run(&["call", "s", "add", "a=1", "b=2", "--json"])));
}

#[test]
fn proxy_and_certificate_variables_are_respected() {
    // Only the proxy can resolve this host, so the request must go through it.
    let remote = remote(Script::good());
    let proxy = format!("http://127.0.0.1:{}", remote.listening.address().port());
    let mut command = wharf(&["tools", "--mcp", "s=http://mcp.test/mcp"]);
    // A value read from a file often ends with a newline.
    command.env("HTTP_PROXY", format!("{proxy}\n"));
    let ran_through = ran(command);
    assert_eq!(ran_through.code, 0, "{}", ran_through.err);
    assert!(remote.server.requests().iter().all(|seen| seen.headers["host"] == "mcp.test"));

    // HTTPS requires a tunnel through the proxy, which this one refuses.
    let proxy = format!("http://127.0.0.1:{}", remote.listening.address().port());
    let mut command = wharf(&["tools", "--mcp", "s=https://mcp.test/mcp"]);
    command.env("https_proxy", proxy);
    let refused = ran(command);
    assert!(refused.code == 4 && refused.err.contains("cannot be reached by proxy"), "{}", refused.err);
    assert_eq!(remote.server.requests().last().unwrap().method, "CONNECT");

    let mut command = wharf(&["tools", "--mcp", "s=https://127.0.0.1:1/mcp"]);
    command.env("SSL_CERT_FILE", "/no/such/file");
    let missing = ran(command);
    assert!(missing.code == 2 && missing.err.contains("cannot read SSL_CERT_FILE `/no/such/file`"), "{}", missing.err);
}
