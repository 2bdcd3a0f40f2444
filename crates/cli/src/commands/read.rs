//! `wharf read`: a resource, as it is.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use wharf::fleet::ListingError;
use wharf::{CallErrorKind, Json};

use crate::args::Globals;
use crate::complete;
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::render::{self, Transient};
use crate::servers::misuse;
use crate::setup::Which;
use crate::visit::{misused, only, visit};

/// Some servers leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, clap::Args)]
pub(crate) struct Read {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) server: String,
    /// The address of the resource
    pub(crate) uri: String,
    /// Write it to this file; if there are several contents, those after the first to FILE.2, FILE.3 and so on
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,
}

pub(crate) async fn run(globals: &Globals, read: Read) -> Exit {
    let subject = Subject::uri(&read.server, &read.uri);
    visit(globals, Which::One(&read.server), async |fleet| {
        let status = match only(fleet, globals, subject).await {
            Ok(status) => status,
            Err(exit) => return exit,
        };
        let mut doing = Transient::new(globals.quiet);
        doing.show(&format!("reading {}", read.uri));
        let got = fleet.read(&status.name, &read.uri).await;
        drop(doing);
        match got {
            Ok(result) if globals.json => render::json(&Shown { subject, result: &result }).await,
            Ok(result) => put(globals, &read, &result).await,
            Err(ListingError::Call(error)) => {
                let hint = matches!(error.kind, CallErrorKind::Server { .. })
                    .then(|| format!("`wharf resources {}` lists what can be read", read.server));
                Failure { remote: status.transport != "stdio", error: &error, hint }.told(globals, subject).await
            }
            Err(other) => misused(&misuse(other.to_string(), None)),
        }
    })
    .await
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    result: &'a Json,
}

/// What a server answers.
#[derive(Deserialize)]
struct Answer {
    contents: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
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
    /// What it is, in a line.
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
            let what = format!("{}: the content of `{}` makes no sense: {reason}", read.server, read.uri);
            render::error(&what, &[], Some("--json shows the answer as it is"));
            return Exit::Failed;
        }
    };
    if parts.is_empty() && !globals.quiet {
        render::note(&format!("{}: `{}` is empty", read.server, read.uri));
    }
    match &read.out {
        Some(file) => save(globals, file, &parts),
        None => print(globals, read, parts).await,
    }
}

fn parts(result: &Json, uri: &str) -> Result<Vec<Part>, String> {
    let Answer { contents } = result.decode().map_err(|error| error.to_string())?;
    let part = |written: Written| {
        let title = written.uri.unwrap_or_else(|| uri.to_owned());
        let title = written.mime_type.map(|mime| format!("{title} ({mime})")).unwrap_or(title);
        let body = match (written.text, written.blob) {
            (Some(text), _) => Body::Text(text),
            (None, Some(blob)) => {
                let blob: String = blob.split_ascii_whitespace().collect();
                Body::Binary(BASE64.decode(blob).map_err(|error| format!("its `blob` is no base64: {error}"))?)
            }
            (None, None) => return Err("it has neither `text` nor `blob`".to_owned()),
        };
        Ok(Part { title, body })
    };
    contents.into_iter().map(part).collect()
}

/// Text as it is, and bytes where no terminal would act on them.
async fn print(globals: &Globals, read: &Read, parts: Vec<Part>) -> Exit {
    let terminal = std::io::stdout().is_terminal();
    if terminal && let Some(part) = parts.iter().find(|part| matches!(part.body, Body::Binary(_))) {
        let what = format!("{}: {} is no text, and this is a terminal", read.server, part.title);
        return misused(&misuse(what, Some("write it to a file with --out FILE, or to a pipe")));
    }
    let several = parts.len() > 1;
    for Part { title, body } in parts {
        if several && terminal && !globals.quiet {
            render::note(&title);
        }
        let bytes = match body {
            Body::Binary(bytes) => bytes,
            Body::Text(mut text) => {
                // A shell's prompt, or the next content, begins on a line of its own.
                if (terminal || several) && !text.ends_with('\n') {
                    text.push('\n');
                }
                render::for_stdout(text).into_bytes()
            }
        };
        let written = render::exactly(bytes).await;
        if written != Exit::Done {
            return written;
        }
    }
    Exit::Done
}

fn save(globals: &Globals, file: &Path, parts: &[Part]) -> Exit {
    for (number, Part { title, body }) in parts.iter().enumerate() {
        let file = if number == 0 { file.to_owned() } else { numbered(file, number + 1) };
        let bytes = match body {
            Body::Text(text) => text.as_bytes(),
            Body::Binary(bytes) => bytes,
        };
        if let Err(error) = std::fs::write(&file, bytes) {
            render::error(&format!("{} cannot be written: {error}", file.display()), &[], None);
            return Exit::Failed;
        }
        if !globals.quiet {
            render::note(&format!("{}: {} bytes of {title}", file.display(), bytes.len()));
        }
    }
    Exit::Done
}

fn numbered(file: &Path, number: usize) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}
