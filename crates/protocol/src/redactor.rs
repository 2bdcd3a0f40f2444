//! Removes secrets from text that is stored or printed.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::Secret;

/// The text that replaces a secret.
pub const REDACTED: &str = "[secret]";
/// Minimum length of a secret in bytes. Shorter texts occur everywhere, and replacing them would damage the rest.
const MIN_SECRET_BYTES: usize = 6;

/// The known secrets of a process. Clones share them, so a token that is issued later is redacted too.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Secrets>>);

#[derive(Default)]
struct Secrets {
    known: Vec<Secret>,
    /// All spellings in text, longest first: one secret may contain another.
    spellings: Vec<String>,
}

impl Redactor {
    /// Creates a redactor with some secrets.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let redactor = Self::default();
        for secret in secrets {
            redactor.add(&secret);
        }
        redactor
    }

    /// Adds a secret, for all clones. Short ones are ignored. Of a header value such as `Bearer abcdef`, the token alone
    /// is a secret too.
    pub fn add(&self, secret: &Secret) {
        if secret.expose().trim().len() < MIN_SECRET_BYTES {
            return;
        }
        if self.0.read().unwrap_or_else(PoisonError::into_inner).known.contains(secret) {
            return;
        }
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let whole = secret.expose().trim();
        let token = without_scheme(whole).filter(|token| token.len() >= MIN_SECRET_BYTES);
        for spelling in [Some(whole), token].into_iter().flatten().flat_map(spellings) {
            if !secrets.spellings.contains(&spelling) {
                secrets.spellings.push(spelling);
            }
        }
        secrets.spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        secrets.known.push(secret.clone());
    }

    /// Replaces every secret in a text or in JSON.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = Cow::Borrowed(text);
        for spelling in &secrets.spellings {
            if text.contains(spelling.as_str()) {
                text = Cow::Owned(text.replace(spelling.as_str(), REDACTED));
            }
        }
        text
    }

    /// Returns how many bytes at the end of a text may be the beginning of a secret that continues in the next piece.
    pub fn incomplete_bytes(&self, text: &str) -> usize {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let unfinished = |spelling: &String| {
            let starts = text.char_indices().map(|(at, _)| &text[at..]);
            let mut starts = starts.filter(|rest| rest.len() < spelling.len());
            starts.find(|rest| spelling.starts_with(rest)).map_or(0, str::len)
        };
        secrets.spellings.iter().map(unfinished).max().unwrap_or(0)
    }
}

/// Omits the secrets.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(..)")
    }
}

/// Returns the token of a header value with an authentication scheme.
fn without_scheme(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let is_known = ["basic", "bearer", "dpop", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known.then(|| token.trim())
}

/// Returns a secret as it appears in text, in JSON, and in JSON inside of a JSON string.
fn spellings(secret: &str) -> [String; 3] {
    let in_json = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = in_json(secret);
    let twice = in_json(&once);
    [secret.to_owned(), once, twice]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_redacted_in_text_and_in_json_at_any_depth() {
        let redactor = Redactor::new([Secret::new("a \"quoted\" secret")]);
        let inner = serde_json::json!({"said": "a \"quoted\" secret"}).to_string();
        let outer = serde_json::json!({"inner": inner, "plain": "a \"quoted\" secret"}).to_string();
        let redacted = redactor.redact(&outer);
        assert!(!redacted.contains("quoted"), "{redacted}");
        assert_eq!(redacted.matches(REDACTED).count(), 2);
        assert_eq!(redactor.redact("it is a \"quoted\" secret."), "it is [secret].");
        assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok());
    }

    #[test]
    fn clones_share_secrets_and_a_longer_one_is_redacted_as_a_whole() {
        let redactor = Redactor::default();
        let clone = redactor.clone();
        for secret in ["token-1", "token-1-and-more", "short"] {
            clone.add(&Secret::new(secret));
        }
        assert_eq!(redactor.redact("token-1-and-more token-1 short"), "[secret] [secret] short");
        assert!(matches!(redactor.redact("nothing"), Cow::Borrowed(_)));
        assert!(!format!("{redactor:?}").contains("token"));
    }

    #[test]
    fn the_token_of_a_header_is_redacted_on_its_own() {
        let redactor = Redactor::new([Secret::new("Bearer abc123def"), Secret::new("correct horse")]);
        assert_eq!(redactor.redact("abc123def, Bearer abc123def, correct"), "[secret], [secret], correct");
    }

    #[test]
    fn the_beginning_of_a_secret_at_the_end_of_a_text_is_found() {
        let redactor = Redactor::new([Secret::new("grün-secret")]);
        assert_eq!(redactor.incomplete_bytes("it is grün"), "grün".len());
        assert_eq!(redactor.incomplete_bytes("it is gr"), 2);
        assert_eq!(redactor.incomplete_bytes("it is grün-secret"), 0);
        assert_eq!(redactor.incomplete_bytes("nothing"), "g".len());
    }
}
