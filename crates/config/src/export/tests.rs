use serde_json::{Map, Value, json};

use super::*;
use crate::raw_entry::RawEntry;
use crate::server::TransportKind;

fn converted(host: ExportHost, entry: Value) -> String {
    let Value::Object(fields) = entry else { panic!("an object") };
    let kind = if fields.contains_key("url") { TransportKind::Http } else { TransportKind::Stdio };
    match convert(host, &RawEntry::new(fields), kind) {
        Ok(ExportedEntry { entry, notes }) => format!("{} {notes:?}", Value::Object(entry)),
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
    assert!(file.save(&backup).unwrap());
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
    assert!(!file.save(&folder.path().join("backup")).unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"mcpServers": {"s": {"command": "uvx"}}}));
    assert!(text.ends_with('\n'));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for odd in ["[1]", "{\"mcpServers\": []}", "{", "7"] {
        std::fs::write(&path, odd).unwrap();
        assert!(HostFile::open(ExportHost::Cursor, &path).is_err(), "{odd}");
    }
}
