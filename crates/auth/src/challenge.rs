//! Parses the `WWW-Authenticate` header.

/// The challenge of a server that requires a token: a bearer token, or one that is bound to a key (`DPoP`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the protected resource metadata (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The required scopes.
    pub scopes: Option<Vec<String>>,
    /// The error code for the token that was sent.
    pub error: Option<String>,
    /// Whether bearer tokens are accepted.
    pub accepts_bearer: bool,
    /// Whether tokens that are bound to a key (`DPoP`) are accepted.
    pub accepts_dpop: bool,
}

impl Challenge {
    /// Parses the first challenge of each scheme. A parameter of the `DPoP` challenge takes precedence.
    pub fn read(header: &str) -> Self {
        let mut bearer = Self::default();
        let mut dpop = Self::default();
        let mut rest = header;
        let mut scheme = Scheme::Other;
        while let Some(part) = next_part(&mut rest) {
            let (name, value) = match part {
                Part::Scheme(name) => {
                    scheme = Scheme::of(name);
                    match scheme {
                        // Only the first challenge of a scheme counts.
                        Scheme::Bearer if bearer.accepts_bearer => scheme = Scheme::Other,
                        Scheme::Dpop if dpop.accepts_dpop => scheme = Scheme::Other,
                        Scheme::Bearer => bearer.accepts_bearer = true,
                        Scheme::Dpop => dpop.accepts_dpop = true,
                        Scheme::Other => {}
                    }
                    continue;
                }
                Part::Parameter(name, value) => (name, value),
            };
            let challenge = match scheme {
                Scheme::Bearer => &mut bearer,
                Scheme::Dpop => &mut dpop,
                Scheme::Other => continue,
            };
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scopes = Some(unique_words(&value)),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        Self {
            resource_metadata: dpop.resource_metadata.or(bearer.resource_metadata),
            scopes: dpop.scopes.or(bearer.scopes),
            error: dpop.error.or(bearer.error),
            accepts_bearer: bearer.accepts_bearer,
            accepts_dpop: dpop.accepts_dpop,
        }
    }

    /// Returns whether only tokens that are bound to a key are accepted.
    pub fn requires_dpop(&self) -> bool {
        self.accepts_dpop && !self.accepts_bearer
    }

    /// Returns whether the token is valid but lacks scopes.
    pub fn wants_more(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Splits a text at spaces, without repetitions.
pub(super) fn unique_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// The authentication scheme of a challenge.
#[derive(Clone, Copy)]
enum Scheme {
    Bearer,
    Dpop,
    Other,
}

impl Scheme {
    fn of(name: &str) -> Self {
        match name {
            _ if name.eq_ignore_ascii_case("bearer") => Self::Bearer,
            _ if name.eq_ignore_ascii_case("dpop") => Self::Dpop,
            _ => Self::Other,
        }
    }
}

enum Part<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// Parses the next scheme or parameter, and removes it from `rest`.
fn next_part<'a>(rest: &mut &'a str) -> Option<Part<'a>> {
    let text = rest.trim_start_matches([',', ' ', '\t']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if text.is_empty() {
        return None;
    }
    let Some(value) = after.trim_start().strip_prefix('=') else {
        *rest = after;
        return Some(Part::Scheme(word));
    };
    let value = value.trim_start();
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value.find([',', ' ', '\t']).unwrap_or(value.len());
        let (value, after) = value.split_at(end);
        *rest = after;
        return Some(Part::Parameter(word, value.to_owned()));
    };
    let mut value = String::new();
    let mut escaped = false;
    for (position, character) in quoted.char_indices() {
        match character {
            '"' if !escaped => {
                *rest = &quoted[position + 1..];
                return Some(Part::Parameter(word, value));
            }
            '\\' if !escaped => escaped = true,
            other => {
                value.push(other);
                escaped = false;
            }
        }
    }
    *rest = "";
    Some(Part::Parameter(word, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> (Option<String>, Option<String>, Option<String>) {
        let Challenge { resource_metadata, scopes, error, .. } = Challenge::read(header);
        (resource_metadata, scopes.map(|scopes| scopes.join(" ")), error)
    }

    #[test]
    fn parameters_are_parsed_in_all_notations() {
        let text = |text: &str| Some(text.to_owned());
        let common = r#"Bearer realm="x, y", resource_metadata="https://h/.well-known/a", scope="read  write read", error="insufficient_scope""#;
        assert_eq!(read(common), (text("https://h/.well-known/a"), text("read write"), text("insufficient_scope")));
        assert_eq!(read(r#"bearer scope=read,error = "a\"b""#), (None, text("read"), text("a\"b")));
        assert_eq!(read(r#"Basic realm="scope=no", Bearer scope="yes", Digest scope="no""#).1, text("yes"));
        for nothing in ["", "Bearer", "Basic scope=\"x\"", ",,,", "Bearer scope", "\"", "= = ="] {
            assert_eq!(read(nothing), (None, None, None), "{nothing}");
        }
        assert_eq!(read("Bearer scope=\"open").1, text("open"));
    }

    #[test]
    fn the_schemes_that_a_server_accepts_are_known() {
        let schemes = |header: &str| {
            let challenge = Challenge::read(header);
            (challenge.accepts_bearer, challenge.accepts_dpop, challenge.requires_dpop())
        };
        assert_eq!(schemes("Bearer"), (true, false, false));
        assert_eq!(schemes(r#"dpop algs="ES256", error="use_dpop_nonce""#), (false, true, true));
        assert_eq!(schemes(r#"Bearer scope="a", DPoP algs="ES256""#), (true, true, false));
        assert_eq!(schemes("Basic realm=DPoP"), (false, false, false));
        let both = read(r#"Bearer error="invalid_token", scope="a", DPoP error="use_dpop_nonce""#);
        assert_eq!((both.1.as_deref(), both.2.as_deref()), (Some("a"), Some("use_dpop_nonce")));
    }
}
