//! The files of the log: one per server, and its predecessor. Several programs may write to one file at the same time.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use wharf::{ServerName, create_private_folder};

/// The size at which a file becomes the predecessor of a new one.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The age at which a file that is no longer written is removed.
const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// How much of a file is read. A larger file was not written by us.
const MAX_READ_BYTES: u64 = 4 * MAX_FILE_BYTES;
/// How often the files are opened again because one of them became the predecessor of another meanwhile.
const MAX_OPEN_ATTEMPTS: usize = 3;
const EXTENSION: &str = ".jsonl";
/// No name of a server contains a tilde.
const OLD_EXTENSION: &str = "~old.jsonl";

/// Returns the files of a server, the older one first.
pub(crate) fn paths_of(directory: &Path, server: &str) -> [PathBuf; 2] {
    [directory.join(format!("{server}{OLD_EXTENSION}")), directory.join(format!("{server}{EXTENSION}"))]
}

/// Returns the servers that have a log, sorted.
pub(crate) fn servers_in(directory: &Path) -> Vec<String> {
    let name = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.strip_suffix(OLD_EXTENSION).or_else(|| name.strip_suffix(EXTENSION)).map(str::to_owned)
    };
    let mut names: Vec<String> = files_in(directory).filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

/// Removes files that have not been written for a long time.
pub(super) fn remove_old(directory: &Path) {
    for path in files_in(directory) {
        let age = path.symlink_metadata().and_then(|found| found.modified()).map(|modified| modified.elapsed());
        let is_ours = path.to_str().is_some_and(|path| path.ends_with(EXTENSION));
        if is_ours && age.is_ok_and(|age| age.is_ok_and(|age| age > MAX_AGE)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A server's file, open for appending.
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    old_path: PathBuf,
}

impl LogFile {
    pub(super) fn open(directory: &Path, server: &ServerName) -> io::Result<Self> {
        create_private_folder(directory)?;
        let [old_path, path] = paths_of(directory, server.as_str());
        Ok(Self { file: append_to(&path)?, path, old_path })
    }

    /// Appends a line. One write, so that lines of several programs do not mix.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        if self.file.metadata()?.len() + line.len() as u64 > MAX_FILE_BYTES {
            self.rotate()?;
        }
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    /// Makes the file the predecessor of a new one, unless another program has done so already.
    fn rotate(&mut self) -> io::Result<()> {
        // The lock belongs to the file, not to its name: of two programs, the second finds another file at the path.
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        if is_at(&self.file, &self.path) {
            fs::rename(&self.path, &self.old_path)?;
        }
        // Dropping the old file unlocks it.
        self.file = append_to(&self.path)?;
        Ok(())
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

fn append_to(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Reads the lines of a server's files, also those that are added later.
pub(crate) struct LogReader {
    path: PathBuf,
    /// The file that is read, and how far.
    current: Option<(File, u64)>,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl LogReader {
    /// Reads everything that is logged. Returns the lines, and a reader of those that follow.
    pub(crate) fn open(directory: &Path, server: &str) -> io::Result<(Vec<String>, Self)> {
        let [old_path, path] = paths_of(directory, server);
        let mut attempt = 1;
        loop {
            let mut old = Self { path: old_path.clone(), current: None, partial: Vec::new() };
            let mut reader = Self { path: path.clone(), current: None, partial: Vec::new() };
            let mut lines = old.more()?;
            lines.extend(reader.more()?);
            // A file that became the predecessor meanwhile was not read.
            let is_stable = match &old.current {
                Some((file, _)) => is_at(file, &old_path),
                None => !old_path.exists(),
            };
            if is_stable || attempt == MAX_OPEN_ATTEMPTS {
                return Ok((lines, reader));
            }
            attempt += 1;
        }
    }

    /// Returns the lines that were added.
    pub(crate) fn more(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        // Checked before it is read: its last lines may be written just before it gets a successor.
        let is_current = self.current.as_ref().is_some_and(|(file, _)| is_at(file, &self.path));
        self.read(&mut lines)?;
        if !is_current {
            let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
            match OpenOptions::new().read(true).custom_flags(flags).open(&self.path) {
                Ok(file) => {
                    self.current = Some((file, 0));
                    self.partial.clear();
                    self.read(&mut lines)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(lines)
    }

    fn read(&mut self, lines: &mut Vec<String>) -> io::Result<()> {
        let Some((file, _)) = &self.current else { return Ok(()) };
        let length = file.metadata()?.len();
        self.read_with_length(length, lines)
    }

    /// Reads a file that had this length before. It may be longer by now.
    fn read_with_length(&mut self, length: u64, lines: &mut Vec<String>) -> io::Result<()> {
        let Some((file, read_to)) = &mut self.current else { return Ok(()) };
        // A file that became shorter has other lines.
        let unread = if length < *read_to { 0 } else { *read_to };
        let start = unread.max(length.saturating_sub(MAX_READ_BYTES));
        let mut bytes = std::mem::take(&mut self.partial);
        if start != *read_to || bytes.len() as u64 > MAX_READ_BYTES {
            bytes.clear();
        }
        let before = bytes.len();
        file.seek(SeekFrom::Start(start))?;
        file.take(MAX_READ_BYTES).read_to_end(&mut bytes)?;
        // What was added while it was read has been read too.
        *read_to = start + (bytes.len() - before) as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.partial = bytes.split_off(end);
        lines.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(directory: &Path) -> LogFile {
        LogFile::open(directory, &"s".parse().unwrap()).unwrap()
    }

    fn lines(directory: &Path) -> Vec<String> {
        LogReader::open(directory, "s").unwrap().0
    }

    #[test]
    fn files_are_private_and_have_the_lines_of_all_programs() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("logs");
        let (mut one, mut other) = (log(&directory), log(&directory));
        one.append("a").unwrap();
        other.append("b").unwrap();
        one.append("c").unwrap();
        assert_eq!(lines(&directory), ["a", "b", "c"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("s.jsonl"))), (0o700, 0o600));
        assert_eq!(servers_in(&directory), ["s"]);
    }

    #[test]
    fn a_full_file_is_replaced_once_and_the_last_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (log(folder.path()), log(folder.path()));
        let line = "x".repeat(1000);
        for number in 0..2500 {
            let log = if number % 2 == 0 { &mut one } else { &mut other };
            log.append(&format!("{number} {line}")).unwrap();
        }
        let total: u64 = files_in(folder.path()).map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(total <= 2 * MAX_FILE_BYTES, "{total}");
        let lines = lines(folder.path());
        let numbers: Vec<usize> = lines.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(*numbers.last().unwrap(), 2499);
        assert!(numbers.len() > 1000, "{}", numbers.len());
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no line in between is lost");
    }

    #[test]
    fn old_files_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["new.jsonl", "old.jsonl", "old.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let long_ago = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        for name in ["old.jsonl", "old.txt"] {
            File::options().write(true).open(folder.path().join(name)).unwrap().set_times(long_ago).unwrap();
        }
        remove_old(folder.path());
        let mut left: Vec<_> = files_in(folder.path()).map(|path| path.file_name().unwrap().to_owned()).collect();
        left.sort();
        assert_eq!(left, ["new.jsonl", "old.txt"]);
    }

    #[test]
    fn a_symbolic_link_is_neither_written_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "mine\n").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("s.jsonl")).unwrap();
        assert!(LogFile::open(folder.path(), &"s".parse().unwrap()).is_err());
        assert!(LogReader::open(folder.path(), "s").is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine\n");
    }

    #[test]
    fn a_line_that_is_added_while_the_file_is_read_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = log(folder.path());
        log.append("one").unwrap();
        let (_, mut reader) = LogReader::open(folder.path(), "s").unwrap();
        let length = reader.current.as_ref().unwrap().0.metadata().unwrap().len();
        log.append("two").unwrap();
        let mut lines = Vec::new();
        reader.read_with_length(length, &mut lines).unwrap();
        log.append("three").unwrap();
        lines.extend(reader.more().unwrap());
        assert_eq!(lines, ["two", "three"]);
        log.file.set_len(0).unwrap();
        log.append("four").unwrap();
        assert_eq!(reader.more().unwrap(), ["four"], "a file that became shorter is read again");
    }

    #[test]
    fn a_reader_follows_a_file_and_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = log(folder.path());
        log.append("one").unwrap();
        let (lines, mut reader) = LogReader::open(folder.path(), "s").unwrap();
        assert_eq!(lines, ["one"]);
        log.file.write_all(b"tw").unwrap();
        assert_eq!(reader.more().unwrap(), Vec::<String>::new());
        log.file.write_all(b"o\n").unwrap();
        assert_eq!(reader.more().unwrap(), ["two"]);
        log.append("three").unwrap();
        log.rotate().unwrap();
        log.append("four").unwrap();
        assert_eq!(reader.more().unwrap(), ["three", "four"]);
    }
}
