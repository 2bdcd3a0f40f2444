//! Whether files have changed since somebody last looked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::text;

/// Files that are looked at now and then. What counts is their content: a file that was only touched has not changed.
#[derive(Debug)]
pub struct WatchedFiles {
    files: Vec<Watch>,
}

#[derive(Debug)]
struct Watch {
    path: PathBuf,
    stamp: Option<Stamp>,
    content: Content,
    /// Whether a second look found stamp and content as they were. Two writes within one tick of the file system's
    /// clock have the same stamp, so a stamp is trusted only from then on.
    is_settled: bool,
}

/// What the file system says about a file without reading it.
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
    /// Watches files, which need not exist yet. What is in them now counts as seen.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let watch = |path: PathBuf| Watch { stamp: stamp(&path), content: content(&path), is_settled: false, path };
        Self { files: paths.into_iter().map(watch).collect() }
    }

    /// Whether the content of any of them is another one than last time.
    pub fn changed(&mut self) -> bool {
        // All of them are looked at, so that two changes are not told one after the other.
        let looks: Vec<bool> = self.files.iter_mut().map(Watch::look).collect();
        looks.contains(&true)
    }
}

impl Watch {
    fn look(&mut self) -> bool {
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
    match text::read(path) {
        Ok(None) => Content::Missing,
        Ok(Some(text)) => Content::Hash(Sha256::digest(text.as_bytes()).to_vec()),
        Err(_) => Content::Unreadable,
    }
}
