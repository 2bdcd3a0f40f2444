//! Finds the current project.

use std::path::{Path, PathBuf};

/// The configuration file of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    /// The project directory.
    pub root: PathBuf,
    /// The path of the file, whether or not it exists.
    pub file: PathBuf,
}

impl ProjectFile {
    /// The name of the file.
    pub const NAME: &'static str = ".mcp.json";

    /// Returns the file of the project in a directory.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), file: root.join(Self::NAME) }
    }
}

/// Finds the nearest `.mcp.json` in a directory or its parents.
///
/// The search ends at the first directory with `.git` (the root of a repository belongs to the project, its parents do
/// not) and before `ceiling`, usually the home directory: a file there is not part of a project, unless the search
/// starts there.
pub fn find_project(start: &Path, ceiling: Option<&Path>) -> Option<ProjectFile> {
    for dir in start.ancestors() {
        if Some(dir) == ceiling && dir != start {
            return None;
        }
        let project = ProjectFile::at(dir);
        // Broken links count too: reading them reports the reason.
        if project.file.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return Some(project);
        }
        if Some(dir) == ceiling || dir.join(".git").exists() {
            return None;
        }
    }
    None
}

/// Returns the directory for a project's file: where one exists, else the root of the repository, else the nearest
/// directory that is known as a project, else `start`.
pub fn project_root(start: &Path, ceiling: Option<&Path>, is_known: &dyn Fn(&Path) -> bool) -> PathBuf {
    if let Some(project) = find_project(start, ceiling) {
        return project.root;
    }
    let below = || start.ancestors().take_while(|dir| Some(*dir) != ceiling || *dir == start);
    let repository = below().find(|dir| dir.join(".git").exists());
    repository.or_else(|| below().find(|dir| is_known(dir))).unwrap_or(start).to_owned()
}
