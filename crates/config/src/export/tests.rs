use serde_json::{Map, Value, json};

use super::*;
use crate::raw_entry::RawEntry;
use crate::server::TransportKind;

fn converted(host: ExportHost, entry: Value) -> String {
    let Value::Object(fields) = entry else { panic!("an object") };
    let kind = if fields.contains_key("url") { TransportKind::Http } else { TransportKind::Stdio };
    match convert(host, &RawEntry::new(fields), kind, SecretValues::Copy) {
        Ok(ExportedEntry { entry, notes, .. }) => format!("{} {notes:?}", Value::Object(entry)),
        Err(reason) => reason,
    }
}

#[test]
fn variables_become_references_of_the_host() {
    let entry =
        json!({"command": "uvx", "args": ["x", "--key=${KEY:-k}"], "env": {"T": "${TOKEN}", "N": 5}, "tools": ["a"]});
    assert_eq!(
        converted(ExportHost::VsCode, entry.clone()),
        r#"{"type":"stdio","command":"uvx","args":["x","--key=${env:KEY}"],"env":{"N":"5","T":"${env:TOKEN}"}} ["the default of `${KEY:-k}` is not supported there: set the variable", "`tools` not exported: only Wharf has it"]"#
    );
    assert!(
        converted(ExportHost::Cursor, entry.clone()).starts_with(r#"{"command":"uvx","args":["x","--key=${env:KEY}"]"#)
    );
    assert_eq!(
        converted(ExportHost::ClaudeDesktop, entry),
        "refers to the variable KEY, and Claude Desktop has no variables"
    );
    assert_eq!(
        converted(ExportHost::ClaudeDesktop, json!({"command": "uvx", "args": ["$${x}"]})),
        r#"{"command":"uvx","args":["${x}"]} []"#
    );
}

#[test]
fn servers_that_a_host_cannot_use_are_refused() {
    let remote = json!({"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${T}"}});
    assert_eq!(
        converted(ExportHost::VsCode, remote.clone()),
        r#"{"type":"http","url":"https://example.com/mcp","headers":{"Authorization":"Bearer ${env:T}"}} []"#
    );
    assert!(converted(ExportHost::ClaudeDesktop, remote).starts_with("is a remote server"));
    assert_eq!(converted(ExportHost::Cursor, json!({"command": "./x.sh"})), "has a command relative to its project");
    assert!(
        converted(ExportHost::Cursor, json!({"command": "x", "args": ["$${a}"]}))
            .contains("which the host would expand")
    );
}

fn entry(command: &str) -> Map<String, Value> {
    Map::from_iter([("command".to_owned(), json!(command))])
}

#[test]
fn everything_else_in_the_file_stays_and_a_backup_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("mcp.json"), folder.path().join("mcp.json.bak"));
    let before = "\u{feff}{\n  // mine\n  \"inputs\": [1, 2],\n  \"servers\": {\n    \"old\": {\"command\": \"x\"}, // keep\n  },\n}\n";
    std::fs::write(&path, before).unwrap();
    let mut file = HostFile::open(ExportHost::VsCode, &path).unwrap();
    assert_eq!(file.add("new", &entry("uvx"), false).unwrap(), Exported::New);
    assert_eq!(file.add("old", &entry("x"), false).unwrap(), Exported::Unchanged);
    assert_eq!(file.add("old", &entry("y"), false).unwrap(), Exported::Kept);
    assert_eq!(file.save(&backup).unwrap(), Some(backup.clone()));
    let after = std::fs::read_to_string(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), before);
    for part in ["\u{feff}{", "// mine", "\"inputs\": [1, 2]", "{\"command\": \"x\"}", "// keep", "\"new\": {"] {
        assert!(after.contains(part), "{part} in {after}");
    }
    let mut file = HostFile::open(ExportHost::VsCode, &path).unwrap();
    assert_eq!(file.add("old", &entry("y"), true).unwrap(), Exported::Replaced);
    std::fs::write(&path, "{}").unwrap();
    assert!(matches!(file.save(&backup), Err(ExportError::Raced(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
}

#[test]
fn a_new_file_is_private_and_an_odd_one_is_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/mcp.json");
    let mut file = HostFile::open(ExportHost::Cursor, &path).unwrap();
    file.add("s", &entry("uvx"), false).unwrap();
    assert_eq!(file.save(&folder.path().join("backup")).unwrap(), None);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"mcpServers": {"s": {"command": "uvx"}}}));
    assert!(text.ends_with('\n'));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for odd in ["[1]", "{\"mcpServers\": []}", "{", "7"] {
        std::fs::write(&path, odd).unwrap();
        assert!(HostFile::open(ExportHost::Cursor, &path).is_err(), "{odd}");
    }
}

#[test]
fn secrets_are_named_and_replaced_on_request() {
    let entry = |entry: Value| match entry {
        Value::Object(fields) => RawEntry::new(fields),
        _ => panic!("an object"),
    };
    let written =
        entry(json!({"command": "x", "env": {"API_TOKEN": "abc", "DB": "postgres://me:pw12@db/x", "MODE": "fast",
        "OTHER_TOKEN": "${OTHER_TOKEN}"}}));
    let copied = convert(ExportHost::Cursor, &written, TransportKind::Stdio, SecretValues::Copy).unwrap();
    assert_eq!(copied.secrets, ["env.API_TOKEN", "env.DB"]);
    let replaced = convert(ExportHost::Cursor, &written, TransportKind::Stdio, SecretValues::Placeholder).unwrap();
    assert_eq!(
        replaced.entry["env"],
        json!({"API_TOKEN": "${env:API_TOKEN}", "DB": "${env:DB}", "MODE": "fast", "OTHER_TOKEN": "${env:OTHER_TOKEN}"})
    );
    assert!(replaced.secrets.is_empty() && replaced.notes[0].contains("set API_TOKEN"), "{replaced:?}");
    let remote = entry(json!({"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abcdefgh"}}));
    let replaced = convert(ExportHost::VsCode, &remote, TransportKind::Http, SecretValues::Placeholder).unwrap();
    assert_eq!(replaced.entry["headers"], json!({"Authorization": "Bearer ${env:AUTHORIZATION}"}));
    let in_arguments = entry(json!({"command": "x", "args": ["--api-key", "0123456789"]}));
    let refused = convert(ExportHost::VsCode, &in_arguments, TransportKind::Stdio, SecretValues::Placeholder);
    assert!(refused.unwrap_err().starts_with("contains a secret in `args`"));
    let desktop = entry(json!({"command": "x", "env": {"API_TOKEN": "abc"}}));
    let refused = convert(ExportHost::ClaudeDesktop, &desktop, TransportKind::Stdio, SecretValues::Placeholder);
    assert_eq!(refused.unwrap_err(), "contains env.API_TOKEN, and Claude Desktop has no variables");
}

#[test]
fn permissions_stay_backups_are_not_replaced_and_read_only_files_are_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("mcp.json"), folder.path().join("mcp.json.before"));
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let chmod = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    let save = |name: &str| {
        let mut file = HostFile::open(ExportHost::VsCode, &path).unwrap();
        file.add(name, &entry("x"), false).unwrap();
        file.save(&backup)
    };
    assert_eq!(save("one").unwrap(), None);
    assert_eq!(mode(), 0o600, "a new file is private");
    chmod(0o640);
    // Within one second, the time in the name is the same.
    let first = save("two").unwrap().unwrap();
    let second = save("three").unwrap().unwrap();
    assert_eq!((mode(), &first, second.ends_with("mcp.json.before-2")), (0o640, &backup, true));
    let content = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    assert!(!content(&first).contains("two") && content(&second).contains("two"));
    chmod(0o444);
    let refused = save("four").unwrap_err();
    assert!(refused.to_string().ends_with("the file is read-only"), "{refused}");
    assert!(!content(&path).contains("four"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no backup of what did not change");
}
