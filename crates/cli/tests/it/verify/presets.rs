//! Presets, and which source of a setting decides.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{example, json_of};
use crate::{Person, ran};

/// Returns how often each question would be asked.
fn replicates(person: &Person, variable: Option<&str>, more: &[&str]) -> Value {
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml");
    let models = folder.join("models.yaml");
    let arguments = [benchmark.to_str().unwrap(), "--models", models.to_str().unwrap(), "--judge", "judge", "--json"];
    let mut wharf = person.wharf(&[&["verify", "check"], &arguments[..], more].concat());
    if let Some(value) = variable {
        wharf.env("WHARF_VERIFY_REPLICATES", value);
    }
    let ran = ran(wharf);
    json_of(&ran)["replicates"].clone()
}

#[test]
fn flags_win_over_files_presets_variables_and_defaults() {
    let person = Person::new();
    person.write("project/run.yaml", "replicates: 5\n");
    let saved = person.run(&["verify", "preset", "save", "nightly", "--replicates", "4"]);
    assert_eq!(saved.code, 0, "{}", saved.err);
    assert_eq!(replicates(&person, None, &[]), 1, "the default");
    assert_eq!(replicates(&person, Some("3"), &[]), 3, "a variable");
    assert_eq!(replicates(&person, Some("3"), &["--preset", "nightly"]), 4, "a preset");
    assert_eq!(replicates(&person, Some("3"), &["--preset", "nightly", "--config", "run.yaml"]), 5, "a file");
    let all = ["--preset", "nightly", "--config", "run.yaml", "--replicates", "6"];
    assert_eq!(replicates(&person, Some("3"), &all), 6, "a flag");
}

#[test]
fn presets_are_saved_listed_shown_and_deleted() {
    let person = Person::new();
    let run = |arguments: &[&str]| person.run(&[&["verify", "preset"], arguments].concat());
    assert!(run(&["list"]).err.contains("no presets"));
    let save = ["save", "nightly", "--max-cost", "5", "--judge", "openai:gpt-5", "--description", "Every night"];
    assert_eq!(run(&save).code, 0);
    let file = person.path("home/.config/wharf/presets/nightly.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = json_of(&run(&["show", "nightly", "--json"]))["preset"].clone();
    assert_eq!(shown["config"], json!({"judges": ["openai:gpt-5"], "max_cost_usd": 5.0}));
    assert_eq!((&shown["description"], &shown["created_at"]), (&json!("Every night"), &shown["updated_at"]));
    assert!(run(&["list"]).out.contains("nightly") && run(&["list"]).out.contains("Every night"));
    // Saving again replaces the settings and keeps the description.
    assert_eq!(run(&["save", "nightly", "--replicates", "2"]).code, 0);
    let shown = json_of(&run(&["show", "nightly", "--json"]))["preset"].clone();
    assert_eq!((&shown["config"], &shown["description"]), (&json!({"replicates": 2}), &json!("Every night")));
    let unknown = run(&["show", "nightl"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("unknown preset `nightl`\nhint: did you mean `nightly`?"), "{}", unknown.err);
    assert_eq!(run(&["delete", "nightly"]).code, 0);
    assert!(!file.exists());
    assert_eq!(run(&["delete", "nightly"]).code, 2);
    for name in ["../evil", "", ".hidden"] {
        let ran = run(&["save", name, "--replicates", "2"]);
        assert!(ran.code == 2 && ran.err.contains("invalid preset name"), "{name}: {}", ran.err);
    }
    let long = "x".repeat(501);
    assert_eq!(run(&["save", "long", "--description", &long]).code, 2);
}

#[test]
fn a_preset_that_was_edited_by_hand_is_checked() {
    let person = Person::new();
    let text = r#"{"name":"p","config":{"replicates":0},"created_at":"","updated_at":""}"#;
    person.write("home/.config/wharf/presets/p.json", text);
    let ran = person.run(&["verify", "preset", "show", "p"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("replicates: invalid value: expected 1 to 10000"), "{}", ran.err);
}
