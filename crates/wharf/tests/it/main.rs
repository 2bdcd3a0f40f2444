//! The public API of the facade, and the structure of the workspace.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod adapters;
mod arrows;
mod documents;
mod factories;
mod gather;
mod server;
mod steps;
mod structure;

use std::path::{Path, PathBuf};

/// Collects every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}
