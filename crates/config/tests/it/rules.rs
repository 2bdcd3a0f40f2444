//! Which servers may be used.

use insta::assert_snapshot;
use proptest::prelude::*;
use wharf_config::{
    Eligibility, OAuthSettings, RemoteConfig, Scope, Server, Severity, TransportConfig, Variables, read_server,
};

use super::{Machine, list};

const THREE: &str = r#"{"mcpServers": {
    "cmd": {"command": "node", "args": ["s.js"]},
    "net": {"url": "https://mcp.good.example/mcp"},
    "bad": {"url": "https://evil.example/mcp"}}}"#;

fn ready(machine: &Machine) -> Vec<String> {
    machine.load().ready().map(|server| server.name.to_string()).collect()
}

fn with_rules(rules: &str) -> Machine {
    Machine::new().enterprise(rules).user(THREE)
}

#[test]
fn an_exclusive_enterprise_file_refuses_all_other_servers() {
    for rule in ["exclusive", "allowManagedMcpServersOnly"] {
        let mut machine = Machine::new()
            .enterprise(&format!(r#"{{"{rule}": true, "mcpServers": {{"own": {{"command": "own"}}}}}}"#))
            .local(r#"{"mcpServers": {"a": {"command": "a"}}, "enabledServers": ["a"], "exclusive": false}"#)
            .user(r#"{"mcpServers": {"b": {"command": "b"}}, "exclusive": false}"#)
            .project(r#"{"mcpServers": {"c": {"command": "c"}}, "exclusive": false}"#);
        machine.sources.dynamic =
            vec![read_server("d", r#"{"command": "d"}"#, Scope::Dynamic, &machine.variables).unwrap().server];
        assert_eq!(ready(&machine), ["own"]);
        assert_eq!(machine.list().matches("refused").count(), 4, "{}", machine.list());
        let loaded = machine.load();
        let Eligibility::Refused(reason) = &loaded.find("a").unwrap().eligibility else { panic!() };
        assert_eq!(machine.anonymous(reason), "managed.json allows only enterprise servers");
        assert!(machine.problems(Severity::Warning).contains("managed.json allows only enterprise servers"));
    }
}

#[test]
fn an_invalid_enterprise_file_fails_closed() {
    for text in [
        "{",
        "[]",
        r#"{"exclusive": "yes"}"#,
        r#"{"exclusve": true}"#,
        r#"{"exclusive": false, "exclusive": true}"#,
        r#"{"allowedMcpServers": "all"}"#,
        r#"{"deniedMcpServers": [{"serverURL": "x"}]}"#,
        r#"{"deniedMcpServers": [{}]}"#,
    ] {
        let machine = with_rules(text);
        assert_eq!(ready(&machine), [""; 0], "{text}");
        assert!(machine.problems(Severity::Warning).contains("managed.json"), "{text}");
    }
    let machine = Machine::new().user(THREE);
    std::fs::create_dir(machine.path("managed.json")).unwrap();
    assert_eq!(ready(&machine), [""; 0]);
    let machine = Machine::new().user(THREE);
    std::os::unix::fs::symlink("nowhere", machine.path("managed.json")).unwrap();
    assert_eq!(ready(&machine), [""; 0]);
}

#[test]
fn deny_wins_and_no_allow_list_allows_all() {
    assert_eq!(ready(&with_rules("{}")), ["cmd", "net", "bad"]);
    assert_eq!(ready(&with_rules(r#"{"allowedMcpServers": []}"#)), [""; 0]);
    assert_eq!(
        ready(&with_rules(r#"{"deniedMcpServers": [{"serverUrl": "https://evil.example/*"}]}"#)),
        ["cmd", "net"]
    );
    let both = r#"{"allowedMcpServers": [{"serverName": "net"}, {"serverName": "bad"}], "deniedMcpServers": [{"serverName": "bad"}]}"#;
    assert_eq!(ready(&with_rules(both)), ["net"]);
}

#[test]
fn servers_are_allowed_by_url_and_by_exact_command() {
    let rules =
        r#"{"allowedMcpServers": [{"serverUrl": "https://*.good.example/*"}, {"serverCommand": ["node", "s.js"]}]}"#;
    assert_eq!(ready(&with_rules(rules)), ["cmd", "net"]);
    let other = r#"{"allowedMcpServers": [{"serverCommand": ["node"]}]}"#;
    assert_eq!(ready(&with_rules(other)), [""; 0]);
    // A name does not bypass a list of URLs.
    let named = r#"{"allowedMcpServers": [{"serverUrl": "https://*.good.example/*"}, {"serverName": "bad"}, {"serverName": "cmd"}]}"#;
    assert_eq!(ready(&with_rules(named)), ["cmd", "net"]);
}

#[test]
fn a_user_can_restrict_and_a_project_cannot() {
    let deny = r#"{"deniedMcpServers": [{"serverName": "bad"}]}"#;
    assert_eq!(ready(&Machine::new().user(THREE).local(deny)), ["cmd", "net"]);
    let machine =
        Machine::new().user(THREE).project(r#"{"deniedMcpServers": [{"serverName": "bad"}], "exclusive": true}"#);
    assert_eq!(ready(&machine), ["cmd", "net", "bad"]);
    assert_snapshot!(machine.problems(Severity::Note), @r"
    note: project/.mcp.json:1: deniedMcpServers: ignored in this scope; move it to your user configuration
    note: project/.mcp.json:1: exclusive: ignored in this scope; move it to your user configuration
    ");
    // A user's allow list does not extend the enterprise's.
    let machine = with_rules(r#"{"allowedMcpServers": [{"serverName": "net"}]}"#)
        .local(r#"{"allowedMcpServers": [{"serverName": "bad"}, {"serverName": "net"}]}"#);
    assert_eq!(ready(&machine), ["net"]);
}

#[test]
fn a_user_cannot_deny_what_the_enterprise_requires() {
    let machine = Machine::new()
        .enterprise(r#"{"mcpServers": {"must": {"command": "m", "required": true}, "may": {"command": "n"}}}"#)
        .local(r#"{"allowedMcpServers": []}"#);
    assert_eq!(ready(&machine), ["must"]);
}

#[test]
fn rules_apply_to_servers_that_are_added_at_run_time() {
    let loaded = with_rules(r#"{"deniedMcpServers": [{"serverUrl": "https://evil.example"}]}"#).load();
    let added = |url: &str| {
        let entry = format!(r#"{{"url": "{url}"}}"#);
        read_server("new", &entry, Scope::Dynamic, &[("K", "v")].into_iter().collect()).unwrap().server
    };
    assert!(loaded.rules.permits(&added("https://EVIL.example:443/other")).unwrap_err().ends_with("denies it"));
    loaded.rules.permits(&added("https://fine.example")).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_denied_server_is_never_used(
        denied in proptest::sample::select(vec!["cmd", "net", "bad"]),
        denier in proptest::sample::select(vec!["managed.json", "local.json"]),
        allowed in proptest::collection::vec(proptest::sample::select(vec!["cmd", "net", "bad"]), 0..3),
        allower in proptest::sample::select(vec!["managed.json", "local.json", "project/.mcp.json"]),
    ) {
        let names = |names: &[&str]| names.iter().map(|name| serde_json::json!({"serverName": name})).collect::<Vec<_>>();
        let allow = serde_json::json!({"allowedMcpServers": names(&allowed), "enabledServers": allowed});
        let mut deny = serde_json::json!({"deniedMcpServers": names(&[denied])});
        let mut machine = Machine::new().user(THREE);
        if allower == denier {
            deny["allowedMcpServers"] = allow["allowedMcpServers"].clone();
        } else {
            machine = machine.write(allower, &allow.to_string());
        }
        let machine = machine.write(denier, &deny.to_string());
        prop_assert!(!ready(&machine).iter().any(|name| name == denied), "{}", list(&machine.load()));
    }
}

#[test]
fn deny_rules_match_all_spellings_of_a_url() {
    let denies = r#"{"deniedMcpServers": [{"serverUrl": "https://evil.example/mcp"}, {"serverUrl": "http://127.0.0.1:*"},
        {"serverUrl": "http://[::1]:*"}]}"#;
    let rules = with_rules(denies).load().rules;
    for url in [
        "https://evil.example/mcp?x=1",
        "https://evil.example/%6Dcp",
        "https://evil.example//mcp/",
        "https://evil.example./mcp",
        "http://127.0.0.1/x",
        "http://[::ffff:7f00:1]/x",
        "http://[0:0::1]:9/x",
        // A URL that cannot be compared is refused.
        "http://127.1/x",
        "http://2130706433/x",
        "https://fine.example/%2e%2e/mcp",
    ] {
        let remote = RemoteConfig {
            url: url.into(),
            headers: Vec::new(),
            headers_helper: None,
            oauth: OAuthSettings::default(),
        };
        let server = Server::new("new".parse().unwrap(), Scope::Dynamic, TransportConfig::Http(remote));
        assert!(rules.permits(&server).is_err(), "{url}");
    }
}

#[test]
fn the_url_of_a_disabled_entry_is_checked() {
    let url = "https://good.example/ok/../secret?${X:-}";
    let machine = with_rules(r#"{"allowedMcpServers": [{"serverUrl": "https://good.example/ok/*"}]}"#)
        .user(&format!(r#"{{"mcpServers": {{"x": {{"url": "{url}$${{", "enabled": false}}}}}}"#));
    assert_eq!(machine.list(), "user x broken");
}

#[test]
fn a_named_enterprise_file_cannot_add_servers_beside_the_system_wide_one() {
    let named = r#"{"mcpServers": {"mine": {"command": "m"}}, "deniedMcpServers": [{"serverName": "may"}, {"serverName": "must"}]}"#;
    let own = r#""mcpServers": {"may": {"command": "a"}, "must": {"command": "b", "required": true}}"#;
    let with = |enterprise: Option<&str>| {
        let mut machine = Machine::new().write("named.json", named).user(THREE);
        machine.sources.named_enterprise = vec![machine.path("named.json")];
        match enterprise {
            Some(text) => machine.enterprise(text),
            None => machine,
        }
    };
    // Without a system-wide file, it is the enterprise's.
    assert_eq!(ready(&with(None)), ["mine", "cmd", "net", "bad"]);
    let machine = with(Some(&format!(r#"{{"exclusive": true, {own}}}"#)));
    assert_eq!(ready(&machine), ["must"]);
    let problems = machine.problems(Severity::Warning);
    assert!(problems.contains("named.json:1: mcpServers.mine: ignored: an enterprise file exists"), "{problems}");
    // An invalid file counts too.
    assert_eq!(ready(&with(Some("{"))), [""; 0]);
    // It still restricts.
    assert_eq!(ready(&with(Some(&format!("{{{own}}}")))), ["must", "cmd", "net", "bad"]);
}

#[test]
fn rules_apply_to_servers_of_this_run_whatever_their_name() {
    for enterprise in [
        r#"{"exclusive": true, "mcpServers": {"x": {"command": "own"}}}"#,
        r#"{"deniedMcpServers": [{"serverCommand": ["evil"]}], "mcpServers": {"x": {"command": "own"}}}"#,
        r#"{"deniedMcpServers": [{"serverCommand": ["evil"]}], "mcpServers": {"x": {}}}"#,
        r#"{"disabledServers": ["x"], "mcpServers": {"x": {"command": "own"}}}"#,
    ] {
        let mut machine = Machine::new().enterprise(enterprise);
        machine.sources.only_dynamic = true;
        machine.sources.dynamic =
            vec![read_server("x", r#"{"command": "evil"}"#, Scope::Dynamic, &machine.variables).unwrap().server];
        let loaded = machine.load();
        assert_eq!((loaded.servers.len(), loaded.broken.len(), loaded.ready().count()), (1, 0, 0), "{enterprise}");
    }
}

#[test]
fn rules_policy_and_hooks_of_the_user_apply_to_servers_of_this_run() {
    let settings = r#""policy": {"deny": ["*"]}, "hooks": {"PreToolUse": []}"#;
    let denied = r#""deniedMcpServers": [{"serverCommand": ["evil"]}]"#;
    let servers = r#""mcpServers": {"own": {"command": "own"}, "bad": {"timeout": 1}}, "disabledServers": ["x"]"#;
    let text = format!("{{{settings}, {denied}, {servers}}}");
    for machine in [Machine::new().user(&text), Machine::new().local(&text)] {
        let mut machine = machine;
        machine.sources.only_dynamic = true;
        let dynamic = |command: &str| {
            let entry = format!(r#"{{"command": "{command}"}}"#);
            vec![read_server("x", &entry, Scope::Dynamic, &Variables::none()).unwrap().server]
        };
        machine.sources.dynamic = dynamic("evil");
        assert_eq!(machine.list(), "dynamic x refused");
        machine.sources.dynamic = dynamic("good");
        assert_eq!(machine.list(), "dynamic x ready", "the user disabled a configured server of this name");
        let loaded = machine.load();
        assert_eq!((loaded.policy.len(), loaded.hooks.len()), (1, 1));
        assert_eq!(machine.problems(Severity::Note), "", "servers that are left out have no problems");
    }
}
