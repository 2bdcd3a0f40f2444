//! The history of typed lines, in a file for its owner only. Lines with a secret are not stored.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wharf::config::looks_secret;
use wharf::{Durability, FileMode, MissingFolder, Redactor, ReplaceOptions, replace_file};

/// How many lines are stored.
pub(super) const MAX_LINES: usize = 1000;
/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// A longer line is not stored.
const MAX_LINE_BYTES: usize = 1000;

/// How the file is written: as a whole, because another program may be reading it.
const HISTORY_FILE: ReplaceOptions = ReplaceOptions {
    mode: FileMode::Private,
    durability: Durability::Unsynced,
    folder: MissingFolder::CreatePrivate,
    follow_symlinks: false,
};

/// The lines of earlier sessions and of this one.
pub(super) struct History {
    file: Option<PathBuf>,
    redactor: Redactor,
    /// The lines that this session added.
    added: Vec<String>,
}

impl History {
    pub(super) fn open(file: Option<&Path>, redactor: Redactor) -> Self {
        Self { file: file.map(Path::to_owned), redactor, added: Vec::new() }
    }

    /// Returns the stored lines.
    pub(super) fn lines(&self) -> Vec<String> {
        self.file.as_deref().map(read).unwrap_or_default()
    }

    /// Adds a line, unless it has a secret, begins with a space, or repeats the last one. Returns whether it was added.
    pub(super) fn add(&mut self, line: &str) -> bool {
        let line = line.trim_end();
        let is_stored = !line.is_empty()
            && !line.starts_with(' ')
            && line.len() <= MAX_LINE_BYTES
            && !line.chars().any(char::is_control)
            && self.added.last().is_none_or(|last| last != line)
            && !has_secret(line, &self.redactor);
        if is_stored {
            self.added.push(line.to_owned());
            self.save();
        }
        is_stored
    }

    /// Adds the last line to the file. A history that cannot be written costs only itself.
    fn save(&self) {
        let (Some(file), Some(line)) = (&self.file, self.added.last()) else { return };
        let mut lines = read(file);
        lines.push(line.clone());
        let first = lines.len().saturating_sub(MAX_LINES);
        let text = lines[first..].iter().fold(String::new(), |text, line| text + line + "\n");
        let _ = replace_file(file, text.as_bytes(), HISTORY_FILE);
    }
}

fn read(file: &Path) -> Vec<String> {
    let is_ours = file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE_BYTES);
    let mut text = String::new();
    let opened = is_ours.then(|| File::open(file).ok()).flatten();
    let is_read = opened.is_some_and(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text).is_ok());
    if !is_read {
        return Vec::new();
    }
    text.lines().filter(|line| !line.chars().any(char::is_control)).map(str::to_owned).collect()
}

/// Whether a line contains a known secret, or a value that looks like one.
fn has_secret(line: &str, redactor: &Redactor) -> bool {
    if redactor.redact(line) != line {
        return true;
    }
    let words = shlex::split(line).unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect());
    let pairs: Vec<(&str, &str)> = words.iter().map(|word| word.split_once('=').unwrap_or(("", word))).collect();
    if pairs.iter().any(|(name, value)| looks_secret(name, value)) {
        return true;
    }
    let Some(start) = line.find('{') else { return false };
    if let Ok(value) = serde_json::from_str::<Value>(&line[start..]) {
        return contains_secret("", &value);
    }
    // Perhaps it is quoted. What cannot be checked is not stored.
    let objects: Vec<&str> = pairs.iter().map(|(_, value)| *value).filter(|value| value.contains('{')).collect();
    let is_unsafe = |text: &&str| serde_json::from_str(text).map_or(true, |value: Value| contains_secret("", &value));
    objects.is_empty() || objects.iter().any(is_unsafe)
}

fn contains_secret(name: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => looks_secret(name, text),
        Value::Array(items) => items.iter().any(|item| contains_secret(name, item)),
        Value::Object(fields) => fields.iter().any(|(name, value)| contains_secret(name, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use wharf::Secret;

    #[test]
    fn lines_are_stored_privately_and_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/repl_history");
        let mut history = History::open(Some(&file), Redactor::new([Secret::new("t0ken-of-the-server")]));
        for line in [
            "add a=1 b=2",
            "add a=1 b=2",
            "echo text=t0ken-of-the-server",
            "login password=hunter22hunter",
            r#"login {"user": "me", "password": "hunter22hunter"}"#,
            r#"login password=hunter33hunter data={"a":1}"#,
            r#"login '{"password":"hunter22hunter"}'"#,
            r#"login {"password":"hunter22hunter",}"#,
            r#"login data='{"password":"hunter55hunter"}'"#,
            r#"add '{"a": 1}'"#,
            " echo text=private",
            "echo text=a\u{7}b",
            "tools",
        ] {
            history.add(line);
        }
        assert_eq!(history.lines(), ["add a=1 b=2", r#"add '{"a": 1}'"#, "tools"]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut other = History::open(Some(&file), Redactor::default());
        other.add("help");
        history.add("prompts");
        assert_eq!(history.lines(), ["add a=1 b=2", r#"add '{"a": 1}'"#, "tools", "help", "prompts"]);
    }

    #[test]
    fn the_file_does_not_grow_and_an_odd_one_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("h");
        std::fs::write(&file, "x\n".repeat(MAX_LINES)).unwrap();
        let mut history = History::open(Some(&file), Redactor::default());
        history.add("last");
        assert_eq!((history.lines().len(), history.lines().last().unwrap().as_str()), (MAX_LINES, "last"));
        std::fs::write(&file, b"\xff\xfe").unwrap();
        assert_eq!(history.lines(), Vec::<String>::new());
        assert_eq!(History::open(None, Redactor::default()).lines(), Vec::<String>::new());
    }
}
