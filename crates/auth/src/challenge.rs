//! Parses the `WWW-Authenticate` header.

/// A bearer token challenge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the protected resource metadata (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The required scopes.
    pub scopes: Option<Vec<String>>,
    /// The error code for the token that was sent.
    pub error: Option<String>,
}

impl Challenge {
    /// Parses the first bearer challenge. Without one, all fields are `None`.
    pub fn read(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = header;
        let mut is_bearer = false;
        while let Some(part) = next_part(&mut rest) {
            match part {
                Part::Scheme(scheme) if is_bearer && !scheme.is_empty() => break,
                Part::Scheme(scheme) => is_bearer = scheme.eq_ignore_ascii_case("bearer"),
                Part::Parameter(..) if !is_bearer => {}
                Part::Parameter(name, value) => match name.to_ascii_lowercase().as_str() {
                    "resource_metadata" => challenge.resource_metadata = Some(value),
                    "scope" => challenge.scopes = Some(unique_words(&value)),
                    "error" => challenge.error = Some(value),
                    _ => {}
                },
            }
        }
        challenge
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
        let Challenge { resource_metadata, scopes, error } = Challenge::read(header);
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
}
