//! The structure inside each crate and the vocabulary of the whole repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::files;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The source of one crate: the code of every file, without comments and tests, by module path.
struct CrateSource {
    code: BTreeMap<Vec<String>, String>,
    /// Names that a module re-exports, with the path they are re-exported from.
    reexports: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl CrateSource {
    fn read(src: &Path) -> Self {
        let mut paths = Vec::new();
        files(src, &mut paths);
        let mut code = BTreeMap::new();
        for path in paths {
            let relative = path.strip_prefix(src).expect("a file of the crate").with_extension("");
            let module: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.iter().any(|part| part == "tests" || part == "bin") {
                continue;
            }
            let module = if module == ["lib"] || module == ["main"] { Vec::new() } else { module };
            let text = std::fs::read_to_string(&path).expect("a source file");
            code.insert(module, without_comments_and_tests(&text));
        }
        let mut source = Self { code, reexports: BTreeMap::new() };
        for (module, text) in &source.code {
            for (is_public, path) in uses(text) {
                let Some(path) = source.absolute(module, &path) else { continue };
                if let (true, Some(name)) = (is_public, path.last()) {
                    source.reexports.insert((module.clone(), name.clone()), path);
                }
            }
        }
        source
    }

    /// Turns a path that starts with `crate`, `self`, `super` or a child module into one from the root of the crate.
    fn absolute(&self, module: &[String], path: &str) -> Option<Vec<String>> {
        let mut parts = path.split("::").map(str::to_owned).collect::<Vec<_>>();
        let mut base = module.to_vec();
        match parts[0].as_str() {
            "crate" => {
                base.clear();
                parts.remove(0);
            }
            "self" => drop(parts.remove(0)),
            "super" => {
                while parts.first().is_some_and(|part| part == "super") {
                    base.pop();
                    parts.remove(0);
                }
            }
            child => {
                let mut full = base.clone();
                full.push(child.to_owned());
                self.code.get(&full)?;
            }
        }
        base.extend(parts);
        Some(base)
    }

    /// Returns the module that defines what a path names; re-exports are followed.
    fn module_of(&self, path: &[String], depth: usize) -> Vec<String> {
        let mut end = 0;
        while end < path.len() && self.code.contains_key(&path[..=end]) {
            end += 1;
        }
        let module = path[..end].to_vec();
        let Some(name) = path.get(end) else { return module };
        match self.reexports.get(&(module.clone(), name.clone())) {
            Some(origin) if depth > 0 => self.module_of(origin, depth - 1),
            _ => module,
        }
    }

    /// Returns which top-level modules each top-level module imports, with one example of each import.
    fn imports(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        const MAX_REEXPORTS: usize = 6;
        let mut imports: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (module, text) in &self.code {
            let Some(from) = module.first() else { continue };
            let inline = inline_paths(text).into_iter().map(|path| (false, path));
            for (_, path) in uses(text).into_iter().chain(inline) {
                let Some(path) = self.absolute(module, &path) else { continue };
                let target = self.module_of(&path, MAX_REEXPORTS);
                if let Some(to) = target.first().filter(|to| *to != from) {
                    let example = format!("{} uses {}", module.join("/"), path.join("::"));
                    imports.entry(from.clone()).or_default().entry(to.clone()).or_insert(example);
                }
            }
        }
        imports
    }
}

fn without_comments_and_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the full paths of all `use` declarations, and whether each one is public.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for declaration in text.split(';') {
        let Some(line) = declaration.lines().position(|line| {
            let line = line.trim_start();
            line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "))
        }) else {
            continue;
        };
        let declaration = declaration.lines().skip(line).collect::<Vec<_>>().join(" ");
        let Some((before, tree)) = declaration.split_once("use ") else { continue };
        let mut paths = Vec::new();
        expand("", tree.trim(), &mut paths);
        found.extend(paths.into_iter().map(|path| (before.contains("pub"), path)));
    }
    found
}

/// Expands `a::{b, c::{d, e}}` into one path per name.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        if !path.is_empty() {
            found.push(format!("{prefix}{path}"));
        }
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = tree[open + 1..].trim_end();
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let mut depth = 0_i32;
    let mut start = 0;
    for (position, character) in inner.char_indices().chain([(inner.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, inner[start..position].trim(), found);
                start = (position + 1).min(inner.len());
            }
            _ => {}
        }
    }
}

/// Returns the paths that are written out in code, outside `use` declarations.
fn inline_paths(text: &str) -> Vec<String> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !is_path(c));
    let starts = ["crate::", "super::", "self::"];
    let paths = words.filter(|word| starts.iter().any(|start| word.starts_with(start)));
    paths.map(|path| path.trim_end_matches(':').to_owned()).collect()
}

/// Returns a cycle through `start`, if one exists.
fn cycle_through(start: &str, imports: &BTreeMap<String, BTreeMap<String, String>>) -> Option<Vec<String>> {
    let mut paths = vec![vec![start.to_owned()]];
    let mut visited = BTreeSet::new();
    while let Some(path) = paths.pop() {
        let last = path.last().expect("a path has a start");
        for next in imports.get(last).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                return Some(path);
            }
            if visited.insert(next.clone()) {
                paths.push([path.as_slice(), std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

#[test]
fn top_level_modules_of_a_crate_import_in_one_direction() {
    let mut report = String::new();
    let mut crates = 0;
    for entry in std::fs::read_dir(repository().join("crates")).expect("the crates") {
        let folder = entry.expect("a crate").path();
        let imports = CrateSource::read(&folder.join("src")).imports();
        crates += 1;
        for module in imports.keys() {
            let Some(cycle) = cycle_through(module, &imports) else { continue };
            let _ = writeln!(report, "{}: {} → {module}", folder.display(), cycle.join(" → "));
            for pair in [cycle.as_slice(), std::slice::from_ref(module)].concat().windows(2) {
                let _ = writeln!(report, "    {}", imports[&pair[0]][&pair[1]]);
            }
            break;
        }
    }
    assert!(crates > 8, "{crates} crates");
    assert!(report.is_empty(), "modules import each other:\n{report}");
}

#[test]
fn import_trees_are_expanded_and_cycles_are_found() {
    let text = "use crate::a::{B, c::{D, E as F}};\npub use self::g::H;\nfn f() { crate::i::j(); }";
    let found: Vec<_> = uses(text).into_iter().map(|(is_public, path)| format!("{is_public} {path}")).collect();
    assert_eq!(found, ["false crate::a::B", "false crate::a::c::D", "false crate::a::c::E", "true self::g::H"]);
    assert_eq!(inline_paths("crate::i::j(super::k)"), ["crate::i::j", "super::k"]);
    let edge = |to: &str| BTreeMap::from([(to.to_owned(), String::new())]);
    let imports =
        BTreeMap::from([("a".to_owned(), edge("b")), ("b".to_owned(), edge("c")), ("c".to_owned(), edge("b"))]);
    assert_eq!(cycle_through("a", &imports), None);
    assert_eq!(cycle_through("b", &imports), Some(vec!["b".to_owned(), "c".to_owned()]));
}

/// Words that hide the actor (caller, user, client, host, server, model) or that readers do not search for.
const BANNED_WORDS: [&str; 9] =
    ["whoever", "whomever", "somebody", "anybody", "anew", "mend", "mends", "mended", "mending"];

/// Phrases of the old vocabulary.
const BANNED_PHRASES: [&str; 6] =
    ["is to be asked", "let go of", "came of it", "what comes of", "in one piece", "under way"];

/// Type names that were replaced by the field's own nouns.
const RETIRED_NAMES: [&str; 43] = [
    "Abilities",
    "Asker",
    "Beliefs",
    "Bell",
    "Callee",
    "Chooser",
    "Clerk",
    "Crew",
    "Enlisted",
    "Explorer",
    "Failing",
    "Followed",
    "Governor",
    "Introduction",
    "Keeper",
    "Lanes",
    "LastWords",
    "Letter",
    "Manage",
    "Manner",
    "Mate",
    "Misuse",
    "Nearness",
    "NoAsker",
    "Offered",
    "Outfit",
    "Patience",
    "Places",
    "Posted",
    "Reach",
    "Refusals",
    "Remembered",
    "Repetition",
    "Restarts",
    "Seat",
    "Shelf",
    "Shelves",
    "Speaker",
    "Standing",
    "Story",
    "Unwanted",
    "Wish",
    "Wishes",
];

#[test]
fn source_and_guides_use_plain_words() {
    let root = repository();
    let mut paths = Vec::new();
    for folder in ["crates", "benches/src", "examples", "docs", "peers", "scripts"] {
        files(&root.join(folder), &mut paths);
    }
    paths.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)));
    let this_test = Path::new(file!()).file_name().expect("a file name");
    let mut report = String::new();
    for path in &paths {
        // The guide to writing lists the words that it bans.
        if path.file_name() == Some(this_test) || path.ends_with("CONTRIBUTING.md") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let words: BTreeSet<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
            let banned = BANNED_WORDS.iter().filter(|word| words.contains(**word));
            let phrases = BANNED_PHRASES.iter().filter(|phrase| lower.contains(**phrase));
            let names: BTreeSet<&str> = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
            let is_code = path.extension().is_some_and(|extension| extension == "rs");
            let retired = RETIRED_NAMES.iter().filter(|name| is_code && names.contains(**name));
            for found in banned.chain(phrases).chain(retired) {
                let _ = writeln!(report, "{}:{}: {found}", path.display(), number + 1);
            }
        }
    }
    assert!(paths.len() > 300, "{} files", paths.len());
    assert!(report.is_empty(), "words to replace (CONTRIBUTING.md, \"How to write\"):\n{report}");
}
