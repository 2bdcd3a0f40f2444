//! Expands variables: `${VAR}` and `${VAR:-default}`.
//!
//! `$VAR`, `$(…)` and backquotes are plain text, since no shell is involved. `$${` is a literal `${`. `${env:VAR}`,
//! which other hosts write, means `${VAR}`.

use std::collections::BTreeMap;
use std::fmt;

/// How much of an invalid reference appears in messages.
const MAX_SHOWN_CHARS: usize = 12;

/// Variables for `${NAME}` references in a configuration. Messages and `Debug` output never contain their values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

/// Why a text cannot be expanded. Contains names only, never values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    /// The variable is not set and has no default.
    Unset(String),
    /// A `${` without a `}`, or with an invalid name. Holds only the beginning: the rest may be part of a secret.
    Malformed(String),
}

impl Variables {
    /// Returns an empty set.
    pub fn none() -> Self {
        Self::default()
    }

    /// Replaces all variables of a text. Values are not expanded again.
    pub(crate) fn expand(&self, text: &str) -> Result<String, ExpandError> {
        let mut expanded = String::with_capacity(text.len());
        for part in parts(text) {
            match part {
                Part::Plain(plain) => expanded.push_str(plain),
                Part::Variable { name, default } => match (self.0.get(name).filter(|value| !value.is_empty()), default)
                {
                    (Some(value), _) => expanded.push_str(value),
                    (None, Some(default)) => expanded.push_str(default),
                    // An empty variable is set; only a default takes precedence over it.
                    (None, None) if self.0.contains_key(name) => {}
                    (None, None) => return Err(ExpandError::Unset(name.to_owned())),
                },
                Part::Malformed(found) => return Err(ExpandError::Malformed(prefix_of(found))),
            }
        }
        Ok(expanded)
    }
}

/// Escapes a text, so that expanding it returns it unchanged.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// Replaces the variables of a text with what another host writes for them, and the rest with what it writes for plain
/// text; fails with the beginning of a malformed reference.
pub(crate) fn translate(
    text: &str,
    mut plain: impl FnMut(&str) -> String,
    mut variable: impl FnMut(&str, Option<&str>) -> String,
) -> Result<String, String> {
    let mut translated = String::new();
    for part in parts(text) {
        match part {
            Part::Plain(text) => translated.push_str(&plain(text)),
            Part::Variable { name, default } => translated.push_str(&variable(name, default)),
            Part::Malformed(found) => return Err(prefix_of(found)),
        }
    }
    Ok(translated)
}

/// Returns the names of the variables in a text.
pub(crate) fn variable_names(text: &str) -> impl Iterator<Item = &str> {
    parts(text).into_iter().filter_map(|part| if let Part::Variable { name, .. } = part { Some(name) } else { None })
}

enum Part<'a> {
    Plain(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
    Malformed(&'a str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find("${") {
        let (before, from) = rest.split_at(dollar);
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([Part::Plain(before), Part::Plain("${")]);
            rest = &from[2..];
            continue;
        }
        parts.push(Part::Plain(before));
        let Some(end) = from.find('}') else {
            parts.push(Part::Malformed(from));
            return parts;
        };
        let inner = &from[2..end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        parts.push(if is_name(name) { Part::Variable { name, default } } else { Part::Malformed(&from[..=end]) });
        rest = &from[end + 1..];
    }
    parts.push(Part::Plain(rest));
    parts
}

/// Returns what messages show of an invalid reference: the start of a possible name and no more.
fn prefix_of(found: &str) -> String {
    let inner = found.strip_prefix("${").unwrap_or(found);
    if inner.starts_with("input:") {
        return "${input:…".to_owned();
    }
    let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    format!("${{{}…", inner.chars().take_while(word).take(MAX_SHOWN_CHARS).collect::<String>())
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Result<&str, ExpandError>) {
        let variables: Variables =
            [("HOST", "example.com"), ("EMPTY", ""), ("TRICKY", "${HOST}")].into_iter().collect();
        assert_eq!(variables.expand(text), expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn variables_and_defaults_are_expanded() {
        check("https://${HOST}/mcp", Ok("https://example.com/mcp"));
        check("${HOST}${HOST}", Ok("example.comexample.com"));
        check("${PORT:-8080}", Ok("8080"));
        check("${HOST:-other}", Ok("example.com"));
        check("${EMPTY:-other}", Ok("other"));
        check("${EMPTY}", Ok(""));
        check("${NONE:-}", Ok(""));
        check("${env:HOST}", Ok("example.com"));
        check("${URL:-http://a:1/b}", Ok("http://a:1/b"));
    }

    #[test]
    fn shell_syntax_is_plain_text() {
        check("$HOST $(id) `id` $", Ok("$HOST $(id) `id` $"));
        check("$${HOST}", Ok("${HOST}"));
        check("a}b", Ok("a}b"));
    }

    #[test]
    fn values_are_not_expanded_again() {
        check("${TRICKY}", Ok("${HOST}"));
    }

    #[test]
    fn errors_name_the_variable() {
        check("${TOKEN}", Err(ExpandError::Unset("TOKEN".into())));
        check("x${HOST", Err(ExpandError::Malformed("${HOST…".into())));
        check("${}", Err(ExpandError::Malformed("${…".into())));
        check("${input:token}", Err(ExpandError::Malformed("${input:…".into())));
        check("${1}", Err(ExpandError::Malformed("${1…".into())));
        check("pa${ss-w0rd", Err(ExpandError::Malformed("${ss…".into())));
    }

    proptest! {
        #[test]
        fn expanding_never_panics_and_shows_no_values(text in r"([$]|[{]|[}]|:|-|HOST|é|\\|env:){0,12}") {
            let variables: Variables = [("HOST", "s3cret")].into_iter().collect();
            if let Err(error) = variables.expand(&text) {
                let debug = format!("{error:?}");
                prop_assert!(!debug.contains("s3cret"));
            }
            let _ = variable_names(&text).count();
        }

        #[test]
        fn a_literal_expands_to_itself(text in r"([$]|[{]|[}]|:|-|HOST|é|\\|env:){0,12}") {
            let variables: Variables = [("HOST", "s3cret")].into_iter().collect();
            prop_assert_eq!(variables.expand(&literal(&text)), Ok(text));
        }

        #[test]
        fn text_without_variables_is_unchanged(text in r"[^$]{0,20}") {
            prop_assert_eq!(Variables::none().expand(&text), Ok(text));
        }
    }
}
