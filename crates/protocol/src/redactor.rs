//! Removes secrets from text that is stored or printed.

mod strings;
mod unescape;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::Secret;
use strings::strings;
use unescape::Unescaped;

/// The text that replaces a secret.
pub const REDACTED: &str = "[secret]";
/// Minimum length of a secret in bytes. Shorter texts occur everywhere, and replacing them would damage the rest.
const MIN_SECRET_BYTES: usize = 6;
/// What ends a text that was cut.
const CUT_MARK: char = '…';
/// The shortest beginning of a secret, in bytes, that is removed where a text was cut. A shorter one is any word.
const MIN_CUT_BYTES: usize = 4;
/// How many levels of JSON in strings of JSON are searched. Each level may spell characters as escapes in its own way.
const MAX_ESCAPE_LEVELS: usize = 3;

/// The known secrets of a process. Clones share them, so a token that is issued later is redacted too.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Secrets>>);

#[derive(Default)]
struct Secrets {
    known: Vec<Secret>,
    /// All spellings in text.
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
        // A server may print a secret of several lines, such as a key file, line by line. The first and last line of such a
        // file only name its kind.
        let is_content = |line: &&str| line.len() >= MIN_SECRET_BYTES && !line.starts_with("-----");
        let lines = whole.lines().map(str::trim).filter(is_content).filter(|line| *line != whole);
        for spelling in [Some(whole), token].into_iter().flatten().chain(lines).flat_map(spellings) {
            if !secrets.spellings.contains(&spelling) {
                secrets.spellings.push(spelling);
            }
        }
        secrets.known.push(secret.clone());
    }

    /// Replaces every secret in a text, also one that was cut with the text: where the text ends with `…`. JSON text has its own function, [`redact_json`](Self::redact_json).
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        secrets.find(text, 0, &mut found);
        if text.contains('\\') {
            secrets.find_escaped(text, 0, &mut found);
        }
        replaced(text, found)
    }

    /// Replaces every secret in the strings of JSON text, however they are escaped, and copies all other bytes. Words
    /// that a format may define stay: keys without digits, and values such as that of `"type":"text"`.
    pub fn redact_json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let secrets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if secrets.spellings.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut found = Vec::new();
        for (start, string) in strings(text) {
            // A match must not begin within an escape: it would leave half of it.
            if string.contains('\\') {
                secrets.find_escaped(string, start, &mut found);
            } else {
                secrets.find(string, start, &mut found);
            }
        }
        replaced(text, found)
    }

    /// Returns how many bytes at the end of a text may be the beginning of a secret that continues in the next piece.
    pub fn incomplete_bytes(&self, text: &str) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).incomplete_bytes(text)
    }
}

impl Secrets {
    /// Finds the secrets in a text that starts at `start`.
    fn find(&self, text: &str, start: usize, found: &mut Vec<Range<usize>>) {
        for spelling in &self.spellings {
            let matches = text.match_indices(spelling.as_str());
            found.extend(matches.map(|(at, _)| start + at..start + at + spelling.len()));
        }
        if let Some(text) = text.strip_suffix(CUT_MARK) {
            let cut = self.incomplete_bytes(text);
            if cut >= MIN_CUT_BYTES {
                found.push(start + text.len() - cut..start + text.len());
            }
        }
    }

    /// Returns how many bytes at the end of a text may be the beginning of a secret.
    fn incomplete_bytes(&self, text: &str) -> usize {
        let unfinished = |spelling: &String| {
            let first = text.len().saturating_sub(spelling.len());
            let starts = text.char_indices().skip_while(|(at, _)| *at < first).map(|(at, _)| &text[at..]);
            let mut starts = starts.filter(|rest| rest.len() < spelling.len());
            starts.find(|rest| spelling.starts_with(rest)).map_or(0, str::len)
        };
        self.spellings.iter().map(unfinished).max().unwrap_or(0)
    }

    /// Finds the secrets in a text that starts at `start`, behind one or more levels of escapes.
    fn find_escaped(&self, text: &str, start: usize, found: &mut Vec<Range<usize>>) {
        if self.spellings.is_empty() {
            return;
        }
        let mut unescaped = Unescaped::new(text);
        for _ in 0..MAX_ESCAPE_LEVELS {
            let mut spans = Vec::new();
            self.find(unescaped.text(), 0, &mut spans);
            found.extend(spans.into_iter().map(|span| {
                let span = unescaped.original(&span);
                start + span.start..start + span.end
            }));
            if !unescaped.text().contains('\\') {
                break;
            }
            unescaped = unescaped.again();
        }
    }
}

/// Replaces parts of a text. Parts that overlap are replaced as one.
fn replaced(text: &str, mut parts: Vec<Range<usize>>) -> Cow<'_, str> {
    if parts.is_empty() {
        return Cow::Borrowed(text);
    }
    parts.sort_by_key(|part| part.start);
    let mut result = String::with_capacity(text.len());
    let mut copied = 0;
    for part in parts {
        if part.start >= copied {
            result.push_str(&text[copied..part.start]);
            result.push_str(REDACTED);
        }
        copied = copied.max(part.end);
    }
    result.push_str(&text[copied..]);
    Cow::Owned(result)
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
    use proptest::prelude::*;

    #[test]
    fn each_line_of_a_secret_is_one() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nBKcwggSjAgEA\n-----END PRIVATE KEY-----";
        let redactor = Redactor::new([Secret::new(key)]);
        assert_eq!(redactor.redact("key: MIIEvQIBADANBg"), "key: [secret]");
        assert_eq!(redactor.redact("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(redactor.redact(key), "[secret]");
    }

    #[test]
    fn a_secret_is_redacted_in_text_and_in_json_at_any_depth() {
        let redactor = Redactor::new([Secret::new("a \"quoted\" secret")]);
        let inner = serde_json::json!({"said": "a \"quoted\" secret"}).to_string();
        let outer = serde_json::json!({"inner": inner, "plain": "a \"quoted\" secret"}).to_string();
        let redacted = redactor.redact_json(&outer);
        assert!(!redacted.contains("quoted"), "{redacted}");
        assert_eq!(redacted.matches(REDACTED).count(), 2);
        assert_eq!(redactor.redact("it is a \"quoted\" secret."), "it is [secret].");
        assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok());
    }

    #[test]
    fn a_secret_is_redacted_however_its_json_is_escaped() {
        let redactor = Redactor::new([Secret::new("ab/cd/größe+1234")]);
        for (text, redacted) in [
            (r#"{"a": "x ab\/cd\/größe+1234 \/", "b":1.50}"#, r#"{"a": "x [secret] \/", "b":1.50}"#),
            (r#"["ab/cd/gr\u00f6\u00DFe\u002B1234"]"#, r#"["[secret]"]"#),
            // JSON in a string of JSON, on two levels.
            (r#"["{\"a\":\"ab\\/cd\\/gr\\u00f6\\u00dfe+1234\"}"]"#, r#"["{\"a\":\"[secret]\"}"]"#),
            (r#"["[\"[\\\"ab\\\\/cd/größe+1234\\\"]\"]"]"#, r#"["[\"[\\\"[secret]\\\"]\"]"]"#),
            // A surrogate pair, and half of one.
            (r#""gr\ud83d\ude00 \ud83d ab/cd/größe\u002b1234""#, r#""gr\ud83d\ude00 \ud83d [secret]""#),
        ] {
            assert_eq!(redactor.redact_json(text), redacted);
        }
        assert_eq!(redactor.redact(r"it wrote ab\/cd\/größe\u002b1234 \o/"), r"it wrote [secret] \o/");
        let untouched = r#"{"ab\/cd":"\u00f6", "x" : [1.50 , "\\"]}"#;
        assert!(matches!(redactor.redact_json(untouched), Cow::Borrowed(_)));
        // A secret that seems to begin within an escape is not there.
        assert_eq!(Redactor::new([Secret::new("nabcdef")]).redact_json(r#""\nabcdef""#), r#""\nabcdef""#);
    }

    proptest! {
        #[test]
        fn json_stays_json_and_no_string_has_the_secret(
            secret in r#"[a-c/"\\\nü😀]{6,9}"#, around in r#"[a-c/"\\\nü😀]{0,6}"#, escaped: u64, levels in 1..3_usize,
        ) {
            prop_assume!(secret.trim().len() == secret.len());
            let mut text = format!("{around}{secret}{around}");
            for _ in 0..levels {
                let mut json = String::new();
                for (index, c) in text.chars().enumerate() {
                    match c {
                        '/' if escaped >> (index % 64) & 1 == 1 => json.push_str("\\/"),
                        _ if escaped >> (index % 64) & 1 == 1 => {
                            json.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")));
                        }
                        _ => {
                            let quoted = serde_json::Value::from(c.to_string()).to_string();
                            json.push_str(&quoted[1..quoted.len() - 1]);
                        }
                    }
                }
                text = format!("\"{json}\"");
            }
            let redacted = Redactor::new([Secret::new(&*secret)]).redact_json(&text).into_owned();
            let mut decoded: String = serde_json::from_str(&redacted).unwrap();
            for _ in 1..levels {
                decoded = serde_json::from_str(&decoded).unwrap_or(decoded);
            }
            prop_assert!(!decoded.contains(&secret), "{} in {}", secret, redacted);
        }
    }

    #[test]
    fn words_of_a_format_stay_and_the_same_words_in_text_are_redacted() {
        let words = ["content", "assistant", "result", "stop_reason"];
        let redactor = Redactor::new(words.map(Secret::new).into_iter().chain([Secret::new("tok-12345")]));
        let text = r#"{"role":"assistant","content" : [{"type": "tool_result","text":"the assistant's content"}],
            "stop_reason":"tok-12345","tok-12345":"result","name":"content"}"#;
        let redacted = r#"{"role":"assistant","content" : [{"type": "tool_result","text":"the [secret]'s [secret]"}],
            "stop_reason":"[secret]","[secret]":"[secret]","name":"[secret]"}"#;
        assert_eq!(redactor.redact_json(text), redacted);
    }

    #[test]
    fn clones_share_secrets_and_a_longer_one_is_redacted_as_a_whole() {
        let redactor = Redactor::default();
        let clone = redactor.clone();
        for secret in ["token-1", "token-1-and-more", "short"] {
            clone.add(&Secret::new(secret));
        }
        assert_eq!(redactor.redact("token-1-and-more token-1 short"), "[secret] [secret] short");
        assert_eq!(redactor.redact("token-1token-1"), "[secret][secret]");
        assert!(matches!(redactor.redact("nothing"), Cow::Borrowed(_)));
        assert!(!format!("{redactor:?}").contains("token"));
    }

    #[test]
    fn the_token_of_a_header_is_redacted_on_its_own() {
        let redactor = Redactor::new([Secret::new("Bearer abc123def"), Secret::new("correct horse")]);
        assert_eq!(redactor.redact("abc123def, Bearer abc123def, correct"), "[secret], [secret], correct");
    }

    #[test]
    fn a_secret_that_was_cut_with_its_text_is_redacted() {
        let redactor = Redactor::new([Secret::new("sk-live/ab\"cdef")]);
        assert_eq!(redactor.redact("key=sk-live…"), "key=[secret]…");
        assert_eq!(redactor.redact("key=sk-live/ab\"cde…"), "key=[secret]…");
        assert_eq!(redactor.redact("risk…"), "risk…");
        assert_eq!(redactor.redact("key=sk-live"), "key=sk-live", "a whole text is not cut");
        let json = serde_json::json!({"stderr": ["key=sk-live/ab\"c…", "\nrisk…"]}).to_string();
        assert_eq!(redactor.redact_json(&json), r#"{"stderr":["key=[secret]…","\nrisk…"]}"#);
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
