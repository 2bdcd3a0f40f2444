//! The normalized form of a path or URL in an argument.
//!
//! `/tmp/../etc/passwd` and `/etc/passwd` are the same file, so a rule about one holds for the other. Only the text is
//! known here: symbolic links and names that a server interprets itself are not resolved.

use wharf_io::percent;

/// Returns the normalized form of a text that begins like a path or a URL, if it differs from the text.
pub(super) fn normalized(text: &str) -> Option<String> {
    let trimmed = text.trim();
    let form = match scheme(trimmed) {
        Some(("file", rest)) => path(&percent::decode(without_host(rest))),
        Some((_, rest)) => url(trimmed, rest)?,
        None if is_path(trimmed) => path(trimmed),
        None => return None,
    };
    (form != text).then_some(form)
}

/// Whether a path leaves the folder that it is relative to.
pub(super) fn is_outside(path: &str) -> bool {
    path == ".." || path.starts_with("../")
}

/// Returns the scheme of a URL, in lower case if it is `file`, and what follows its colon.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    if scheme.eq_ignore_ascii_case("file") {
        return Some(("file", rest));
    }
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (is_scheme && rest.starts_with("//")).then_some((scheme, rest))
}

/// Returns the path of a file URL without its host, its query and its fragment.
fn without_host(rest: &str) -> &str {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => rest,
    };
    &path[..path.find(['?', '#']).unwrap_or(path.len())]
}

/// Returns a URL with its dot segments resolved; `None` if it has none.
fn url(text: &str, rest: &str) -> Option<String> {
    let start = text.len() - rest.len() + "//".len();
    let start = start + text[start..].find(['/', '?', '#'])?;
    let end = text[start..].find(['?', '#']).map_or(text.len(), |at| start + at);
    let segments: Vec<String> = text[start..end].split('/').map(percent::decode_unreserved).collect();
    if !segments.iter().any(|segment| is_dots(segment)) {
        return None;
    }
    Some(format!("{}{}{}", &text[..start], path(&segments.join("/")), &text[end..]))
}

fn is_path(text: &str) -> bool {
    let has_empty_segment = || text.contains("//") && !text.contains(char::is_whitespace);
    text.starts_with(['/', '~']) || text.split('/').any(is_dots) || has_empty_segment()
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Returns a path without empty segments, `.` and `..`. A relative path that leaves its folder begins with `..`.
fn path(text: &str) -> String {
    let is_absolute = text.starts_with('/');
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match (segment, segments.last()) {
            ("" | ".", _) => {}
            ("..", Some(&"..")) => segments.push(".."),
            // What is above a home folder is unknown.
            ("..", Some(home)) if home.starts_with('~') && segments.len() == 1 && !is_absolute => segments = vec![".."],
            ("..", Some(_)) => drop(segments.pop()),
            ("..", None) if is_absolute => {}
            (segment, _) => segments.push(segment),
        }
    }
    let is_folder = text.rsplit('/').next().is_some_and(|last| last.is_empty() || is_dots(last));
    let mut path = if is_absolute { String::from("/") } else { String::new() };
    path.push_str(&segments.join("/"));
    if is_folder && !segments.is_empty() {
        path.push('/');
    }
    if path.is_empty() {
        path.push('.');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_have_one_form() {
        for (text, form) in [
            ("//etc/passwd", "/etc/passwd"),
            ("/./etc/passwd", "/etc/passwd"),
            ("/tmp/../etc/passwd", "/etc/passwd"),
            ("/../../etc/passwd", "/etc/passwd"),
            (" /etc/passwd", "/etc/passwd"),
            ("\t/etc/passwd\n", "/etc/passwd"),
            ("/etc/.", "/etc/"),
            ("/etc//", "/etc/"),
            ("/..", "/"),
            ("file:///etc/passwd", "/etc/passwd"),
            ("FILE://localhost/tmp/%2e%2E/etc/passwd", "/etc/passwd"),
            ("file:/etc/passwd?x#y", "/etc/passwd"),
            ("src/../../x", "../x"),
            ("../../x", "../../x"),
            ("./x", "x"),
            ("src//x", "src/x"),
            ("a/..", "."),
            ("~/../x", "../x"),
            ("~/a/../b", "~/b"),
            ("https://a.test/b/%2e%2e/c/../d?e=../f", "https://a.test/d?e=../f"),
        ] {
            assert_eq!(normalized(text).as_deref().unwrap_or(text), form, "{text}");
        }
    }

    #[test]
    fn other_texts_have_no_other_form() {
        for text in [
            "",
            " ",
            "a // b",
            "a..b",
            "and/or",
            "/etc/passwd",
            "~/x",
            "https://a.test//b",
            "https://a.test",
            "C:\\x",
            "note: //x",
            "1.5",
            "...",
        ] {
            assert_eq!(normalized(text), None, "{text}");
        }
    }
}
