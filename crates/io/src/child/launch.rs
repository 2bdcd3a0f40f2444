//! Prepares everything that a program needs before its process is created.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Access, access};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::spec::ChildSpec;
use crate::environment::search_folders;

/// `PATH` if the environment has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program, its arguments and environment, and its three streams.
pub(super) struct Launch {
    /// The file to execute.
    pub(super) program: PathBuf,
    /// `argv`: the command and its arguments.
    pub(super) arguments: Vec<OsString>,
    /// The whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<PathBuf>,
    /// stdin, stdout and stderr. None has a descriptor below 3.
    pub(super) streams: [OwnedFd; 3],
}

/// The parent's ends of the pipes.
pub(super) struct Ends {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Launch {
    /// Creates pipes for all three streams.
    pub(super) fn piped(spec: &ChildSpec) -> io::Result<(Self, Ends)> {
        let (input, stdin) = io::pipe()?;
        let (stdout, output) = io::pipe()?;
        let (stderr, errors) = io::pipe()?;
        let launch = Self::new(spec, [input.into(), output.into(), errors.into()])?;
        Ok((launch, Ends { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() }))
    }

    /// Uses no input, and one file for all output.
    pub(super) fn logged(spec: &ChildSpec, log: File) -> io::Result<Self> {
        let errors = log.try_clone()?;
        Self::new(spec, [File::open("/dev/null")?.into(), log.into(), errors.into()])
    }

    fn new(spec: &ChildSpec, [input, output, errors]: [OwnedFd; 3]) -> io::Result<Self> {
        let environment: Vec<_> =
            spec.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        let program = find(&spec.command, path)?;
        let arguments = std::iter::once(&spec.command).chain(&spec.args).cloned().collect();
        let streams =
            [above_standard_streams(input)?, above_standard_streams(output)?, above_standard_streams(errors)?];
        Ok(Self { program, arguments, environment, cwd: spec.cwd.clone(), streams })
    }
}

/// Moves a stream to a descriptor above 2. A process that was started without standard streams assigns the first three
/// descriptors to other files, and `dup2` in the child would overwrite them.
fn above_standard_streams(stream: OwnedFd) -> io::Result<OwnedFd> {
    if stream.as_raw_fd() > 2 { Ok(stream) } else { Ok(fcntl_dupfd_cloexec(&stream, 3)?) }
}

/// Returns the file of a command: a path unchanged, a name by the child's `PATH`.
fn find(command: &OsStr, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return Ok(command.into());
    }
    let mut problem = Errno::NOENT;
    for folder in search_folders(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        let file = folder.join(command);
        if !file.is_file() {
            continue;
        }
        match access(&file, Access::EXEC_OK) {
            Ok(()) => return Ok(file),
            Err(error) => problem = error,
        }
    }
    Err(problem.into())
}
