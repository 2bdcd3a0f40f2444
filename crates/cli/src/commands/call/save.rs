//! `wharf call --save DIR`: the images and audio clips of a result, as files.
//!
//! The server chooses the content and its type, so it chooses neither the name nor the place of a file: the name is that
//! of the tool, and the extension comes from a fixed list.

use std::io;
use std::path::{Path, PathBuf};

use base64::DecodeError;
use serde::Serialize;
use wharf::{ContentKind, ToolOutput, create_private_file, create_private_folder};

use crate::blob;

/// How many files one result may create.
const MAX_FILES: usize = 32;
/// How many names are tried for a file, until one is free.
const MAX_NAMES: usize = 10_000;
/// How much of a tool's name is in the name of a file.
const MAX_NAME_CHARS: usize = 60;

/// The extensions of media types. Any other content is `.bin`.
const EXTENSIONS: [(&str, &str); 17] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/tiff", "tiff"),
    ("image/svg+xml", "svg"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/aac", "aac"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/flac", "flac"),
    ("audio/webm", "weba"),
];

/// A saved image or audio clip.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedFile {
    pub(super) file: PathBuf,
    pub(super) mime_type: String,
    pub(super) bytes: usize,
}

/// An image or an audio clip of a result.
struct Media<'a> {
    data: &'a str,
    mime_type: &'a str,
}

/// Returns how many images and audio clips a result has.
pub(super) fn count(output: &ToolOutput) -> usize {
    media(output).count()
}

fn media(output: &ToolOutput) -> impl Iterator<Item = Media<'_>> {
    output.content.iter().filter_map(|block| match &block.kind {
        ContentKind::Image { data, mime_type } | ContentKind::Audio { data, mime_type } => {
            Some(Media { data, mime_type })
        }
        _ => None,
    })
}

/// Writes the images and audio clips of a result to a directory. No existing file is replaced, and only the user can read
/// the new ones. The size is limited by that of a message.
pub(super) fn save(folder: &Path, tool: &str, output: &ToolOutput) -> Result<Vec<SavedFile>, String> {
    let found = count(output);
    if found > MAX_FILES {
        return Err(format!("the result has {found} images and audio clips, and at most {MAX_FILES} are saved"));
    }
    // All of them are decoded before the first is written.
    let decoded: Result<Vec<_>, _> =
        media(output).map(|media| Ok((media.mime_type, blob::decode(media.data)?))).collect();
    let decoded = decoded.map_err(|error: DecodeError| format!("invalid base64: {error}"))?;
    let unwritable = |path: &Path, error: &io::Error| format!("cannot write {}: {error}", path.display());
    check_links(folder)?;
    if !folder.is_dir() {
        create_private_folder(folder).map_err(|error| unwritable(folder, &error))?;
    }
    let mut saved = Vec::new();
    for (mime_type, bytes) in decoded {
        let file =
            create(folder, &stem(tool), extension(mime_type), &bytes).map_err(|error| unwritable(folder, &error))?;
        saved.push(SavedFile { file, mime_type: mime_type.to_owned(), bytes: bytes.len() });
    }
    Ok(saved)
}

/// Checks that a directory is not reached through a symbolic link, which a repository may contain. The parts of an absolute
/// path before the last one belong to the machine.
fn check_links(folder: &Path) -> Result<(), String> {
    // Without a slash at the end, which would follow the link.
    let folder: PathBuf = folder.components().collect();
    let parts = if folder.is_absolute() { 1 } else { usize::MAX };
    match folder.ancestors().take(parts).find(|part| part.is_symlink()) {
        None => Ok(()),
        Some(link) => Err(format!("{} is a symbolic link; pass the directory that it leads to", link.display())),
    }
}

/// Creates the first file whose name is free: `STEM.png`, `STEM-2.png`, and so on.
fn create(folder: &Path, stem: &str, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in 1..=MAX_NAMES {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{number}.{extension}"));
        match create_private_file(&path, bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{MAX_NAMES} files with this name exist")))
}

/// Returns the name of a tool with nothing in it that means something to a file system or a shell.
fn stem(tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let stem: String = tool.chars().take(MAX_NAME_CHARS).map(plain).collect();
    let stem = stem.trim_matches('-');
    if stem.is_empty() { "result".to_owned() } else { stem.to_owned() }
}

fn extension(mime_type: &str) -> &'static str {
    let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    EXTENSIONS.iter().find(|(known, _)| *known == essence).map_or("bin", |(_, extension)| extension)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use wharf::Json;

    use super::*;

    fn output(blocks: &serde_json::Value) -> ToolOutput {
        ToolOutput::from_json(&Json::from(json!({ "content": blocks }))).unwrap()
    }

    #[test]
    fn a_server_chooses_neither_the_place_nor_the_extension_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let hostile = output(&json!([
            {"type": "image", "data": "aGk=", "mimeType": "image/PNG; q=1"},
            {"type": "text", "text": "not saved"},
            {"type": "image", "data": "aGk", "mimeType": "image/../../../etc/passwd"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/mpeg"},
        ]));
        let saved = save(&folder, "../a b/;$(x)", &hostile).unwrap();
        let names: Vec<_> =
            saved.iter().map(|saved| saved.file.strip_prefix(&folder).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a-b----x.png", "a-b----x.bin", "a-b----x.mp3"]);
        assert_eq!(std::fs::read(&saved[0].file).unwrap(), b"hi");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&saved[0].file)), (0o700, 0o600));
        assert_eq!([stem(""), stem("--"), stem(&"x".repeat(999))].map(|stem| stem.len()), [6, 6, MAX_NAME_CHARS]);
    }

    #[test]
    fn no_file_is_replaced_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("t.png"), "mine").unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path("t-2.png")).unwrap();
        let image = || output(&json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]));
        assert_eq!(save(folder.path(), "t", &image()).unwrap()[0].file, path("t-3.png"));
        assert_eq!((std::fs::read(path("t.png")).unwrap(), path("elsewhere").exists()), (b"mine".to_vec(), false));
    }

    #[test]
    fn a_directory_behind_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.path().join("link")).unwrap();
        let image = output(&json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]));
        for path in ["link", "link/", "link/."] {
            let refused = save(&folder.path().join(path), "t", &image).unwrap_err();
            assert!(refused.ends_with("is a symbolic link; pass the directory that it leads to"), "{refused}");
        }
        std::env::set_current_dir(folder.path()).unwrap();
        assert!(save(Path::new("link/new"), "t", &image).is_err());
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
        assert!(save(Path::new("elsewhere/new"), "t", &image).is_ok());
    }

    #[test]
    fn nothing_is_written_if_one_part_is_invalid_or_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
        let invalid = output(&json!([image("aGk="), image("?")]));
        assert!(save(folder.path(), "t", &invalid).unwrap_err().starts_with("invalid base64"));
        let many = output(&vec![image("aGk="); MAX_FILES + 1].into());
        assert!(save(folder.path(), "t", &many).unwrap_err().contains("at most 32 are saved"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
