//! `wharf read`: read a resource.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use wharf::fleet::{Fleet, ListingError};
use wharf::{CallErrorKind, Json};

use crate::config::ServerSelection;
use crate::error::usage_error;
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::globals::Globals;
use crate::term::{self, StatusLine};
use crate::{blob, complete, one_shot, output_file};

#[derive(Debug, clap::Args)]
#[command(after_help = "Binary content is written only to a file or a pipe.\n\n\
        Examples:\n  wharf read docs file:///readme.md\n  wharf read docs file:///logo.png --out logo.png")]
pub(crate) struct Read {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: String,
    /// Resource URI
    #[arg(add = ArgValueCandidates::new(complete::resources))]
    uri: String,
    /// Write to FILE; further contents go to FILE.2, FILE.3 and so on
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "json")]
    out: Option<PathBuf>,
}

pub(crate) async fn run(globals: &Globals, read: Read) -> Exit {
    let selection = ServerSelection::One(&read.server);
    one_shot::run(globals, selection, async |fleet| read_from(fleet, globals, &read).await).await
}

impl Read {
    /// Returns the arguments for printing a resource.
    pub(super) fn of(server: &str, uri: &str) -> Self {
        Self { server: server.to_owned(), uri: uri.to_owned(), out: None }
    }
}

/// Reads a resource of the only server of a fleet.
pub(super) async fn read_from(fleet: &Fleet, globals: &Globals, read: &Read) -> Exit {
    let subject = Subject::uri(&read.server, &read.uri);
    let status = match one_shot::connected_server(fleet, globals, subject).await {
        Ok(status) => status,
        Err(exit) => return exit,
    };
    let progress = StatusLine::new(globals.quiet);
    progress.show(&format!("reading {}", read.uri));
    let result = fleet.read(&status.name, &read.uri).await;
    drop(progress);
    match result {
        Ok(result) if globals.json => {
            term::redacted_json(&JsonResource { subject, result: &result }, &fleet.redactor()).await
        }
        Ok(result) => put(globals, read, &result).await,
        Err(ListingError::Call(error)) => {
            let hint = matches!(error.kind, CallErrorKind::Server { .. })
                .then(|| format!("list resources: wharf resources {}", read.server));
            let (remote, redactor) = (status.transport.is_remote(), fleet.redactor());
            Failure { remote, error: &error, hint, redactor }.report(globals, subject).await
        }
        Err(other) => term::usage_error(&usage_error(other.to_string(), None)),
    }
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonResource<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    result: &'a Json,
}

/// The result of `resources/read`, as far as it is printed.
#[derive(Deserialize)]
struct ReadResult {
    contents: Vec<RawContent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContent {
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blob: Option<String>,
}

struct Part {
    /// Its URI and media type.
    title: String,
    body: Body,
}

enum Body {
    Text(String),
    Binary(Vec<u8>),
}

async fn put(globals: &Globals, read: &Read, result: &Json) -> Exit {
    let parts = match parts(result, &read.uri) {
        Ok(parts) => parts,
        Err(reason) => {
            let message = format!("{}: malformed content of `{}`: {reason}", read.server, read.uri);
            term::error(&message, &[], Some("print the result with --json"));
            return Exit::Failed;
        }
    };
    if parts.is_empty() && !globals.quiet {
        term::note(&format!("{}: `{}` is empty", read.server, read.uri));
    }
    match &read.out {
        Some(file) => save(globals, file, &parts),
        None => print(globals, read, parts).await,
    }
}

fn parts(result: &Json, uri: &str) -> Result<Vec<Part>, String> {
    let ReadResult { contents } = result.decode().map_err(|error| error.to_string())?;
    let part = |raw: RawContent| {
        let title = raw.uri.unwrap_or_else(|| uri.to_owned());
        let title = raw.mime_type.map(|mime| format!("{title} ({mime})")).unwrap_or(title);
        let body = match (raw.text, raw.blob) {
            (Some(text), _) => Body::Text(text),
            (None, Some(text)) => {
                let invalid = |error| format!("invalid base64 in `blob`: {error}");
                Body::Binary(blob::decode(&text).map_err(invalid)?)
            }
            (None, None) => return Err("neither `text` nor `blob`".to_owned()),
        };
        Ok(Part { title, body })
    };
    contents.into_iter().map(part).collect()
}

/// Prints contents to stdout: text unchanged, and bytes unless stdout is a terminal.
async fn print(globals: &Globals, read: &Read, parts: Vec<Part>) -> Exit {
    let terminal = std::io::stdout().is_terminal();
    if terminal && let Some(part) = parts.iter().find(|part| matches!(part.body, Body::Binary(_))) {
        let message = format!("{}: {} is binary, and stdout is a terminal", read.server, part.title);
        return term::usage_error(&usage_error(message, Some("write it to a file with --out FILE, or to a pipe")));
    }
    let several = parts.len() > 1;
    for Part { title, body } in parts {
        if several && terminal && !globals.quiet {
            term::note(&title);
        }
        let bytes = match body {
            Body::Binary(bytes) => bytes,
            Body::Text(mut text) => {
                // The shell's prompt, or the next content, begins a new line.
                if (terminal || several) && !text.ends_with('\n') {
                    text.push('\n');
                }
                term::for_stdout(text).into_bytes()
            }
        };
        let written = term::exactly(bytes).await;
        if written != Exit::Done {
            return written;
        }
    }
    Exit::Done
}

/// How many files `--out` creates. The server decides how many contents a resource has.
const MAX_FILES: usize = 32;

/// Writes each content to a file. The user named only the first one, so no other existing file is replaced.
fn save(globals: &Globals, file: &Path, parts: &[Part]) -> Exit {
    if parts.len() > MAX_FILES {
        let message = format!(
            "cannot write {}: the resource has {} contents, and --out writes at most {MAX_FILES}",
            file.display(),
            parts.len()
        );
        term::error(&message, &[], Some("print them with --json, or without --out"));
        return Exit::Failed;
    }
    let files: Vec<PathBuf> =
        (0..parts.len()).map(|index| if index == 0 { file.to_owned() } else { numbered(file, index + 1) }).collect();
    if let Some(existing) = files.iter().skip(1).find(|file| file.symlink_metadata().is_ok()) {
        let message =
            format!("cannot write {}: it exists, and the resource has {} contents", existing.display(), parts.len());
        term::error(&message, &[], Some("delete it, or choose another name with --out"));
        return Exit::Failed;
    }
    for (index, (file, Part { title, body })) in files.iter().zip(parts).enumerate() {
        let bytes = match body {
            Body::Text(text) => text.as_bytes(),
            Body::Binary(bytes) => bytes,
        };
        let opened = if index == 0 { output_file::create_or_open(file) } else { output_file::create(file) };
        let written = opened.and_then(|mut opened| {
            output_file::truncate(&opened)?;
            opened.write_all(bytes)
        });
        if let Err(error) = written {
            term::error(&format!("cannot write {}: {error}", file.display()), &[], None);
            return Exit::Failed;
        }
        if !globals.quiet {
            term::note(&format!("{}: {} bytes of {title}", file.display(), bytes.len()));
        }
    }
    Exit::Done
}

fn numbered(file: &Path, number: usize) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}
