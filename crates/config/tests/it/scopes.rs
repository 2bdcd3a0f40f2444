//! Which scope takes precedence.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use proptest::prelude::*;
use wharf_config::{
    Approvals, DisabledBy, Eligibility, OAuthSettings, RemoteConfig, Scope, Server, Severity, Sources, StdioConfig,
    TransportConfig, Variables, cloud_allowed, load,
};
use wharf_protocol::Secret;

use super::{Machine, list, one};

/// The same name in all six scopes, each with its own URL.
fn everywhere() -> Machine {
    let entry = |scope: &str| one(&format!(r#"{{"url": "https://{scope}.example"}}"#));
    let mut machine = Machine::new()
        .enterprise(&entry("enterprise"))
        .local(&entry("local"))
        .user(&entry("user"))
        .project(&entry("project"))
        .cloud(&entry("cloud"));
    machine.sources.dynamic = vec![remote("x", "https://dynamic.example")];
    machine.approve_all();
    machine
}

fn remote(name: &str, url: &str) -> Server {
    let remote =
        RemoteConfig { url: url.into(), headers: Vec::new(), headers_helper: None, oauth: OAuthSettings::default() };
    Server::new(name.parse().unwrap(), Scope::Dynamic, TransportConfig::Http(remote))
}

fn winner(machine: &Machine) -> Scope {
    let loaded = machine.load();
    let ready: Vec<_> = loaded.ready().map(|server| server.scope).collect();
    assert_eq!(ready.len(), 1, "{}", list(&loaded));
    assert_eq!(loaded.find("x").unwrap().server.scope, ready[0]);
    ready[0]
}

#[test]
fn the_highest_scope_with_a_name_wins() {
    let mut machine = everywhere();
    let remove = |file: &str, machine: &Machine| std::fs::remove_file(machine.path(file)).unwrap();
    assert_eq!(winner(&machine), Scope::Enterprise);
    assert_snapshot!(machine.list(), @r"
    enterprise x ready
    local x shadowed by enterprise
    user x shadowed by enterprise
    project x shadowed by enterprise
    dynamic x shadowed by enterprise
    ");
    remove("managed.json", &machine);
    assert_eq!(winner(&machine), Scope::Local);
    remove("local.json", &machine);
    assert_eq!(winner(&machine), Scope::User);
    remove("user.json", &machine);
    assert_eq!(winner(&machine), Scope::Project);
    remove("project/.mcp.json", &machine);
    assert_eq!(winner(&machine), Scope::Dynamic);
    machine.sources.dynamic.clear();
    assert_eq!(winner(&machine), Scope::Cloud);
}

#[test]
fn a_shadowed_server_is_reported() {
    let machine = Machine::new().local(&one(r#"{"command": "a"}"#)).user(&one(r#"{"command": "b"}"#));
    assert_snapshot!(machine.problems(Severity::Note), @"warning: user.json:2: mcpServers.x: not used: the local scope has a server with the same name");
}

#[test]
fn the_order_of_scopes_is_configurable() {
    let mut machine = everywhere();
    machine.sources.order = vec![Scope::Project, Scope::User];
    assert_eq!(winner(&machine), Scope::Project);
}

#[test]
fn an_enterprise_file_disables_providers() {
    let machine = Machine::new().cloud(&one(r#"{"url": "https://a.example"}"#));
    assert!(cloud_allowed(&machine.sources) && machine.load().cloud_allowed);
    assert_eq!(machine.list(), "cloud x ready");
    for text in ["{}", "", "no JSON", r#"{"mcpServers": {}}"#] {
        let machine = Machine::new().cloud(&one(r#"{"url": "https://a.example"}"#)).enterprise(text);
        assert!(!cloud_allowed(&machine.sources) && !machine.load().cloud_allowed, "{text}");
        assert_eq!(machine.list(), "", "{text}");
        assert!(machine.problems(Severity::Warning).contains("ignored: an enterprise file exists"));
    }
}

#[test]
fn a_provider_cannot_start_processes_or_read_variables() {
    let machine = Machine::new()
        .variables(&[("TOKEN", "s3cr3t")])
        .cloud(r#"{"mcpServers": {"a": {"command": "id"}, "b": {"url": "https://b.example/${TOKEN}"}, "c": {"url": "https://c.example"},
            "d": {"url": "https://d.example", "headersHelper": "id"}}, "policy": {}, "exclusive": true}"#);
    assert_eq!(machine.list(), "cloud c ready\ncloud a broken\ncloud b broken\ncloud d broken");
    assert!(machine.load().policy.is_empty());
}

#[test]
fn enterprise_files_are_combined_and_the_first_one_wins() {
    let mut machine = Machine::new()
        .enterprise(&one(r#"{"command": "fixed"}"#))
        .write("added.json", r#"{"mcpServers": {"x": {"command": "added"}, "y": {"command": "y"}}}"#);
    machine.sources.enterprise.push(machine.path("added.json"));
    assert_eq!(machine.list(), "enterprise x ready\nenterprise x shadowed by enterprise\nenterprise y ready");
}

#[test]
fn the_same_url_in_two_scopes_is_one_server() {
    let machine = Machine::new()
        .local(r#"{"mcpServers": {"a": {"url": "https://a.example/mcp", "headers": {"K": "1"}}}}"#)
        .user(r#"{"mcpServers": {"b": {"url": "HTTPS://A.example:443/mcp/#x"}, "c": {"url": "https://a.example/other"}}}"#);
    assert_eq!(machine.list(), "local a ready\nuser b duplicate of a\nuser c ready");
}

#[test]
fn two_accounts_at_one_url_are_two_servers_within_a_scope() {
    let machine = Machine::new().user(
        r#"{"mcpServers": {
            "work": {"url": "https://a.example", "headers": {"K": "1"}},
            "home": {"url": "https://a.example", "headers": {"K": "2"}},
            "again": {"url": "https://a.example", "headers": {"K": "2"}}}}"#,
    );
    assert_eq!(machine.list(), "user work ready\nuser home ready\nuser again duplicate of home");
}

#[test]
fn processes_are_duplicates_if_command_arguments_and_environment_are_equal() {
    let machine = Machine::new()
        .local(r#"{"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"K": "v"}}}}"#)
        .user(
            r#"{"mcpServers": {"same": {"command": "x", "args": ["1"], "env": {"K": "v"}}, "args": {"command": "x", "args": ["2"]},
            "env": {"command": "x", "args": ["1"], "env": {"K": "w"}}, "mixed": {"command": "x", "args": ["1", "K", "v"]}}}"#,
        );
    assert_eq!(
        machine.list(),
        "local a ready\nuser same duplicate of a\nuser args ready\nuser env ready\nuser mixed ready"
    );
}

#[test]
fn a_disabled_server_does_not_make_another_one_a_duplicate() {
    let machine = Machine::new()
        .local(r#"{"mcpServers": {"off": {"url": "https://a.example", "enabled": false}}}"#)
        .user(r#"{"mcpServers": {"on": {"url": "https://a.example"}}}"#);
    assert_eq!(machine.list(), "local off disabled\nuser on ready");
}

#[test]
fn an_invalid_server_is_not_replaced_by_one_of_a_lower_scope() {
    let machine = Machine::new().local(&one("{}")).user(&one(r#"{"command": "x"}"#));
    assert_eq!(machine.list(), "user x shadowed by local\nlocal x broken");
    let loaded = machine.load();
    assert!(loaded.find("x").is_none());
    assert_eq!(loaded.find_broken("x").unwrap().scope, Scope::Local);
}

#[test]
fn lists_enable_and_disable_servers() {
    let machine = Machine::new()
        .local(r#"{"disabledServers": ["a", "ghost"], "enabledServers": ["b"]}"#)
        .user(r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b", "enabled": false}, "c": {"command": "c"}}, "disabledServers": ["b", "c"]}"#);
    assert_eq!(machine.list(), "user a disabled\nuser b ready\nuser c disabled");
    let by = |name: &str| machine.load().find(name).unwrap().eligibility.clone();
    assert_eq!(by("a"), Eligibility::Disabled(DisabledBy::List(Scope::Local)));
    assert_eq!(by("c"), Eligibility::Disabled(DisabledBy::List(Scope::User)));
    assert_snapshot!(machine.problems(Severity::Note), @"note: local.json:1: disabledServers[1]: no server named `ghost`");
}

#[test]
fn an_enabled_server_with_an_unset_variable_is_refused() {
    let machine = Machine::new()
        .local(r#"{"enabledServers": ["x"]}"#)
        .user(&one(r#"{"enabled": false, "command": "x", "args": ["${NOWHERE}"]}"#));
    assert_eq!(machine.list(), "user x refused");
}

#[test]
fn the_enterprise_decides_about_its_own_servers() {
    let machine = Machine::new()
        .enterprise(r#"{"mcpServers": {"must": {"command": "m", "required": true}, "may": {"command": "n"}, "off": {"command": "o", "enabled": false}}}"#)
        .local(r#"{"disabledServers": ["must", "may"], "enabledServers": ["off"]}"#);
    assert_eq!(machine.list(), "enterprise must ready\nenterprise may disabled\nenterprise off disabled");
    assert_snapshot!(machine.problems(Severity::Note), @"warning: managed.json:1: mcpServers.must: stays enabled: the enterprise requires it, although the local scope disables it");
}

#[test]
fn policy_and_hooks_are_read_from_users_and_never_from_projects() {
    let text = r#"{"policy": {"a": 1}, "hooks": [], "cloud": "https://provider.example"}"#;
    let machine = Machine::new().user(text).enterprise(text).project(text);
    let loaded = machine.load();
    let scopes = |settings: &[wharf_config::RawSetting]| settings.iter().map(|found| found.scope).collect::<Vec<_>>();
    for settings in [&loaded.policy, &loaded.hooks, &loaded.cloud] {
        assert_eq!(scopes(settings), [Scope::Enterprise, Scope::User]);
    }
    assert_eq!(loaded.policy[0].value["a"], 1);
    assert_snapshot!(machine.problems(Severity::Warning), @r"
    warning: project/.mcp.json:1: policy: ignored in this scope; move it to your user configuration
    warning: project/.mcp.json:1: hooks: ignored in this scope; move it to your user configuration
    warning: project/.mcp.json:1: cloud: ignored in this scope; move it to your user configuration
    ");
}

/// Generates servers that often clash: few names, few URLs.
fn servers() -> impl Strategy<Value = Vec<Server>> {
    let transport = prop_oneof![
        (0..3u8, 0..2u8).prop_map(|(host, key)| {
            let headers = vec![("K".to_owned(), Secret::new(key.to_string()))];
            let url = format!("https://h{host}.example{}", if key == 0 { "" } else { "/" });
            TransportConfig::Http(RemoteConfig { url, headers, headers_helper: None, oauth: OAuthSettings::default() })
        }),
        (0..3u8).prop_map(|arg| {
            let args = vec![arg.to_string()];
            TransportConfig::Stdio(StdioConfig { command: "x".into(), args, env: BTreeMap::new(), cwd: None })
        }),
    ];
    let server = (0..4u8, transport)
        .prop_map(|(name, transport)| Server::new(format!("s{name}").parse().unwrap(), Scope::Dynamic, transport));
    proptest::collection::vec(server, 0..8)
}

fn text_of(servers: &[Server]) -> String {
    let mut entries = serde_json::Map::new();
    for server in servers {
        let entry = match &server.transport {
            TransportConfig::Http(remote) => {
                serde_json::json!({"url": remote.url, "headers": {"K": remote.headers[0].1.expose()}})
            }
            TransportConfig::Stdio(process) => serde_json::json!({"command": process.command, "args": process.args}),
            _ => unreachable!("only these are generated"),
        };
        entries.insert(server.name.to_string(), entry);
    }
    serde_json::json!({"mcpServers": entries}).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_name_and_url_is_used_once_and_the_highest_scope_wins(
        user in servers(), local in servers(), dynamic in servers(),
    ) {
        let mut machine = Machine::new().user(&text_of(&user)).local(&text_of(&local));
        machine.sources.dynamic = dynamic;
        let loaded = machine.load();
        let ready: Vec<_> = loaded.ready().collect();
        for (index, server) in ready.iter().enumerate() {
            for other in &ready[index + 1..] {
                prop_assert_ne!(&server.name, &other.name);
                prop_assert_ne!(&server.transport, &other.transport);
            }
        }
        for found in &loaded.servers {
            if let Eligibility::Shadowed { by } = found.eligibility {
                prop_assert!(by <= found.server.scope);
            } else {
                let higher = loaded.servers.iter().any(|other| other.server.name == found.server.name && other.server.scope < found.server.scope);
                prop_assert!(!higher);
            }
        }
    }

    #[test]
    fn the_rank_of_empty_scopes_makes_no_difference(
        user in servers(), local in servers(),
        order in Just(vec![Scope::Enterprise, Scope::Project, Scope::Dynamic, Scope::Cloud]).prop_shuffle(),
    ) {
        let machine = Machine::new().user(&text_of(&user)).local(&text_of(&local));
        let mixed = Sources {
            order: order.into_iter().chain([Scope::Local, Scope::User]).collect(),
            ..machine.sources.clone()
        };
        let mixed = load(&mixed, &Variables::none(), &Approvals::nothing());
        prop_assert_eq!(list(&mixed), machine.list());
    }
}

#[test]
fn an_invalid_entry_of_a_lower_scope_does_not_hide_a_server() {
    let machine = Machine::new().user(&one(r#"{"command": "good"}"#)).project(&one("{}"));
    let loaded = machine.load();
    assert_eq!(loaded.find("x").unwrap().server.scope, Scope::User);
    assert!(loaded.find_broken("x").is_none() && loaded.broken.len() == 1);
}

#[test]
fn a_disabled_server_that_may_not_run_is_locked() {
    let off = r#"{"command": "x", "enabled": false}"#;
    let lock = |machine: &Machine| machine.load().find("x").unwrap().lock;
    let machine = Machine::new().project(&one(off));
    assert_eq!(
        (machine.list().as_str(), lock(&machine)),
        ("project x disabled", Some("its current entry is not approved"))
    );
    machine.approve_all();
    assert_eq!((machine.list().as_str(), lock(&machine)), ("project x disabled", None));
    let machine = Machine::new().user(&one(r#"{"command": "x", "args": ["${UNSET}"], "enabled": false}"#));
    assert_eq!(lock(&machine), Some("a variable it uses is not set"));
    assert_eq!(lock(&Machine::new().enterprise(&one(off))), Some("the enterprise configuration disables it"));
    assert_eq!(lock(&Machine::new().user(&one(off))), None);
}

#[test]
fn a_server_enabled_by_a_list_is_enabled() {
    let machine =
        Machine::new().user(&one(r#"{"command": "x", "enabled": false}"#)).local(r#"{"enabledServers": ["x"]}"#);
    let loaded = machine.load();
    assert!(loaded.ready().all(|server| server.settings.enabled) && loaded.ready().count() == 1);
}

#[test]
fn an_unreadable_file_is_listed_with_its_scope() {
    let machine = Machine::new().user("{").local("{}").project("[]");
    let lost: Vec<Scope> = machine.load().lost.iter().map(|(scope, _)| *scope).collect();
    assert_eq!(lost, [Scope::User, Scope::Project]);
    assert!(Machine::new().user("{}").load().lost.is_empty());
}

#[test]
fn look_alike_names_of_different_scopes_are_reported() {
    let machine =
        Machine::new().user(r#"{"mcpServers": {"github": {"command": "a"}, "my-db": {"command": "b"}}}"#).project(
            r#"{"mcpServers": {"GitHub": {"command": "c"}, "my_db": {"command": "d"}, "gitlab": {"command": "e"}}}"#,
        );
    assert_eq!(
        machine.problems(Severity::Warning),
        "warning: project/.mcp.json:1: mcpServers.GitHub: its name looks like `github` of the user scope\n\
         warning: project/.mcp.json:1: mcpServers.my_db: its name looks like `my-db` of the user scope"
    );
    let loaded = machine.load();
    let Eligibility::NeedsApproval(approval) = &loaded.find("GitHub").unwrap().eligibility else { panic!() };
    assert_eq!(approval.dangers, ["has a name that looks like `github` of the user scope"]);
    let Eligibility::NeedsApproval(approval) = &loaded.find("gitlab").unwrap().eligibility else { panic!() };
    assert_eq!(approval.dangers, [""; 0]);
    // One scope may use any names.
    let machine = Machine::new().user(r#"{"mcpServers": {"github": {"command": "a"}, "GitHub": {"command": "b"}}}"#);
    assert_eq!(machine.problems(Severity::Warning), "");
}
