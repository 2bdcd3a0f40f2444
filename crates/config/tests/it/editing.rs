//! Editing files.

use std::fs;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;
use wharf_config::{EditError, Editor, OnExisting, Scope};
use wharf_protocol::ServerName;

use super::{Machine, mode};

const COMMENTED: &str = r#"{
  // Servers of mine.
  "mcpServers": {
    "a": {"command": "a"}, // the first
    /* the second */
    "b": {
      "command": "b",
      "args": [ "-x" ]   // odd blanks
    }
  },
  "other": [1,2,   3]
}
"#;

fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

fn edited(text: &str, edit: impl FnOnce(&mut Editor)) -> String {
    let machine = Machine::new().user(text);
    let mut editor = Editor::open(&machine.path("user.json"), Scope::User).unwrap();
    edit(&mut editor);
    let expected = editor.text();
    editor.save().unwrap();
    let written = fs::read_to_string(machine.path("user.json")).unwrap();
    assert_eq!(written, expected);
    written
}

#[test]
fn adding_a_server_preserves_comments_and_spaces() {
    let text = edited(COMMENTED, |editor| {
        editor.add(&name("c"), &json!({"command": "c", "args": ["-y", "pkg"]}), OnExisting::Refuse).unwrap();
    });
    assert_snapshot!(text, @r#"
    {
      // Servers of mine.
      "mcpServers": {
        "a": {"command": "a"}, // the first
        /* the second */
        "b": {
          "command": "b",
          "args": [ "-x" ]   // odd blanks
        },
        "c": {
          "command": "c",
          "args": ["-y", "pkg"]
        }
      },
      "other": [1,2,   3]
    }
    "#);
}

#[test]
fn what_is_added_and_removed_again_leaves_no_trace() {
    let text = edited(COMMENTED, |editor| {
        editor.add(&name("c"), &json!({"url": "https://c"}), OnExisting::Refuse).unwrap();
        editor.remove("c").unwrap();
        editor.disable(&name("a")).unwrap();
        editor.enable(&name("a")).unwrap();
        editor.set("b", "timeout", Some(&json!(5000))).unwrap();
        editor.set("b", "timeout", None).unwrap();
    });
    let text = text.replace(",\n  \"enabledServers\": [\"a\"]", "");
    assert_eq!(text, COMMENTED);
}

#[test]
fn a_server_that_is_there_is_replaced_only_when_asked() {
    let machine = Machine::new().user(COMMENTED);
    let mut editor = Editor::open(&machine.path("user.json"), Scope::User).unwrap();
    assert_eq!(editor.names(), ["a", "b"]);
    let refused = editor.add(&name("a"), &json!({"command": "new"}), OnExisting::Refuse).unwrap_err();
    assert_eq!(machine.anonymous(&refused.to_string()), "server `a` already exists in user.json");
    editor.add(&name("a"), &json!({"command": "new"}), OnExisting::Replace).unwrap();
    assert!(editor.text().contains("\"command\": \"new\"") && editor.text().contains("// the first"));
    assert!(matches!(editor.remove("ghost"), Err(EditError::Missing { .. })));
    assert!(matches!(editor.set("ghost", "timeout", None), Err(EditError::Missing { .. })));
}

#[test]
fn a_server_is_edited_by_its_name_where_its_key_differs() {
    let text = r#"{"mcpServers": {"My Server": {"command": "x"}}, "disabledServers": ["My Server"]}"#;
    let machine = Machine::new().user(text);
    let mut editor = Editor::open(&machine.path("user.json"), Scope::User).unwrap();
    assert_eq!(editor.names(), ["My-Server"]);
    let exists = editor.add(&name("My-Server"), &json!({"command": "new"}), OnExisting::Refuse);
    assert!(matches!(exists, Err(EditError::Exists { .. })));
    editor.set("My-Server", "timeout", Some(&json!(5000))).unwrap();
    editor.enable(&name("My-Server")).unwrap();
    assert!(
        editor.text().contains(r#""timeout": 5000"#) && !editor.text().contains("disabledServers"),
        "{}",
        editor.text()
    );
    editor.remove("My-Server").unwrap();
    assert_eq!(editor.names(), [""; 0]);
}

#[test]
fn a_missing_file_is_made_with_its_folders() {
    let machine = Machine::new();
    let file = machine.path("deep/er/mcp.json");
    let mut editor = Editor::open(&file, Scope::Local).unwrap();
    editor.add(&name("a"), &json!({"command": "a"}), OnExisting::Refuse).unwrap();
    editor.save().unwrap();
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert_snapshot!(fs::read_to_string(&file).unwrap(), @r#"
    {
      "mcpServers": {
        "a": {
          "command": "a"
        }
      }
    }
    "#);
    let project = machine.path("project/.mcp.json");
    let mut editor = Editor::open(&project, Scope::Project).unwrap();
    editor.add(&name("a"), &json!({"command": "a"}), OnExisting::Refuse).unwrap();
    editor.save().unwrap();
    assert_eq!(mode(&project) & 0o400, 0o400);
    assert_ne!(mode(&project), 0o600, "others may read what is checked in");
    let left: Vec<_> = fs::read_dir(machine.root()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, [".mcp.json"], "nothing is left over");
}

#[test]
fn a_link_stays_a_link() {
    let machine = Machine::new().write("real.json", "{}");
    let link = machine.path("user.json");
    std::os::unix::fs::symlink("real.json", &link).unwrap();
    let mut editor = Editor::open(&link, Scope::User).unwrap();
    editor.add(&name("a"), &json!({"command": "a"}), OnExisting::Refuse).unwrap();
    editor.save().unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(fs::read_to_string(machine.path("real.json")).unwrap().contains("\"a\""));
}

#[test]
fn an_invalid_file_is_not_edited() {
    for text in
        ["{", "[]", r#"{"mcpServers": []}"#, r#"{"disabledServers": {}}"#, r#"{"mcpServers": {"a": {}, "a": {}}}"#]
    {
        let machine = Machine::new().user(text);
        let opened = Editor::open(&machine.path("user.json"), Scope::User);
        assert!(matches!(opened, Err(EditError::Unreadable(_))), "{text}");
    }
}

#[test]
fn a_concurrent_change_is_not_lost() {
    let machine = Machine::new().user("{}");
    let mut editor = Editor::open(&machine.path("user.json"), Scope::User).unwrap();
    editor.add(&name("a"), &json!({"command": "a"}), OnExisting::Refuse).unwrap();
    let machine = machine.user(r#"{"theirs": 1}"#);
    assert!(matches!(editor.save(), Err(EditError::Raced(_))));
    assert_eq!(fs::read_to_string(machine.path("user.json")).unwrap(), r#"{"theirs": 1}"#);
}

#[test]
fn a_server_is_found_by_its_own_key_first_and_by_a_renamed_one_after_that() {
    let two = r#"{"mcpServers": {"my server": {"command": "a"}, "my-server": {"command": "b"}}}"#;
    let text = edited(two, |editor| editor.remove("my-server").unwrap());
    assert!(text.contains("my server") && !text.contains("my-server"), "{text}");
    let disabled = r#"{"disabledServers": ["my server"]}"#;
    assert_eq!(edited(disabled, |editor| editor.disable(&name("my-server")).unwrap()), disabled);
}

#[test]
fn enabling_and_disabling_edits_the_lists() {
    let machine =
        Machine::new().user(r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b", "enabled": false}}}"#);
    let switch = |edit: &dyn Fn(&mut Editor)| {
        let mut editor = Editor::open(&machine.path("local.json"), Scope::Local).unwrap();
        edit(&mut editor);
        editor.save().unwrap();
        machine.list()
    };
    assert_eq!(switch(&|editor| editor.disable(&name("a")).unwrap()), "user a disabled\nuser b disabled");
    assert_eq!(switch(&|editor| editor.enable(&name("b")).unwrap()), "user a disabled\nuser b ready");
    assert_eq!(switch(&|editor| editor.enable(&name("a")).unwrap()), "user a ready\nuser b ready");
    assert_snapshot!(fs::read_to_string(machine.path("local.json")).unwrap(), @r#"
    {
      "enabledServers": ["b", "a"]
    }
    "#);
}

#[test]
fn line_endings_and_a_byte_order_mark_are_preserved() {
    let text = edited("\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", |editor| {
        editor.add(&name("b"), &json!({"command": "b"}), OnExisting::Refuse).unwrap();
    });
    assert!(text.starts_with("\u{feff}{\r\n") && text.ends_with("}\r\n"));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
}

/// Generates files with comments in odd places, trailing commas and odd spaces.
fn files() -> impl Strategy<Value = String> {
    let blank = proptest::sample::select(vec!["", " ", "\n", "\n  ", " // c\n", "/* c */", "\t"]);
    let entry = (0..4u8, blank.clone(), blank.clone()).prop_map(|(id, before, after)| {
        format!(
            "{before}\"s{id}{before_len}\"{after}: {{{before}\"command\":{after}\"x\"}}{after}",
            before_len = before.len()
        )
    });
    (proptest::collection::vec(entry, 0..4), blank.clone(), blank, any::<bool>()).prop_map(
        |(mut entries, a, b, comma)| {
            entries.sort();
            entries.dedup_by_key(|entry| entry.trim().split('"').nth(1).map(str::to_owned));
            let comma = if comma && !entries.is_empty() { "," } else { "" };
            format!("{a}{{{b}\"mcpServers\":{a}{{{}{comma}{a}}}{b},\"z\":[1]{b}}}{a}", entries.join(","))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_edit_preserves_everything_else(text in files()) {
        let machine = Machine::new().user(&text);
        let Ok(mut editor) = Editor::open(&machine.path("user.json"), Scope::User) else {
            // Two keys that are equal after unescaping.
            return Ok(());
        };
        prop_assert_eq!(editor.text(), text.clone());
        let names = editor.names();
        editor.add(&name("new"), &json!({"command": "n"}), OnExisting::Refuse).unwrap();
        let added = editor.text();
        // Outside of the servers every byte is the same; among them only spaces differ.
        let before = text.find("\"mcpServers\"").unwrap();
        let after = text.find(",\"z\"").unwrap();
        prop_assert!(added.starts_with(&text[..before]) && added.ends_with(&text[after..]), "{added:?}");
        let dense = |text: &str| text.split_whitespace().collect::<String>().replace(',', "");
        let without = dense(&added).replacen("\"new\":{\"command\":\"n\"}", "", 1);
        prop_assert_eq!(without, dense(&text));
        editor.save().unwrap();
        let mut editor = Editor::open(&machine.path("user.json"), Scope::User).unwrap();
        let mut expected = names.clone();
        expected.push("new".into());
        prop_assert_eq!(editor.names(), expected);
        editor.remove("new").unwrap();
        prop_assert_eq!(editor.names(), names.clone());
        prop_assert_eq!(dense(&editor.text()), dense(&text));
        for name in &names {
            editor.remove(name).unwrap();
        }
        prop_assert_eq!(editor.names(), [""; 0]);
        prop_assert!(editor.text().starts_with(&text[..before]) && editor.text().ends_with(&text[after..]));
    }
}

#[test]
fn a_project_file_that_links_out_of_the_project_is_not_written() {
    let machine = Machine::new().write("theirs.json", "{}");
    let link = machine.path("project/.mcp.json");
    std::os::unix::fs::symlink("../theirs.json", &link).unwrap();
    let refused = Editor::open(&link, Scope::Project).unwrap_err().to_string();
    assert!(refused.contains("which is outside of the project"), "{refused}");
    // Also if it became a link after opening.
    fs::remove_file(&link).unwrap();
    let mut editor = Editor::open(&link, Scope::Project).unwrap();
    editor.add(&"x".parse().unwrap(), &json!({"command": "x"}), OnExisting::Refuse).unwrap();
    std::os::unix::fs::symlink("../theirs.json", &link).unwrap();
    assert!(editor.save().is_err());
    assert_eq!(fs::read_to_string(machine.path("theirs.json")).unwrap(), "{}");
}

#[test]
fn a_file_that_exceeds_the_maximum_size_is_not_written() {
    let machine = Machine::new();
    let mut editor = Editor::open(&machine.path("user.json"), Scope::User).unwrap();
    editor.add(&"x".parse().unwrap(), &json!({"command": "x".repeat(1 << 20)}), OnExisting::Refuse).unwrap();
    assert!(editor.save().unwrap_err().to_string().contains("longer than 1048576 bytes"));
    assert!(!machine.path("user.json").exists());
}

#[test]
fn a_comment_in_a_list_that_becomes_empty_is_preserved() {
    let machine = Machine::new().local("{\n  \"disabledServers\": [\n    // too slow\n    \"x\"\n  ]\n}\n");
    let mut editor = Editor::open(&machine.path("local.json"), Scope::Local).unwrap();
    editor.enable(&"x".parse().unwrap()).unwrap();
    assert!(editor.text().contains("// too slow"), "{}", editor.text());
}
