//! Reading a benchmark file.

use std::path::Path;

use wharf::config::{Problem, Severity};
use wharf::verify::Benchmark;

use crate::error::{UsageError, usage_error};
use crate::models::choose::read_file_up_to;
use crate::term;

/// Reads a benchmark. Prints every problem of the file.
pub(crate) fn read(file: &Path) -> Result<Benchmark, UsageError> {
    parse(&read_file_up_to(file, Benchmark::MAX_FILE_BYTES as u64)?, file)
}

/// Parses a benchmark. `file` names it in problems, and its extension decides about the format.
pub(crate) fn parse(text: &str, file: &Path) -> Result<Benchmark, UsageError> {
    Benchmark::parse(text, file).map_err(|invalid| {
        for found in &invalid.problems {
            let problem = Problem::of_file(Severity::Error, file, &found.message);
            let problem = Problem { line: found.line, path: found.path.clone(), hint: found.hint.clone(), ..problem };
            term::problem(&problem);
        }
        usage_error(format!("{} is not a valid benchmark", file.display()), None)
    })
}
