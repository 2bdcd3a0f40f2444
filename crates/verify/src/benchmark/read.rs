//! Reading of benchmark files: YAML, JSON, and JSON with one question per line. Every problem of a file is reported.

use std::ffi::OsStr;
use std::path::Path as FilePath;

use serde_json::{Map, Value};
use wharf_agent::yaml::{Document, Error, NodeRef};

use super::notation::{BENCHMARK, HEADER, QUESTION};
use super::validate::{Draft, validate};
use super::{Benchmark, InvalidBenchmark};
use crate::problem::{Path, Place, Problem, Segment};
use crate::shape::Shape;
use crate::shape::read::{Reader, line_of};

/// The maximum number of questions.
pub(super) const MAX_QUESTIONS: usize = 100_000;
/// The maximum number of values of one document. A larger benchmark has one question per line.
const MAX_DOCUMENT_VALUES: usize = 2_000_000;
/// The maximum number of values of a file, with those that aliases repeat.
const MAX_FILE_VALUES: usize = 3_000_000;

impl Benchmark {
    /// The maximum size of a file.
    pub const MAX_FILE_BYTES: usize = 32 * 1024 * 1024;

    /// Reads a benchmark. The extension of the file decides about the format: `.jsonl` and `.ndjson` have one JSON object
    /// per line, everything else is YAML or JSON. Without a `name` in the file, its stem is the benchmark's name.
    ///
    /// In a file with one object per line, the first may be a header: a benchmark without questions.
    ///
    /// # Errors
    /// Returns all problems of the file.
    pub fn parse(text: &str, file: &FilePath) -> Result<Self, InvalidBenchmark> {
        if text.len() > Self::MAX_FILE_BYTES {
            let message = format!("the file is larger than {} MiB", Self::MAX_FILE_BYTES / 1024 / 1024);
            return Err(whole_file(message, "split it into several benchmarks"));
        }
        let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or("benchmark");
        let has_lines = file.extension().and_then(OsStr::to_str).is_some_and(is_line_format);
        let (draft, mut reader) = if has_lines { read_lines(text, stem) } else { read_document(text, stem)? };
        let benchmark = validate(draft, &mut reader);
        let problems = reader.into_problems();
        match benchmark {
            Some(benchmark) if problems.is_empty() => Ok(benchmark),
            _ => Err(InvalidBenchmark { problems }),
        }
    }
}

fn is_line_format(extension: &str) -> bool {
    ["jsonl", "ndjson"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

fn whole_file(message: impl Into<String>, hint: &str) -> InvalidBenchmark {
    let hint = Some(hint.to_owned());
    InvalidBenchmark { problems: vec![Problem { line: 0, path: String::new(), message: message.into(), hint }] }
}

fn invalid_text(error: &Error) -> InvalidBenchmark {
    let line = error.line().unwrap_or_default();
    let problem = Problem { line, path: String::new(), message: error.message().to_owned(), hint: None };
    InvalidBenchmark { problems: vec![problem] }
}

fn read_document(text: &str, stem: &str) -> Result<(Draft, Reader), InvalidBenchmark> {
    let document = Document::parse(text, MAX_DOCUMENT_VALUES).map_err(|error| invalid_text(&error))?;
    let mut reader = Reader::new(MAX_FILE_VALUES);
    let root = document.root();
    let value = reader.read(root, &Shape::Object(&BENCHMARK), &Place::Root(&Path::default()));
    let mut header = into_map(value);
    let questions = match header.remove("questions") {
        Some(Value::Array(questions)) => questions,
        _ => Vec::new(),
    };
    header.entry("name").or_insert_with(|| stem.into());
    let lines = Box::new(move |path: &Path| line_of(document.root(), path));
    Ok((Draft { header, questions, lines }, reader))
}

/// Reads a file with one object per line. Empty lines are skipped.
fn read_lines(text: &str, stem: &str) -> (Draft, Reader) {
    let mut reader = Reader::new(MAX_FILE_VALUES);
    let mut header = Map::new();
    let mut header_line = 0;
    let mut questions = Vec::new();
    let mut question_lines: Vec<usize> = Vec::new();
    let mut is_readable = true;
    let root = Path::default();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (position, (index, line)) in lines.enumerate() {
        if questions.len() == MAX_QUESTIONS {
            let message = format!("the file has more than {MAX_QUESTIONS} questions");
            reader.report(index + 1, &root, message, None);
            break;
        }
        reader.line_offset = index;
        let document = match Document::parse(line, MAX_DOCUMENT_VALUES) {
            Ok(document) => document,
            Err(error) => {
                reader.report(error.line().unwrap_or(1), &root, error.message(), None);
                is_readable = false;
                continue;
            }
        };
        if position == 0 && is_header(document.root()) {
            header_line = index + 1;
            header = into_map(reader.read(document.root(), &Shape::Object(&HEADER), &Place::Root(&root)));
        } else {
            let path = root.key("questions").index(questions.len());
            questions.push(reader.read(document.root(), &Shape::Object(&QUESTION), &Place::Root(&path)));
            question_lines.push(index + 1);
        }
    }
    reader.line_offset = 0;
    if questions.is_empty() && is_readable {
        reader.report(header_line, &root.key("questions"), "the file has no questions", None);
    }
    header.entry("name").or_insert_with(|| stem.into());
    let lines = Box::new(move |path: &Path| match path.segments() {
        [Segment::Key(key), Segment::Index(index), ..] if key == "questions" => {
            question_lines.get(*index).copied().unwrap_or_default()
        }
        _ => header_line,
    });
    (Draft { header, questions, lines }, reader)
}

/// Returns whether the first object of a file is not a question.
fn is_header(node: NodeRef<'_>) -> bool {
    !node.entries().any(|(key, ..)| key == "question" || key == "id")
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
