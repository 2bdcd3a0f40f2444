//! Tells the browser that comes back from everybody else who may knock.

use std::hint::black_box;

use super::{Answer, PATH};
use crate::query::query;

/// What a request has to be like.
pub(super) struct Gate {
    redirect_uri: String,
    /// The names under which a browser may know us. Under any other it has been tricked by a name server into taking us
    /// for somebody else's page.
    hosts: [String; 2],
    state: String,
}

/// What a request was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The browser that was waited for.
    CameBack { url: String, answer: Answer },
    /// Somebody else.
    Refused(Answer),
}

impl Gate {
    pub(super) fn new(redirect_uri: String, state: &str) -> Self {
        let port = redirect_uri.trim_end_matches(PATH).rsplit(':').next().unwrap_or_default();
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
        Self { redirect_uri, hosts, state: state.to_owned() }
    }

    pub(super) fn judge(&self, head: &[u8]) -> Judgement {
        self.read(head).unwrap_or_else(Judgement::Refused)
    }

    fn read(&self, head: &[u8]) -> Result<Judgement, Answer> {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let &[method, target, "HTTP/1.1" | "HTTP/1.0"] = first.as_slice() else { return Err(Answer::NOT_HTTP) };
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Answer::NOT_HTTP);
        }
        let mut hosts = lines
            .filter_map(|line| line.split_once(':'))
            .filter_map(|(name, value)| name.eq_ignore_ascii_case("host").then_some(value.trim()));
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Answer::OTHER_HOST) };
        if !self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)) {
            return Err(Answer::OTHER_HOST);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (path == PATH, method) {
            (true, "GET") => self.enter(query),
            (true, _) => Err(Answer::OTHER_METHOD),
            (false, _) => Err(Answer::NOTHING_HERE),
        }
    }

    fn enter(&self, text: &str) -> Result<Judgement, Answer> {
        let url = format!("{}?{text}", self.redirect_uri);
        let pairs = query(&url);
        let find = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str());
        let mut states = pairs.iter().filter(|pair| pair.0 == "state").map(|pair| pair.1.as_str());
        // Of two states, another reader may believe the other one.
        let (Some(state), None) = (states.next(), states.next()) else { return Err(Answer::OTHER_STATE) };
        if !same(state, &self.state) {
            return Err(Answer::OTHER_STATE);
        }
        let answer = match (find("error"), find("code")) {
            (Some(error), _) => Answer::failed(error),
            (None, Some(_)) => Answer::SIGNED_IN,
            (None, None) => Answer::failed("no code was sent"),
        };
        Ok(Judgement::CameBack { url, answer })
    }
}

/// Whether two texts are the same. How long this takes does not tell how much of a guess was right.
fn same(guess: &str, secret: &str) -> bool {
    let differences = guess.bytes().zip(secret.bytes()).fold(0, |all, (left, right)| black_box(all | (left ^ right)));
    guess.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Result<&str, &Answer>) {
        let gate = Gate::new("http://127.0.0.1:4000/callback".into(), "s/1");
        match gate.judge(head.as_bytes()) {
            Judgement::CameBack { url, .. } => assert_eq!(Ok(url.as_str()), expected, "{head}"),
            Judgement::Refused(answer) => assert_eq!(Err(&answer), expected, "{head}"),
        }
    }

    #[test]
    fn the_browser_is_known_by_its_path_its_host_and_its_state() {
        let url = "http://127.0.0.1:4000/callback?code=c&state=s%2F1";
        for host in ["Host: 127.0.0.1:4000", "host:127.0.0.1:4000", "HOST: LocalHost:4000 "] {
            check(&format!("GET /callback?code=c&state=s%2F1 HTTP/1.1\r\nA: b\r\n{host}\r\n\r\n"), Ok(url));
        }
    }

    #[test]
    fn a_host_that_is_not_ours_is_refused() {
        let hosts =
            ["Host: evil.example", "Host: evil.example:4000", "Host: 127.0.0.1", "Host: 127.0.0.1:40000", "A: b"];
        for host in hosts {
            check(&format!("GET /callback?state=s%2F1 HTTP/1.1\r\n{host}\r\n\r\n"), Err(&Answer::OTHER_HOST));
        }
        let both = "GET /callback?state=s%2F1 HTTP/1.1\r\nHost: localhost:4000\r\nHost: evil.example\r\n\r\n";
        check(both, Err(&Answer::OTHER_HOST));
    }

    #[test]
    fn only_the_one_right_state_enters() {
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
            check(&head, Err(&Answer::OTHER_STATE));
        }
    }

    #[test]
    fn other_paths_other_methods_and_what_is_not_http_are_refused() {
        for path in ["/", "/favicon.ico", "/callback/", "//callback", "/Callback", "http://127.0.0.1:4000/callback"] {
            let head = format!("GET {path}?state=s/1 HTTP/1.1\r\nHost: localhost:4000\r\n\r\n");
            check(&head, Err(&Answer::NOTHING_HERE));
        }
        for method in ["POST", "HEAD", "get", "OPTIONS"] {
            let head = format!("{method} /callback?state=s/1 HTTP/1.1\r\nHost: localhost:4000\r\n\r\n");
            check(&head, Err(&Answer::OTHER_METHOD));
        }
        let not_http =
            ["", "\r\n\r\n", "GET /callback?state=s/1", "GET  /callback HTTP/1.1", "GET /callback?é HTTP/1.1"];
        for head in not_http.into_iter().chain(["GET /callback HTTP/2", "GET /callback?\u{1b}[2J HTTP/1.1"]) {
            check(&format!("{head}\r\nHost: localhost:4000\r\n\r\n"), Err(&Answer::NOT_HTTP));
        }
    }

    #[test]
    fn only_the_same_texts_are_the_same() {
        assert!(same("abc", "abc") && same("", ""));
        for (guess, secret) in
            [("abd", "abc"), ("xbc", "abc"), ("ab", "abc"), ("abcd", "abc"), ("", "abc"), ("abc", "")]
        {
            assert!(!same(guess, secret), "{guess} {secret}");
        }
    }
}
