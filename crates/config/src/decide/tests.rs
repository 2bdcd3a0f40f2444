use proptest::prelude::*;

use super::super::entry::Context;
use super::super::expand::Variables;
use super::super::file;
use super::*;

/// What is decided, whatever order it is told in.
fn decide(contents: &[(Scope, Content)]) -> Vec<String> {
    let rules = Rules::default();
    let approvals = Approvals::nothing();
    let root = Some(Path::new("/project"));
    let deciding = Deciding { order: &Scope::ALL, contents, root, approvals: &approvals, rules: &rules };
    let decided = deciding.decide(&[]);
    let servers = decided
        .servers
        .iter()
        .map(|found| format!("{} {} {:?}", found.server.scope, found.server.name, found.standing));
    let broken = decided.broken.iter().map(|found| format!("{} {} broken", found.scope, found.name));
    servers.chain(broken).collect()
}

/// A file of a scope, with names, addresses and switches that clash with those of other scopes.
fn content(scope: Scope) -> impl Strategy<Value = (Scope, Content)> {
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
        (
            scope,
            file::parse(Path::new("f"), &text, Context { scope, variables: &variables, base: None, to_keep: false }),
        )
    })
}

proptest! {
    #[test]
    fn the_order_in_which_scopes_are_told_makes_no_difference(
        contents in Scope::ALL.map(content),
        order in Just(vec![0usize, 1, 2, 3, 4, 5]).prop_shuffle(),
    ) {
        let shuffled: Vec<_> = order.iter().map(|index| contents[*index].clone()).collect();
        prop_assert_eq!(decide(&contents), decide(&shuffled));
    }
}
