//! A program that is about to be started: everything it needs is put together here, before there is a process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::ChildSpec;

/// Where programs are looked for if the environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program, what it is told, and its three streams.
pub(super) struct Launch {
    /// The file that is executed.
    pub(super) program: PathBuf,
    /// What it is told it was called, and its arguments.
    pub(super) arguments: Vec<OsString>,
    /// Its whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<PathBuf>,
    /// Its stdin, stdout and stderr. None of them is one of our own three.
    pub(super) streams: [OwnedFd; 3],
}

/// Our ends of the pipes to a new process.
pub(super) struct Ends {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Launch {
    /// With pipes for all three streams.
    pub(super) fn piped(spec: &ChildSpec) -> io::Result<(Self, Ends)> {
        let ((input, stdin), (stdout, output), (stderr, errors)) = (io::pipe()?, io::pipe()?, io::pipe()?);
        let launch = Self::new(spec, [input.into(), output.into(), errors.into()])?;
        Ok((launch, Ends { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() }))
    }

    /// Without input, and with one file for what it writes.
    pub(super) fn logged(spec: &ChildSpec, log: File) -> io::Result<Self> {
        let errors = log.try_clone()?;
        Self::new(spec, [File::open("/dev/null")?.into(), log.into(), errors.into()])
    }

    fn new(spec: &ChildSpec, [input, output, errors]: [OwnedFd; 3]) -> io::Result<Self> {
        let environment: Vec<_> =
            spec.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        let program = find(&spec.command, path, spec.cwd.as_deref())?;
        let arguments = std::iter::once(&spec.command).chain(&spec.args).cloned().collect();
        let streams = [out_of_the_way(input)?, out_of_the_way(output)?, out_of_the_way(errors)?];
        Ok(Self { program, arguments, environment, cwd: spec.cwd.clone(), streams })
    }
}

/// The same stream under a number that is not one of the first three, which a process that was started without them gives
/// to the next things it opens: there it would be written over.
fn out_of_the_way(stream: OwnedFd) -> io::Result<OwnedFd> {
    if stream.as_raw_fd() > 2 { Ok(stream) } else { Ok(fcntl_dupfd_cloexec(&stream, 3)?) }
}

/// The file behind a command: a path as it is, a name by the child's own `PATH`.
fn find(command: &OsStr, path: Option<&OsStr>, cwd: Option<&Path>) -> io::Result<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return Ok(command.into());
    }
    let mut problem = Errno::NOENT;
    for folder in std::env::split_paths(path.unwrap_or(OsStr::new(USUAL_PATH))) {
        // A folder that is not absolute is one of the folder the child runs in.
        let file = cwd.unwrap_or(Path::new("")).join(folder).join(command);
        if !file.is_file() {
            continue;
        }
        match access(&file, Access::EXEC_OK) {
            Ok(()) => return std::path::absolute(file),
            Err(error) => problem = error,
        }
    }
    Err(problem.into())
}
