//! Files that the user names for an output. A symbolic link is not followed: a repository may contain one that leads
//! elsewhere. New files are for their owner only.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
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

/// Creates a file, or opens the existing one to read it and to append to it.
pub(crate) fn create_or_append(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    open_existing(path, OpenOptions::new().read(true).append(true))
}

/// Creates a file, or opens the existing one, which keeps its content and permissions. A device such as `/dev/null` can
/// be opened; a pipe or a socket cannot, because waiting for its other end could take forever.
pub(crate) fn create_or_open(path: &Path) -> io::Result<File> {
    match create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    open_existing(path, OpenOptions::new().write(true))
}

/// Opens a file that exists.
fn open_existing(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let opened = options.custom_flags(flags).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => invalid("it is a symbolic link"),
        Some(Errno::NXIO) => invalid(NOT_A_FILE),
        _ => error,
    })?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(invalid(NOT_A_FILE));
    }
    // Only the opening must not wait.
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

const NOT_A_FILE: &str = "it is not a file, but a pipe, a socket or a disk";

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Removes the content of a file. A device has no content that stays.
pub(crate) fn truncate(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}
