//! Asking a provider for servers: one request, bounded in time and size. Whether to ask at all is decided elsewhere.

use std::time::Duration;

use http::header::ACCEPT;
use http::uri::Scheme;
use http::{Request, Uri};
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress, is_loopback_host};
use wharf_io::{HttpClient, HttpSettings};

use super::load::CloudText;

/// How long a provider may take in all.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest configuration a provider may send.
const LONGEST: usize = 1024 * 1024;
const NOT_HTTPS: &str = "its address has to begin with https://";

/// Fetches a provider's configuration; if that fails, says why. Only an address with `https` will do, or one on this
/// machine: whoever answers decides what is run here.
pub async fn fetch(url: &str, settings: HttpSettings) -> Result<CloudText, String> {
    let uri = address::parse(url, HTTP_SCHEMES).map_err(|invalid| match invalid {
        InvalidAddress::Credentials => "its address has a name or password in it".to_owned(),
        InvalidAddress::NoScheme | InvalidAddress::Scheme(_) => NOT_HTTPS.to_owned(),
        _ => "its address is no URL".to_owned(),
    })?;
    if uri.scheme() != Some(&Scheme::HTTPS) && !is_loopback_host(uri.host().unwrap_or_default()) {
        return Err(NOT_HTTPS.to_owned());
    }
    match tokio::time::timeout(LIMIT, ask(uri, settings)).await {
        Ok(answer) => {
            // Where it is shown, what its query may keep secret is not.
            let from = url.split(['?', '#']).next().unwrap_or_default().to_owned();
            Ok(CloudText { from, text: answer? })
        }
        Err(_) => Err(format!("it did not answer within {} s", LIMIT.as_secs())),
    }
}

async fn ask(uri: Uri, settings: HttpSettings) -> Result<String, String> {
    let client = HttpClient::new(settings).map_err(|error| error.to_string())?;
    let request = Request::get(uri).header(ACCEPT, "application/json").body(Vec::new().into());
    let request = request.map_err(|error| error.to_string())?;
    let mut response = client.send(request).await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(format!("it answered with the status {}", response.status().as_u16()));
    }
    let content = response.body_mut().read_all(LONGEST).await.map_err(|error| error.to_string())?;
    String::from_utf8(content).map_err(|_| "what it sent is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(url: &str) -> String {
        fetch(url, HttpSettings::default()).await.expect_err("nobody is asked")
    }

    #[tokio::test]
    async fn only_an_address_that_cannot_be_listened_to_or_is_here_is_asked() {
        for url in ["http://example.com/servers", "http://localhost.example.com/", "ftp://127.0.0.1/"] {
            assert_eq!(refused(url).await, "its address has to begin with https://", "{url}");
        }
        assert_eq!(refused("https://user:s3cr3t@example.com/").await, "its address has a name or password in it");
        let nobody = refused("http://127.0.0.1:1/servers").await;
        assert!(nobody.contains("127.0.0.1:1"), "{nobody}");
    }

    /// Answers one request with a whole response.
    fn answers(response: String) -> String {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/servers", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a question");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(response.as_bytes());
        });
        url
    }

    #[tokio::test]
    async fn an_answer_is_taken_as_it_is_unless_it_is_none_or_too_long() {
        let url = answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned());
        let fetched = fetch(&format!("{url}?key=s3cr3t"), HttpSettings::default()).await.expect("an answer");
        assert_eq!(fetched, CloudText { from: url, text: "{}".to_owned() });
        let url = answers("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned());
        assert_eq!(refused(&url).await, "it answered with the status 503");
        let url = answers(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{", LONGEST + 1));
        assert_eq!(refused(&url).await, "it is longer than 1 MiB");
    }
}
