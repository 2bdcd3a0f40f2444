//! Required servers whose entry or file is invalid.

use super::*;

#[test]
fn an_invalid_entry_is_missing_if_it_is_required_or_strict_is_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("project");
    std::fs::create_dir(&project).expect("a folder");
    let globals =
        Globals { config_root: Some(folder.path().to_owned()), project: Some(project.clone()), ..Globals::default() };
    let missing = |text: &str, strict: bool| -> Vec<String> {
        std::fs::write(folder.path().join("mcp.json"), text).expect("a file");
        let setup = Setup::read(&globals).expect("it can be read");
        setup.missing(strict).into_iter().map(|error| error.message).collect()
    };
    let text = r#"{"mcpServers": {"a": {"command": 1}, "b": {"url": 2, "required": true}, "off": {"url": 3, "enabled": false}}}"#;
    let required = missing(text, false);
    assert!(required.len() == 1 && required[0].starts_with("server `b` has an invalid entry"), "{required:?}");
    assert_eq!(missing(text, true).len(), 2);
    // A whole file may hold anything.
    assert_eq!(missing("{,", false), Vec::<String>::new());
    let lost = missing("{,", true);
    assert!(lost.len() == 1 && lost[0].ends_with("cannot read the servers of the user scope"), "{lost:?}");
}
