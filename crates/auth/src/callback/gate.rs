//! Recognizes the redirect among all requests.

use std::hint::black_box;

use super::page::Page;
use crate::query::query;

/// The path of the redirect URI.
pub(super) const CALLBACK_PATH: &str = "/callback";

/// The properties of the expected redirect.
pub(super) struct Gate {
    redirect_uri: String,
    /// The allowed `Host` headers. Any other indicates DNS rebinding.
    hosts: [String; 2],
    state: String,
}

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The expected redirect.
    Redirect { url: String, page: Page },
    /// Another request.
    Rejected(Page),
}

impl Gate {
    pub(super) fn new(redirect_uri: String, state: &str) -> Self {
        let port = redirect_uri.trim_end_matches(CALLBACK_PATH).rsplit(':').next().unwrap_or_default();
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
        Self { redirect_uri, hosts, state: state.to_owned() }
    }

    pub(super) fn decide(&self, head: &[u8]) -> Decision {
        self.check_request(head).unwrap_or_else(Decision::Rejected)
    }

    fn check_request(&self, head: &[u8]) -> Result<Decision, Page> {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let &[method, target, "HTTP/1.1" | "HTTP/1.0"] = first.as_slice() else { return Err(Page::NOT_HTTP) };
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Page::NOT_HTTP);
        }
        let mut hosts = lines
            .filter_map(|line| line.split_once(':'))
            .filter_map(|(name, value)| name.eq_ignore_ascii_case("host").then_some(value.trim()));
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Page::OTHER_HOST) };
        if !self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)) {
            return Err(Page::OTHER_HOST);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (path == CALLBACK_PATH, method) {
            (true, "GET") => self.check_query(query),
            (true, _) => Err(Page::OTHER_METHOD),
            (false, _) => Err(Page::NOTHING_HERE),
        }
    }

    fn check_query(&self, text: &str) -> Result<Decision, Page> {
        let url = format!("{}?{text}", self.redirect_uri);
        let pairs = query(&url);
        let find = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str());
        let mut states = pairs.iter().filter(|pair| pair.0 == "state").map(|pair| pair.1.as_str());
        // With two states, another parser might use the other one.
        let (Some(state), None) = (states.next(), states.next()) else { return Err(Page::OTHER_STATE) };
        if !constant_time_eq(state, &self.state) {
            return Err(Page::OTHER_STATE);
        }
        let page = match (find("error"), find("code")) {
            (Some(error), _) => Page::failed(error),
            (None, Some(_)) => Page::SIGNED_IN,
            (None, None) => Page::failed("the code is missing"),
        };
        Ok(Decision::Redirect { url, page })
    }
}

/// Compares two texts in constant time, so that the duration does not reveal how much of a guess is right.
fn constant_time_eq(guess: &str, secret: &str) -> bool {
    let differences = guess.bytes().zip(secret.bytes()).fold(0, |all, (left, right)| black_box(all | (left ^ right)));
    guess.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Result<&str, &Page>) {
        let gate = Gate::new("http://127.0.0.1:4000/callback".into(), "s/1");
        match gate.decide(head.as_bytes()) {
            Decision::Redirect { url, .. } => assert_eq!(Ok(url.as_str()), expected, "{head}"),
            Decision::Rejected(page) => assert_eq!(Err(&page), expected, "{head}"),
        }
    }

    #[test]
    fn the_redirect_is_recognized_by_path_host_and_state() {
        let url = "http://127.0.0.1:4000/callback?code=c&state=s%2F1";
        for host in ["Host: 127.0.0.1:4000", "host:127.0.0.1:4000", "HOST: LocalHost:4000 "] {
            check(&format!("GET /callback?code=c&state=s%2F1 HTTP/1.1\r\nA: b\r\n{host}\r\n\r\n"), Ok(url));
        }
    }

    #[test]
    fn another_host_is_rejected() {
        let hosts =
            ["Host: evil.example", "Host: evil.example:4000", "Host: 127.0.0.1", "Host: 127.0.0.1:40000", "A: b"];
        for host in hosts {
            check(&format!("GET /callback?state=s%2F1 HTTP/1.1\r\n{host}\r\n\r\n"), Err(&Page::OTHER_HOST));
        }
        let both = "GET /callback?state=s%2F1 HTTP/1.1\r\nHost: localhost:4000\r\nHost: evil.example\r\n\r\n";
        check(both, Err(&Page::OTHER_HOST));
    }

    #[test]
    fn only_the_right_state_is_accepted() {
        let wrong = [
            "",
            "?",
            "?code=c",
            "?state",
            "?state=",
            "?state=s",
            "?state=s/2",
            "?state=s/11",
            "?State=s/1",
            "?a=state=s/1",
        ];
        for query in wrong.into_iter().chain(["?state=s/1&state=s/1", "?state=s/1&state=x", "?state=x&state=s/1"]) {
            let head = format!("GET /callback{query} HTTP/1.1\r\nHost: localhost:4000\r\n\r\n");
            check(&head, Err(&Page::OTHER_STATE));
        }
    }

    #[test]
    fn other_paths_methods_and_protocols_are_rejected() {
        for path in ["/", "/favicon.ico", "/callback/", "//callback", "/Callback", "http://127.0.0.1:4000/callback"] {
            let head = format!("GET {path}?state=s/1 HTTP/1.1\r\nHost: localhost:4000\r\n\r\n");
            check(&head, Err(&Page::NOTHING_HERE));
        }
        for method in ["POST", "HEAD", "get", "OPTIONS"] {
            let head = format!("{method} /callback?state=s/1 HTTP/1.1\r\nHost: localhost:4000\r\n\r\n");
            check(&head, Err(&Page::OTHER_METHOD));
        }
        let not_http =
            ["", "\r\n\r\n", "GET /callback?state=s/1", "GET  /callback HTTP/1.1", "GET /callback?é HTTP/1.1"];
        for head in not_http.into_iter().chain(["GET /callback HTTP/2", "GET /callback?\u{1b}[2J HTTP/1.1"]) {
            check(&format!("{head}\r\nHost: localhost:4000\r\n\r\n"), Err(&Page::NOT_HTTP));
        }
    }

    #[test]
    fn constant_time_eq_compares_texts() {
        assert!(constant_time_eq("abc", "abc") && constant_time_eq("", ""));
        for (guess, secret) in
            [("abd", "abc"), ("xbc", "abc"), ("ab", "abc"), ("abcd", "abc"), ("", "abc"), ("abc", "")]
        {
            assert!(!constant_time_eq(guess, secret), "{guess} {secret}");
        }
    }
}
