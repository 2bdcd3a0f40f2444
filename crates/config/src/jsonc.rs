//! Reads JSON files with comments and trailing commas.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jsonc_parser::ParseOptions;

use crate::problem::{Problem, Severity};

/// Maximum size of a file. Real files are a hundredth of it; a project must not exhaust the memory.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the parser options: JSON, comments and trailing commas, and no other extension.
pub(crate) fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Reads the text of a file; returns `None` if the file does not exist.
///
/// Reads at most [`MAX_FILE_BYTES`], and only regular files: reading a pipe would block.
pub(crate) fn read_file(file: &Path) -> Result<Option<String>, Box<Problem>> {
    let unreadable = |message: String| Box::new(Problem::of_file(Severity::Error, file, message));
    let bytes = match read_bytes(file) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            // A broken link is not a missing file: its author meant something by it.
            return match file.symlink_metadata() {
                Ok(_) => Err(unreadable("broken symbolic link".into())),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(unreadable(format!("cannot read the file: {error}"))),
    };
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(too_long()));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.split(|byte| *byte == b'\n').count();
        let problem = Problem::of_file(Severity::Error, file, "invalid UTF-8").with_hint("save the file as UTF-8");
        Box::new(Problem { line, ..problem })
    })
}

/// Returns the message for a file that exceeds [`MAX_FILE_BYTES`].
pub(crate) fn too_long() -> String {
    format!("longer than {MAX_FILE_BYTES} bytes")
}

/// Reads at most one byte more than [`MAX_FILE_BYTES`].
fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
