//! Finding the project that somebody works in.

use std::path::{Path, PathBuf};

/// A project's own configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    /// The project's folder.
    pub root: PathBuf,
    /// The file, whether or not it exists.
    pub file: PathBuf,
}

impl ProjectFile {
    /// What a project's file is called.
    pub const NAME: &'static str = ".mcp.json";

    /// The file of a project at a folder.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), file: root.join(Self::NAME) }
    }
}

/// The nearest `.mcp.json` in a folder or the folders above it.
///
/// The search ends with the first folder that holds `.git` (the root of a repository belongs to the project, what is
/// above it does not), and before `ceiling`, which is the home folder as a rule: what lies there is nobody's project,
/// unless the search starts there.
pub fn find_project(start: &Path, ceiling: Option<&Path>) -> Option<ProjectFile> {
    for folder in start.ancestors() {
        if Some(folder) == ceiling && folder != start {
            return None;
        }
        let project = ProjectFile::at(folder);
        // A link that leads nowhere is found as well: it is refused with a reason when it is read.
        if project.file.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return Some(project);
        }
        if Some(folder) == ceiling || folder.join(".git").exists() {
            return None;
        }
    }
    None
}

/// The folder that a project's file belongs into: where one is found, else the root of the repository, else the folder
/// itself.
pub fn project_root(start: &Path, ceiling: Option<&Path>) -> PathBuf {
    if let Some(project) = find_project(start, ceiling) {
        return project.root;
    }
    let below = start.ancestors().take_while(|folder| Some(*folder) != ceiling || *folder == start);
    let mut repositories = below.filter(|folder| folder.join(".git").exists());
    repositories.next().unwrap_or(start).to_owned()
}
