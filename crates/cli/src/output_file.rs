//! Files that the user names for an output. A symbolic link is not followed: a repository may contain one that leads
//! elsewhere. New files are for their owner only.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Creates a file, which must not exist.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // The umask may have removed some of the permissions.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Creates a file, or opens the existing one, which keeps its content and permissions.
pub(crate) fn create_or_open(path: &Path) -> io::Result<File> {
    match create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().write(true).custom_flags(flags).open(path).map_err(|error| {
        if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            return io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link");
        }
        error
    })
}

/// Removes the content of a file. A device or a pipe has no content that stays.
pub(crate) fn truncate(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}
