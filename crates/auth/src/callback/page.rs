//! The pages that the browser displays. They load nothing, run nothing and are not cached.

use std::borrow::Cow;
use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Maximum length of an error text.
const MAX_ERROR_CHARS: usize = 100;

/// A response with a short page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    status: &'static str,
    /// The text of the page, as HTML.
    text: Cow<'static, str>,
}

impl Page {
    pub(super) const SIGNED_IN: Self = Self::fixed("200 OK", "You are signed in. You can close this page.");
    pub(super) const OTHER_STATE: Self =
        Self::fixed("400 Bad Request", "Sign-in failed: this is not the latest sign-in. Please start it again.");
    pub(super) const NOT_HTTP: Self = Self::fixed("400 Bad Request", "Not a valid request.");
    pub(super) const OTHER_HOST: Self = Self::fixed("403 Forbidden", "Unknown host name.");
    pub(super) const NOTHING_HERE: Self = Self::fixed("404 Not Found", "Not found.");
    pub(super) const OTHER_METHOD: Self = Self::fixed("405 Method Not Allowed", "Only GET is supported.");
    pub(super) const TOO_LONG: Self = Self::fixed("431 Request Header Fields Too Large", "The request is too long.");

    const fn fixed(status: &'static str, text: &'static str) -> Self {
        Self { status, text: Cow::Borrowed(text) }
    }

    /// Returns the page for a failed sign-in. The reason is untrusted text.
    pub(super) fn failed(reason: &str) -> Self {
        let text = format!("Sign-in failed: {}. You can close this page.", escape(reason));
        Self { status: "200 OK", text: text.into() }
    }

    pub(super) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        to.write_all(self.render().as_bytes()).await?;
        to.shutdown().await
    }

    fn render(&self) -> String {
        let Self { status, text } = self;
        let html = format!(
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
             {html}",
            html.len()
        )
    }
}

/// Replaces everything but letters, digits and plain punctuation by question marks, so that no text is interpreted as HTML.
fn escape(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || " _-.,:/".contains(c) { c } else { '?' };
    text.chars().take(MAX_ERROR_CHARS).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_nothing_and_is_not_cached() {
        insta::assert_snapshot!(Page::failed("access_denied").render().replace('\r', ""), @r#"
        HTTP/1.1 200 OK
        Content-Type: text/html; charset=utf-8
        Content-Length: 147
        Connection: close
        Cache-Control: no-store
        Content-Security-Policy: default-src 'none'
        Referrer-Policy: no-referrer
        X-Content-Type-Options: nosniff

        <!doctype html>
        <html lang="en"><meta charset="utf-8"><title>Sign-in</title>
        <p>Sign-in failed: access_denied. You can close this page.</p></html>
        "#);
    }

    #[test]
    fn error_texts_are_never_html() {
        let page = Page::failed("<script>alert(\"1\")</script>&amp;\r\n'é").render();
        assert!(page.contains("failed: ?script?alert??1???/script??amp?????."), "{page}");
        assert!(Page::failed(&"x".repeat(9999)).render().len() < 1000);
    }

    #[test]
    fn a_405_response_lists_the_allowed_method() {
        assert!(Page::OTHER_METHOD.render().contains("\r\nAllow: GET\r\n"));
        assert!(!Page::NOTHING_HERE.render().contains("Allow"));
    }
}
