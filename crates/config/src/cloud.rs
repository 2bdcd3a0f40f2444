//! Fetches servers from a provider: one request with limited time and size. The caller decides whether to fetch.

use std::time::Duration;

use http::header::ACCEPT;
use http::uri::Scheme;
use http::{Request, Uri};
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress, is_loopback_host};
use wharf_io::{HttpClient, HttpSettings};

use crate::sources::CloudText;

/// Maximum time for the whole request.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the response.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
const NOT_HTTPS: &str = "the URL must start with https://";

/// Fetches a provider's configuration. The URL must be `https` or on this machine: the response decides which servers
/// this machine connects to.
///
/// # Errors
/// Returns the reason if the URL is not allowed or the request fails.
pub async fn fetch(url: &str, settings: HttpSettings) -> Result<CloudText, String> {
    let uri = address::parse(url, HTTP_SCHEMES).map_err(|invalid| match invalid {
        InvalidAddress::Credentials => "the URL contains a user name or password".to_owned(),
        InvalidAddress::NoScheme | InvalidAddress::Scheme(_) => NOT_HTTPS.to_owned(),
        _ => "invalid URL".to_owned(),
    })?;
    if uri.scheme() != Some(&Scheme::HTTPS) && !is_loopback_host(uri.host().unwrap_or_default()) {
        return Err(NOT_HTTPS.to_owned());
    }
    match tokio::time::timeout(FETCH_TIMEOUT, request(uri, settings)).await {
        Ok(response) => {
            // Messages show the URL, but not its query, which may contain a secret.
            let from = url.split(['?', '#']).next().unwrap_or_default().to_owned();
            Ok(CloudText { from, text: response? })
        }
        Err(_) => Err(format!("no response within {} s", FETCH_TIMEOUT.as_secs())),
    }
}

async fn request(uri: Uri, settings: HttpSettings) -> Result<String, String> {
    let client = HttpClient::new(settings).map_err(|error| error.to_string())?;
    let request = Request::get(uri).header(ACCEPT, "application/json").body(Vec::new().into());
    let request = request.map_err(|error| error.to_string())?;
    let mut response = client.send(request).await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(format!("HTTP status {}", response.status().as_u16()));
    }
    let content = response.body_mut().read_all(MAX_RESPONSE_BYTES).await.map_err(|error| error.to_string())?;
    String::from_utf8(content).map_err(|_| "the response is not valid UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fetch_error(url: &str) -> String {
        fetch(url, HttpSettings::default()).await.expect_err("no request succeeds")
    }

    #[tokio::test]
    async fn only_https_and_loopback_urls_are_fetched() {
        for url in ["http://example.com/servers", "http://localhost.example.com/", "ftp://127.0.0.1/"] {
            assert_eq!(fetch_error(url).await, "the URL must start with https://", "{url}");
        }
        assert_eq!(fetch_error("https://user:s3cr3t@example.com/").await, "the URL contains a user name or password");
        let unreachable = fetch_error("http://127.0.0.1:1/servers").await;
        assert!(unreachable.contains("127.0.0.1:1"), "{unreachable}");
    }

    /// Serves one request with a complete response.
    fn serve_once(response: String) -> String {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/servers", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(response.as_bytes());
        });
        url
    }

    #[tokio::test]
    async fn a_response_is_returned_unless_it_failed_or_is_too_long() {
        let url = serve_once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned());
        let fetched = fetch(&format!("{url}?key=s3cr3t"), HttpSettings::default()).await.expect("a response");
        assert_eq!(fetched, CloudText { from: url, text: "{}".to_owned() });
        let url = serve_once("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned());
        assert_eq!(fetch_error(&url).await, "HTTP status 503");
        let url = serve_once(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{", MAX_RESPONSE_BYTES + 1));
        assert_eq!(fetch_error(&url).await, "it is longer than 1 MiB");
    }
}
