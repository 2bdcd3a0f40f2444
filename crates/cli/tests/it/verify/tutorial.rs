//! The guide's tutorial, followed by a test.

use std::path::Path;

use crate::{Person, ran};

#[test]
fn the_tutorial_of_the_guide_works_step_by_step() {
    let guide = include_str!("../../../../../docs/verification.md");
    let person = Person::new();
    for (name, after) in [
        ("benchmark.yaml", "Save this as `benchmark.yaml`"),
        ("model.yaml", "Save this as `model.yaml`"),
        ("judge.yaml", "this as `judge.yaml`"),
    ] {
        let text = guide.split(after).nth(1).unwrap().split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        person.write(&format!("project/{name}"), text);
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_wharf")).parent().unwrap();
    let commands: Vec<&str> = guide.lines().filter_map(|line| line.strip_prefix("$ wharf ")).collect();
    let runnable: Vec<&&str> = commands.iter().filter(|command| !command.contains("anthropic:")).collect();
    assert!(runnable.len() >= 10, "{commands:?}");
    for command in runnable {
        let words = shlex::split(command).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut wharf = person.wharf(&words);
        wharf.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
        let ran = ran(wharf);
        assert_eq!(ran.code, 0, "`wharf {command}` said: {}{}", ran.out, ran.err);
    }
    assert!(person.path("project/results.csv").exists());
}
