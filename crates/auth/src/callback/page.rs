//! The pages that a browser is shown. They hold nothing that could be loaded, run or kept.

use std::borrow::Cow;
use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// How much of somebody else's words is shown.
const MOST_WORDS: usize = 100;

/// One page, and how it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: &'static str,
    /// What the page says, as HTML.
    text: Cow<'static, str>,
}

impl Answer {
    pub(super) const SIGNED_IN: Self = Self::fixed("200 OK", "You are signed in. You can close this page.");
    pub(super) const OTHER_STATE: Self = Self::fixed(
        "400 Bad Request",
        "This sign-in did not work: it is not the one that was started last. Please start it again.",
    );
    pub(super) const NOT_HTTP: Self = Self::fixed("400 Bad Request", "This is not a request that a browser sends.");
    pub(super) const OTHER_HOST: Self = Self::fixed("403 Forbidden", "This page does not go by that name.");
    pub(super) const NOTHING_HERE: Self = Self::fixed("404 Not Found", "There is nothing here.");
    pub(super) const OTHER_METHOD: Self = Self::fixed("405 Method Not Allowed", "This page can only be fetched.");
    pub(super) const TOO_LONG: Self =
        Self::fixed("431 Request Header Fields Too Large", "This request is longer than any sign-in.");

    const fn fixed(status: &'static str, text: &'static str) -> Self {
        Self { status, text: Cow::Borrowed(text) }
    }

    /// A sign-in that came back without success. The reason is what somebody else wrote.
    pub(super) fn failed(reason: &str) -> Self {
        let text = format!("This sign-in did not work: {}. You can close this page.", plain(reason));
        Self { status: "200 OK", text: text.into() }
    }

    pub(super) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        to.write_all(self.render().as_bytes()).await?;
        to.shutdown().await
    }

    fn render(&self) -> String {
        let Self { status, text } = self;
        let page = format!(
            "<!doctype html>\n\
             <html lang=\"en\"><meta charset=\"utf-8\"><title>Sign-in</title>\n\
             <p>{text}</p></html>\n"
        );
        let allow = if *self == Self::OTHER_METHOD { "Allow: GET\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status}\r\n\
             {allow}\
             Content-Type: text/html; charset=utf-8\r\n\
             Content-Length: {}\r\n\
             Connection: close\r\n\
             Cache-Control: no-store\r\n\
             Content-Security-Policy: default-src 'none'\r\n\
             Referrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\n\
             \r\n\
             {page}",
            page.len()
        )
    }
}

/// Words that a page can show without acting on them: what is neither a letter, a digit nor plain punctuation becomes a
/// question mark.
fn plain(text: &str) -> String {
    let shown = |letter: char| if letter.is_ascii_alphanumeric() || " _-.,:/".contains(letter) { letter } else { '?' };
    text.chars().take(MOST_WORDS).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_can_neither_load_nor_run_nor_be_kept() {
        insta::assert_snapshot!(Answer::failed("access_denied").render().replace('\r', ""), @r#"
        HTTP/1.1 200 OK
        Content-Type: text/html; charset=utf-8
        Content-Length: 158
        Connection: close
        Cache-Control: no-store
        Content-Security-Policy: default-src 'none'
        Referrer-Policy: no-referrer
        X-Content-Type-Options: nosniff

        <!doctype html>
        <html lang="en"><meta charset="utf-8"><title>Sign-in</title>
        <p>This sign-in did not work: access_denied. You can close this page.</p></html>
        "#);
    }

    #[test]
    fn the_words_of_others_are_never_html() {
        let page = Answer::failed("<script>alert(\"1\")</script>&amp;\r\n'é").render();
        assert!(page.contains("did not work: ?script?alert??1???/script??amp?????."), "{page}");
        assert!(Answer::failed(&"x".repeat(9999)).render().len() < 1000);
    }

    #[test]
    fn a_method_that_is_not_allowed_is_told_which_is() {
        assert!(Answer::OTHER_METHOD.render().contains("\r\nAllow: GET\r\n"));
        assert!(!Answer::NOTHING_HERE.render().contains("Allow"));
    }
}
