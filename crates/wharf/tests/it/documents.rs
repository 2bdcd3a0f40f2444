//! The documents of the repository: their links, the files they name, and the tables that readers rely on.

use std::path::{Path, PathBuf};

use crate::files;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The documents, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    files(&repository().join("docs"), &mut paths);
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        paths.push(repository().join(name));
    }
    let is_text = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    paths.into_iter().filter(is_text).map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The lines of a section, without its heading.
fn section<'a>(document: &'a str, heading: &str) -> Vec<&'a str> {
    let level = heading.chars().take_while(|c| *c == '#').count();
    let is_end = |line: &&str| line.starts_with('#') && line.chars().take_while(|c| *c == '#').count() <= level;
    document.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !is_end(line)).collect()
}

/// The rows of the first table in some lines, without its head.
fn rows<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let table = lines.iter().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table.skip(2).copied().collect()
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for (path, document) in documents() {
        for target in document.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.contains(' ') {
                continue;
            }
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let has_anchor = |text: String| {
                wanted.is_empty() || text.lines().any(|line| line.starts_with('#') && anchor(line) == wanted)
            };
            let leads = if file.is_dir() { true } else { std::fs::read_to_string(&file).is_ok_and(has_anchor) };
            if !leads {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_source_file_that_a_document_names_exists() {
    let mut sources = Vec::new();
    for folder in ["crates", "examples", "benches"] {
        files(&repository().join(folder), &mut sources);
    }
    let sources: Vec<String> = sources.iter().map(|path| path.display().to_string()).collect();
    let mut missing = Vec::new();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let document = text(name);
        for code in
            document.split('`').skip(1).step_by(2).filter(|code| {
                code.strip_suffix(".rs").is_some() && !code.contains(['*', ' ']) && !code.contains("NAME")
            })
        {
            // A path may leave out `crates/` and `src/`.
            let parts: Vec<&str> = code.split('/').collect();
            let exists = sources.iter().any(|source| {
                let mut rest = source.rsplit('/').filter(|part| *part != "src");
                parts
                    .iter()
                    .rev()
                    .filter(|part| **part != "src" && **part != "crates")
                    .all(|part| rest.next() == Some(part))
            });
            if !exists {
                missing.push(format!("{name}: {code}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_guide_says_when_to_use_tools_and_what_they_cost() {
    let running = text("docs/running.md");
    let section = section(&running, "## When to use tools");
    assert_eq!(rows(&section).len(), 6);
    let prose = section.join(" ");
    assert!(prose.contains("cost more") && prose.contains("reproduce"), "{prose}");
    let reproducible = rows(&section).into_iter().find(|row| row.contains("same answer every time")).unwrap();
    assert!(reproducible.contains("`manual`"), "{reproducible}");
    assert!(running.contains("| `manual:FILE` |"), "what a manual model is");
}

#[test]
fn the_map_names_every_crate_and_the_parts_of_other_systems() {
    let architecture = text("ARCHITECTURE.md");
    for folder in std::fs::read_dir(repository().join("crates")).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(architecture.contains(&format!("\n  {name} ")), "{name}");
    }
    let parts =
        rows(&architecture.lines().skip_while(|line| !line.starts_with("Names of the same parts")).collect::<Vec<_>>());
    for part in [
        "client utilities",
        "agent port",
        "message port",
        "MCP connection",
        "loop",
        "conversions",
        "tool wrapper",
        "factory",
    ] {
        assert!(parts.iter().any(|row| row.contains(part)), "{part}");
    }
}

#[test]
fn the_test_guide_and_the_index_exist() {
    let contributing = text("CONTRIBUTING.md");
    assert!(section(&contributing, "## How tests are written").len() > 20);
    assert!(contributing.contains("## How to add a fault"));
    let index = text("docs/README.md");
    assert!(rows(&section(&index, "## How to …")).len() >= 10, "the index by task");
    let folder = repository().join("docs");
    let mut documents = Vec::new();
    files(&folder, &mut documents);
    for document in documents {
        let name = document.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        assert!(name == "README.md" || index.contains(&format!("({name}")), "{name} is not in the index");
    }
    let terms = text("docs/glossary.md");
    for term in ["catalog", "era", "scope", "session", "spill", "turn"] {
        assert!(terms.contains(&format!("\n| {term} |")), "{term}");
    }
}

#[test]
fn every_key_of_an_entry_is_documented() {
    let keys = text("crates/config/src/entry/keys.rs");
    let known = keys.split("const KNOWN").nth(1).unwrap().split("];").next().unwrap();
    let documented = text("docs/configuration.md");
    let missing: Vec<&str> =
        known.split('"').skip(1).step_by(2).filter(|key| !documented.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
