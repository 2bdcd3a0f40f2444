//! Detects changed files by polling.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::jsonc;

/// Files that are polled for changes. Only the content counts: a file that was only touched has not changed.
#[derive(Debug)]
pub struct WatchedFiles {
    files: Vec<WatchedFile>,
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    stamp: Option<Stamp>,
    content: Content,
    /// Whether a second poll found the same stamp and content. Two writes within one tick of the file system's clock
    /// have the same stamp, so a stamp is trusted only after that.
    is_settled: bool,
}

/// File metadata that changes when the content does.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Missing,
    Unreadable,
    Hash(Vec<u8>),
}

impl WatchedFiles {
    /// Watches files, which need not exist yet. Their current content counts as seen.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let watch =
            |path: PathBuf| WatchedFile { stamp: stamp(&path), content: content(&path), is_settled: false, path };
        Self { files: paths.into_iter().map(watch).collect() }
    }

    /// Returns whether the content of any file changed since the last call.
    pub fn changed(&mut self) -> bool {
        // Polls all files, so that two changes are reported together.
        let changes: Vec<bool> = self.files.iter_mut().map(WatchedFile::poll).collect();
        changes.contains(&true)
    }
}

impl WatchedFile {
    fn poll(&mut self) -> bool {
        let stamp = stamp(&self.path);
        let is_same = stamp == self.stamp;
        if is_same && self.is_settled {
            return false;
        }
        self.stamp = stamp;
        let content = content(&self.path);
        let changed = content != self.content;
        self.is_settled = is_same && !changed;
        self.content = content;
        changed
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some(Stamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

fn content(path: &Path) -> Content {
    match jsonc::read_file(path) {
        Ok(None) => Content::Missing,
        Ok(Some(text)) => Content::Hash(Sha256::digest(text.as_bytes()).to_vec()),
        Err(_) => Content::Unreadable,
    }
}
