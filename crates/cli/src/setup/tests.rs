//! What is missed when something cannot be understood.

use super::*;

#[test]
fn what_cannot_be_understood_is_missed_if_it_is_needed_or_everything_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("project");
    std::fs::create_dir(&project).expect("a folder");
    let globals =
        Globals { config_root: Some(folder.path().to_owned()), project: Some(project.clone()), ..Globals::default() };
    let missing = |text: &str, strict: bool| -> Vec<String> {
        std::fs::write(folder.path().join("mcp.json"), text).expect("a file");
        let setup = Setup::from_files(&globals).expect("it can be read");
        setup.missing(strict).into_iter().map(|misuse| misuse.what).collect()
    };
    let text = r#"{"mcpServers": {"a": {"command": 1}, "b": {"url": 2, "required": true}, "off": {"url": 3, "enabled": false}}}"#;
    let needed = missing(text, false);
    assert!(needed.len() == 1 && needed[0].starts_with("the server `b` cannot be used"), "{needed:?}");
    assert_eq!(missing(text, true).len(), 2);
    // A whole file may hold anything.
    assert_eq!(missing("{,", false), Vec::<String>::new());
    let lost = missing("{,", true);
    assert!(lost.len() == 1 && lost[0].ends_with("the servers of the user scope cannot be read"), "{lost:?}");
}
