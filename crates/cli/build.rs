//! Adds the commit and its date to the version: from git in a checkout, or from the environment of a packager. Without
//! both, as in an unpacked archive, the version has only its number.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit and its date, for builds without git: `WHARF_COMMIT=05459fd WHARF_COMMIT_DATE=2026-11-17`.
const VARIABLES: [&str; 2] = ["WHARF_COMMIT", "WHARF_COMMIT_DATE"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for variable in VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let number = env!("CARGO_PKG_VERSION");
    let version = match from_environment().or_else(from_git) {
        Some(commit) => format!("{number} ({commit})"),
        None => number.to_owned(),
    };
    println!("cargo:rustc-env=WHARF_VERSION={version}");
}

#[expect(clippy::disallowed_methods, reason = "a build script is configured by its environment")]
fn from_environment() -> Option<String> {
    let [commit, date] = VARIABLES.map(|name| std::env::var(name).ok().filter(|value| is_plain(value)));
    Some(format!("{} {}", commit?, date?))
}

fn from_git() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    // An archive that was unpacked inside of another repository is not a part of it.
    let top = PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root {
        return None;
    }
    // These files change with every commit and checkout, and with nothing else.
    for name in ["HEAD", "logs/HEAD"] {
        let file = root.join(git(&root, &["rev-parse", "--git-path", name])?);
        // Cargo runs the script every time if a file does not exist.
        if file.exists() {
            println!("cargo:rerun-if-changed={}", file.display());
        }
    }
    git(&root, &["log", "-1", "--date=short", "--format=%h %cd"]).filter(|text| is_plain(text))
}

/// Runs git without what a hook of git passes on.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Whether a text can be a part of a version.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() < 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || " -.".contains(c))
}
