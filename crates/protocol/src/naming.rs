//! The tool names that models see: a pure function of a tool's identity, never parsed back.
//!
//! The form is `mcp__{server}__{tool}`, at most 64 characters of `[A-Za-z0-9_-]`. If that does not distinguish the
//! identity from every other identity, the name ends in `_` and eight hexadecimal digits of the identity's digest.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{ServerName, ToolRef};
use sha2::{Digest as _, Sha256};

/// Maximum length of a tool name that model APIs accept.
pub const MAX_NAME_LENGTH: usize = 64;
/// Prefix of every name of a server's tool, and of no other name.
pub const PREFIX: &str = "mcp__";
/// Separator between server and tool.
const SEPARATOR: &str = "__";
/// Number of hexadecimal digits of the digest in a name.
const DIGEST_DIGITS: usize = 8;
/// Minimum length of the server part when a name is shortened. The tool part is what the model reads.
const MIN_SERVER_LENGTH: usize = 8;

/// Returns the name that models see for a tool.
pub fn visible_name(identity: &ToolRef) -> Arc<str> {
    let ToolRef { server, tool } = identity;
    let plain_server = plain(server.as_str());
    let plain_tool = plain(tool);
    let whole = PREFIX.len() + plain_server.len() + SEPARATOR.len() + plain_tool.len();
    let is_ambiguous = matches!(plain_server, Cow::Owned(_))
        || matches!(plain_tool, Cow::Owned(_))
        || server.as_str().contains(SEPARATOR)
        || server.as_str().ends_with('_')
        || looks_digested(tool)
        || whole > MAX_NAME_LENGTH;
    if !is_ambiguous {
        return format!("{PREFIX}{plain_server}{SEPARATOR}{plain_tool}").into();
    }
    // All characters are ASCII here, so every byte is a valid place to cut.
    let room = MAX_NAME_LENGTH - PREFIX.len() - SEPARATOR.len() - 1 - DIGEST_DIGITS;
    let tool_left = plain_tool.len().min(room - plain_server.len().min(MIN_SERVER_LENGTH));
    let server_left = plain_server.len().min(room - tool_left);
    let server_left = &plain_server[..server_left];
    let tool_left = &plain_tool[..tool_left];
    format!("{PREFIX}{server_left}{SEPARATOR}{tool_left}_{}", digest(identity)).into()
}

/// Returns how the names of a server's tools begin, unless a name is too long for it. Only messages depend on it: a tool
/// is looked up by its whole name.
pub fn server_prefix(server: &ServerName) -> String {
    format!("{PREFIX}{}{SEPARATOR}", plain(server.as_str()))
}

/// Returns the command name of a server's prompt, by the same rule.
pub fn command_name(server: &ServerName, prompt: &str) -> Arc<str> {
    visible_name(&ToolRef { server: server.clone(), tool: prompt.into() })
}

/// Returns whether model APIs accept a name.
pub fn is_plain_name(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Replaces every character that is invalid in names by `_`. Borrows the text if all are valid.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let replaced = |c: char| if u8::try_from(c).is_ok_and(is_plain) { c } else { '_' };
    Cow::Owned(text.chars().map(replaced).collect())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns whether a tool's own name ends like a name with a digest.
fn looks_digested(tool: &str) -> bool {
    let Some((_, end)) = tool.rsplit_once('_') else { return false };
    end.len() == DIGEST_DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns eight digits that distinguish identities. A server name never contains a NUL, so the hashed text belongs to
/// one identity only.
fn digest(identity: &ToolRef) -> String {
    let digest: [u8; 32] = Sha256::digest(format!("{}\0{}", identity.server, identity.tool)).into();
    let (first, _) = digest.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    format!("{:08x}", u32::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn name(server: &str, tool: &str) -> String {
        visible_name(&ToolRef { server: server.parse().unwrap(), tool: tool.into() }).to_string()
    }

    #[test]
    fn a_plain_name_is_server_and_tool() {
        assert_eq!(name("github", "search"), "mcp__github__search");
        assert_eq!(name("a", "_x__y_"), "mcp__a___x__y_");
        assert_eq!(name("a", "deadbeef"), "mcp__a__deadbeef");
        assert_eq!(&*command_name(&"github".parse().unwrap(), "review"), "mcp__github__review");
    }

    #[test]
    fn an_ambiguous_name_ends_in_a_digest() {
        insta::assert_snapshot!([
            name("my.server", "search"),
            name("a__b", "search"),
            name("a_", "search"),
            name("a", "find_deadbeef"),
            name("files", "read file"),
            name("files", "lire_é"),
            name("a-server-with-a-long-name", "a_tool_with_a_name_of_more_than_sixty_four_characters_in_all"),
            name("a-server-with-a-long-name-that-goes-on", "a_tool_that_stays_whole_when_cut"),
        ].join("\n"), @"
        mcp__my_server__search_4f7bd05c
        mcp__a__b__search_c0260e76
        mcp__a___search_630cfbcd
        mcp__a__find_deadbeef_dc8fbd07
        mcp__files__read_file_d8793cb6
        mcp__files__lire___9a58f304
        mcp__a-server__a_tool_with_a_name_of_more_than_sixty_fo_62cb81c6
        mcp__a-server-with-a-__a_tool_that_stays_whole_when_cut_bb7b32d9
        ");
    }

    /// Names that aim for collisions: few pieces combined in many ways.
    fn aimed() -> impl Strategy<Value = (String, String)> {
        let piece = prop::sample::select(vec!["a", "b", "_", "__", "-", ".", "deadbeef", "_0a1b2c3d", "mcp__"]);
        let server = prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat());
        let bit =
            prop::sample::select(vec!["a", "b", "_", "__", " ", "é", "é", "/", "deadbeef", "_0a1b2c3d", "_DEADBEEF"]);
        let long = prop_oneof![Just(0_usize), 40..70_usize];
        let tool = (prop::collection::vec(bit, 1..6), long, 0..3_usize)
            .prop_map(|(bits, long, end)| format!("{}{}{}", bits.concat(), "x".repeat(long), "y".repeat(end)));
        (server, tool)
    }

    proptest! {
        #[test]
        fn two_identities_never_share_a_name(pairs in prop::collection::hash_set(aimed(), 2..60)) {
            let mut seen: HashMap<String, (String, String)> = HashMap::new();
            // The resulting names are used as tool names too: a look-alike is the worst case.
            let digested: Vec<(String, String)> = pairs.iter().filter_map(|(server, tool)| {
                let visible = name(server, tool);
                let (server, tool) = visible.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
                (!server.is_empty() && !tool.is_empty()).then(|| (server.to_owned(), tool.to_owned()))
            }).collect();
            let all: std::collections::HashSet<_> = pairs.into_iter().chain(digested).collect();
            for (server, tool) in all {
                let visible = name(&server, &tool);
                prop_assert!(is_plain_name(&visible), "{}", visible);
                prop_assert!(visible.starts_with(PREFIX));
                if let Some(other) = seen.insert(visible.clone(), (server.clone(), tool.clone())) {
                    prop_assert!(false, "{:?} and {:?} are both {}", other, (server, tool), visible);
                }
            }
        }
    }
}
