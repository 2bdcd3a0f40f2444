//! Server names as files spell them. Other hosts allow any text as a name.

use wharf_protocol::ServerName;

use crate::hidden_chars::looks_like;

/// Maximum length of a name.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// Returns the name of the server under a key of a file: the key itself, or the key with `-` in place of spaces and other
/// invalid ASCII characters. `None` for a key that a reader could take for another one, or that contains no name.
pub(crate) fn server_name(key: &str) -> Option<ServerName> {
    if let Ok(name) = key.parse() {
        return Some(name);
    }
    let is_visible = key.trim() == key && key.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    if !is_visible || key.len() > MAX_NAME_BYTES {
        return None;
    }
    plain(key).parse().ok()
}

/// Whether a key of a file, or a name in one of its lists, means a server.
pub(crate) fn means(key: &str, server: &str) -> bool {
    key == server || server_name(key).is_some_and(|name| name.as_str() == server)
}

/// The note on a server whose name differs from its key.
pub(crate) fn renamed(name: &str) -> String {
    format!("renamed to `{name}`: names consist of letters, digits, `_`, `.` and `-`")
}

/// Returns a valid name that is close to an invalid one.
pub(crate) fn valid_name(name: &str) -> Option<ServerName> {
    looks_like(name).or_else(|| plain(name).parse().ok())
}

/// Replaces the characters that names of servers do not have, and cuts the name; empty if it has no letter and no digit.
pub fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let words: Vec<&str> = name.split(|c| !allowed(c)).filter(|word| !word.is_empty()).collect();
    let mut plain = words.join("-");
    plain.truncate(MAX_NAME_BYTES);
    if plain.chars().any(|c| c.is_ascii_alphanumeric()) { plain } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_spaces_name_a_server_and_deceptive_keys_do_not() {
        let name = |key: &str| server_name(key).map(|name| name.to_string());
        assert_eq!(name("github").as_deref(), Some("github"));
        assert_eq!(name("My Server").as_deref(), Some("My-Server"));
        assert_eq!(name("plugin:docs/search").as_deref(), Some("plugin-docs-search"));
        for key in
            ["", " github", "github ", "git\u{a0}hub", "gіthub", "git\nhub", "git\thub", "/ /", &"long ".repeat(20)]
        {
            assert_eq!(name(key), None, "{key:?}");
        }
        assert!(means("My Server", "My-Server") && means("a", "a") && !means("My Server", "My"));
    }

    #[test]
    fn an_invalid_name_suggests_a_valid_one() {
        let valid = |name: &str| valid_name(name).map(String::from);
        assert_eq!(valid("my server!").as_deref(), Some("my-server"));
        assert_eq!(valid("@scope/pkg").as_deref(), Some("scope-pkg"));
        assert_eq!(valid(&"é".repeat(3)), None);
        assert_eq!(valid(&"x".repeat(100)).map(|name| name.len()), Some(64));
    }
}
