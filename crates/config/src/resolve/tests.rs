use proptest::prelude::*;

use super::*;
use crate::entry::{EntryContext, ReadPurpose};
use crate::expand::Variables;
use crate::file;

/// Lists the resolved servers.
fn resolve(contents: &[(Scope, FileContent)]) -> Vec<String> {
    let rules = Rules::default();
    let approvals = Approvals::nothing();
    let root = Some(Path::new("/project"));
    let resolver = Resolver { order: &Scope::ALL, contents, root, approvals: &approvals, rules: &rules };
    let resolution = resolver.resolve(&[]);
    let servers = resolution
        .servers
        .iter()
        .map(|found| format!("{} {} {:?}", found.server.scope, found.server.name, found.eligibility));
    let invalid = resolution.invalid.iter().map(|found| format!("{} {} invalid", found.scope, found.name));
    servers.chain(invalid).collect()
}

/// Generates a file of a scope, with names, URLs and lists that clash with those of other scopes.
fn content(scope: Scope) -> impl Strategy<Value = (Scope, FileContent)> {
    let entry = prop_oneof![
        (0..3u8).prop_map(|host| format!(r#"{{"url": "https://h{host}.example"}}"#)),
        (0..2u8).prop_map(|arg| format!(r#"{{"command": "x", "args": ["{arg}"], "enabled": {}}}"#, arg == 0)),
        Just("{}".to_owned()),
    ];
    let entries = proptest::collection::btree_map(0..4u8, entry, 0..4);
    (entries, proptest::option::of(0..4u8), proptest::option::of(0..4u8)).prop_map(move |(entries, off, on)| {
        let entries: Vec<_> = entries.iter().map(|(name, entry)| format!(r#""s{name}": {entry}"#)).collect();
        let list = |name: Option<u8>| name.map(|name| format!(r#""s{name}""#)).unwrap_or_default();
        let text = format!(
            r#"{{"mcpServers": {{{}}}, "disabledServers": [{}], "enabledServers": [{}]}}"#,
            entries.join(","),
            list(off),
            list(on)
        );
        let variables = Variables::none();
        let context = EntryContext { scope, variables: &variables, base_dir: None, purpose: ReadPurpose::Run };
        (scope, file::parse(Path::new("f"), &text, context))
    })
}

proptest! {
    #[test]
    fn the_order_of_files_makes_no_difference(
        contents in Scope::ALL.map(content),
        order in Just(vec![0usize, 1, 2, 3, 4, 5]).prop_shuffle(),
    ) {
        let shuffled: Vec<_> = order.iter().map(|index| contents[*index].clone()).collect();
        prop_assert_eq!(resolve(&contents), resolve(&shuffled));
    }
}
