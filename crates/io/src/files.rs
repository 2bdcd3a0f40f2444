//! Replacing files as a whole: a reader sees all of the old contents or all of the new ones, also after a crash.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// How a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceOptions {
    /// The permissions of the new file.
    pub mode: FileMode,
    /// What reaches the disk before the call returns.
    pub durability: Durability,
    /// What happens if the folder does not exist.
    pub folder: MissingFolder,
    /// Whether a symbolic link stays and its target is replaced. Otherwise the link itself is replaced.
    pub follow_symlinks: bool,
}

/// The permissions of a file that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// Only the owner can read and write it, from the moment it is created.
    Private,
    /// What the umask of the process allows.
    Default,
    /// Those of the file that is replaced, or the default if the file is new.
    Preserve,
}

/// What reaches the disk before a replacement returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing in particular: the operating system writes when it likes. After a power failure the file may be empty.
    Unsynced,
    /// The contents, before the file gets its name. After a power failure either the old file or the new one exists.
    Contents,
    /// The contents and the name. A folder that cannot be synchronized is logged: some file systems do not support that,
    /// and do not need it.
    ContentsAndName,
    /// The contents and the name. A folder that cannot be synchronized is an error.
    ContentsAndNameStrict,
}

/// What happens if the folder of a file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFolder {
    /// The replacement fails.
    Fail,
    /// The folder and its parents are created.
    Create,
    /// The folder and its parents are created, and only the owner can open them.
    CreatePrivate,
}

/// A file that has been written beside the one that it will replace. More can be appended. Dropping it removes it.
#[derive(Debug)]
pub struct StagedFile {
    temporary: TemporaryPath,
    file: File,
    target: PathBuf,
    durability: Durability,
    /// Whether something was appended since the contents reached the disk.
    is_appended: bool,
}

/// Replaces the contents of a file, or creates it. Returns the new file, open for writing at its end.
pub fn replace_file(path: &Path, contents: &[u8], options: ReplaceOptions) -> io::Result<File> {
    StagedFile::write(path, contents, options)?.commit()
}

/// Creates a file that only its owner can read and write. Fails if the path exists, whatever is there. If it cannot be
/// written, for example because the disk is full, nothing is left of it.
pub fn create_private_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let created = TemporaryPath { path: path.to_owned(), is_finished: false };
    // The umask may have removed some of the permissions.
    file.set_permissions(Permissions::from_mode(0o600))?;
    write_whole(created, file, contents)
}

/// Writes a new file, which is removed after a failure.
fn write_whole(mut created: TemporaryPath, mut file: File, contents: &[u8]) -> io::Result<()> {
    file.write_all(contents)?;
    file.sync_all()?;
    created.is_finished = true;
    Ok(())
}

impl StagedFile {
    /// Writes the new contents to a temporary file in the same folder. The file at `path` is not touched yet.
    pub fn write(path: &Path, contents: &[u8], options: ReplaceOptions) -> io::Result<Self> {
        let target = if options.follow_symlinks { resolve(path)? } else { path.to_owned() };
        check_replaceable(&target)?;
        let folder = folder_of(&target)?;
        create_folder(folder, options.folder)?;
        let preserved = match options.mode {
            FileMode::Preserve => fs::metadata(&target).ok().map(|old| old.permissions().mode() & 0o777),
            FileMode::Private | FileMode::Default => None,
        };
        let created_with = match options.mode {
            FileMode::Private => 0o600,
            FileMode::Default | FileMode::Preserve => preserved.unwrap_or(0o666),
        };
        let (temporary, mut file) = create_temporary(folder, created_with)?;
        file.write_all(contents)?;
        let exact = match options.mode {
            FileMode::Private => Some(0o600),
            FileMode::Default | FileMode::Preserve => preserved,
        };
        if let Some(mode) = exact {
            // The umask may have removed some of the permissions.
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        if options.durability != Durability::Unsynced {
            file.sync_all()?;
        }
        Ok(Self { temporary, file, target, durability: options.durability, is_appended: false })
    }

    /// The file that will be replaced, with symbolic links resolved if they are followed.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Replaces the file. Returns the new one, open for writing at its end.
    pub fn commit(self) -> io::Result<File> {
        let Self { mut temporary, file, target, durability, is_appended } = self;
        check_replaceable(&target)?;
        if is_appended && durability != Durability::Unsynced {
            file.sync_all()?;
        }
        fs::rename(&temporary.path, &target)?;
        temporary.is_finished = true;
        let sync_folder = || File::open(folder_of(&target)?)?.sync_all();
        match durability {
            Durability::Unsynced | Durability::Contents => {}
            Durability::ContentsAndName => {
                if let Err(error) = sync_folder() {
                    tracing::debug!(%error, file = %target.display(), "cannot synchronize the folder of a replaced file");
                }
            }
            Durability::ContentsAndNameStrict => sync_folder()?,
        }
        Ok(file)
    }
}

impl io::Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_appended = true;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The path of an unfinished file, which is removed on drop unless it has been renamed or finished.
#[derive(Debug)]
struct TemporaryPath {
    path: PathBuf,
    is_finished: bool,
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that a path is free or names a regular file. A rename would replace a device or a pipe, and whatever writes to
/// it would write to a file. A symbolic link that is not followed is replaced itself.
fn check_replaceable(target: &Path) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(found) if !found.is_file() && !found.is_symlink() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it exists and is not a regular file"))
        }
        _ => Ok(()),
    }
}

/// Returns where a file is, with symbolic links resolved.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.symlink_metadata() {
            Ok(_) => Err(io::Error::other("the target of the symbolic link does not exist")),
            Err(_) => std::path::absolute(path),
        },
        resolved => resolved,
    }
}

fn folder_of(file: &Path) -> io::Result<&Path> {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(folder) => Ok(folder),
        None => Err(io::Error::other("the path does not name a file in a folder")),
    }
}

fn create_folder(folder: &Path, missing: MissingFolder) -> io::Result<()> {
    match missing {
        MissingFolder::Fail => Ok(()),
        MissingFolder::Create => DirBuilder::new().recursive(true).create(folder),
        MissingFolder::CreatePrivate => create_private_folder(folder),
    }
}

/// Creates a folder and its missing parents. Only the owner can open those that are created, whatever the umask. The
/// permissions of existing folders do not change.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_folder(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        // The umask may have removed some of the permissions.
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(0o700)),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a new file with a random name. Its permissions hold from the first moment, and no existing file is opened.
fn create_temporary(folder: &Path, mode: u32) -> io::Result<(TemporaryPath, File)> {
    loop {
        let path = folder.join(format!(".wharf-{:016x}", fastrand::u64(..)));
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((TemporaryPath { path, is_finished: false }, created?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OPTIONS: ReplaceOptions = ReplaceOptions {
        mode: FileMode::Default,
        durability: Durability::Unsynced,
        folder: MissingFolder::Fail,
        follow_symlinks: false,
    };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_created_and_replaced_and_nothing_else_remains() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let durabilities = [
            Durability::Unsynced,
            Durability::Contents,
            Durability::ContentsAndName,
            Durability::ContentsAndNameStrict,
        ];
        for durability in durabilities {
            let contents = format!("{durability:?}");
            replace_file(&file, contents.as_bytes(), ReplaceOptions { durability, ..OPTIONS }).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), contents);
            assert_eq!(names(folder.path()), ["file"]);
        }
    }

    #[test]
    fn the_returned_file_is_the_new_one_and_can_be_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = replace_file(&path, b"one", OPTIONS).unwrap();
        file.write_all(b" two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
    }

    #[test]
    fn a_staged_file_is_appended_to_before_it_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let options = ReplaceOptions { durability: Durability::ContentsAndName, ..OPTIONS };
        let mut staged = StagedFile::write(&path, b"one", options).unwrap();
        staged.write_all(b" two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        staged.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
    }

    #[test]
    fn an_open_reader_keeps_the_old_contents() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        let reader = File::open(&file).unwrap();
        replace_file(&file, b"new", OPTIONS).unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "old");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn a_private_file_is_closed_to_others_before_it_replaces_an_open_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        let options = ReplaceOptions { mode: FileMode::Private, ..OPTIONS };
        let staged = StagedFile::write(&file, b"new", options).unwrap();
        assert_eq!(mode(&staged.temporary.path), 0o600);
        staged.commit().unwrap();
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn preserved_permissions_ignore_the_umask_and_a_new_file_follows_it() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let file = folder.path().join("file");
        let options = ReplaceOptions { mode: FileMode::Preserve, ..OPTIONS };
        replace_file(&file, b"", options).unwrap();
        assert_eq!(mode(&file), mode(&plain));
        for old in [0o666, 0o640, 0o600] {
            fs::set_permissions(&file, Permissions::from_mode(old)).unwrap();
            replace_file(&file, b"", options).unwrap();
            assert_eq!(mode(&file), old);
        }
        replace_file(&file, b"", OPTIONS).unwrap();
        assert_eq!(mode(&file), mode(&plain));
    }

    #[test]
    fn a_missing_folder_is_created_on_request_only() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("a/b/file");
        let error = replace_file(&missing, b"", OPTIONS).unwrap_err();
        assert_eq!((error.kind(), error.raw_os_error().is_some()), (io::ErrorKind::NotFound, true));
        let private = ReplaceOptions { folder: MissingFolder::CreatePrivate, ..OPTIONS };
        replace_file(&missing, b"", private).unwrap();
        assert_eq!(["a", "a/b"].map(|made| mode(&folder.path().join(made))), [0o700; 2]);
        let open = ReplaceOptions { folder: MissingFolder::Create, ..OPTIONS };
        replace_file(&folder.path().join("c/file"), b"", open).unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        assert_eq!(mode(&folder.path().join("c")), mode(&folder.path().join("d")));
    }

    #[test]
    fn private_files_and_folders_do_not_depend_on_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        // Each test has its own process, so the umask of others does not change.
        for umask in [0o000, 0o077, 0o377, 0o777] {
            let name = format!("{umask:o}/inner/file");
            let file = folder.path().join(&name);
            let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
            let options = ReplaceOptions { mode: FileMode::Private, folder: MissingFolder::CreatePrivate, ..OPTIONS };
            let replaced = replace_file(&file, b"secret", options);
            rustix::process::umask(before);
            replaced.unwrap();
            assert_eq!(mode(&file), 0o600, "{name}");
            assert_eq!([file.parent().unwrap(), file.parent().unwrap().parent().unwrap()].map(mode), [0o700; 2]);
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        create_private_folder(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o755, "an existing folder is not changed");
    }

    #[test]
    fn a_symbolic_link_is_followed_on_request_and_replaced_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let target = elsewhere.join("target");
        fs::write(&target, "old").unwrap();
        let link = folder.path().join("link");
        symlink(&target, &link).unwrap();
        let followed = ReplaceOptions { follow_symlinks: true, ..OPTIONS };
        let staged = StagedFile::write(&link, b"new", followed).unwrap();
        assert_eq!(staged.target(), target.canonicalize().unwrap());
        staged.commit().unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        replace_file(&link, b"own", OPTIONS).unwrap();
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        let dangling = folder.path().join("dangling");
        symlink("nowhere", &dangling).unwrap();
        let error = replace_file(&dangling, b"", followed).unwrap_err();
        assert_eq!(error.to_string(), "the target of the symbolic link does not exist");
    }

    #[test]
    fn what_is_not_a_regular_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        symlink(&pipe, &link).unwrap();
        let followed = ReplaceOptions { follow_symlinks: true, ..OPTIONS };
        for (path, options) in [(&pipe, OPTIONS), (&pipe, followed), (&link, followed)] {
            let error = replace_file(path, b"new", options).unwrap_err();
            assert_eq!(error.to_string(), "it exists and is not a regular file");
        }
        assert!(!pipe.symlink_metadata().unwrap().is_file());
        // One that appears while the new contents are written is not replaced either.
        let late = folder.path().join("late");
        let staged = StagedFile::write(&late, b"new", OPTIONS).unwrap();
        fs::rename(&pipe, &late).unwrap();
        assert!(staged.commit().is_err() && !late.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn a_new_private_file_replaces_nothing_and_is_removed_if_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        create_private_file(&file, b"one").unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap()), (0o600, b"one".to_vec()));
        let link = folder.path().join("link");
        symlink("nowhere", &link).unwrap();
        for taken in [&file, &link] {
            assert_eq!(create_private_file(taken, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&file).unwrap(), b"one");
        let path = folder.path().join("unfinished");
        fs::write(&path, "").unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(write_whole(TemporaryPath { path: path.clone(), is_finished: false }, full, b"x").is_err());
        assert!(!path.exists());
    }

    #[test]
    fn the_temporary_file_is_removed_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("occupied");
        fs::create_dir(&occupied).unwrap();
        assert!(replace_file(&occupied, b"", OPTIONS).is_err());
        drop(StagedFile::write(&folder.path().join("file"), b"", OPTIONS).unwrap());
        assert_eq!(names(folder.path()), ["occupied"]);
    }
}
