//! `--trace FILE`: every message on the wire, one JSON object per line, appended to a file.
//!
//! Each line has `time`, `server`, `connection` and `direction` (`sent` or `received`), and then one of `message` (the
//! JSON-RPC message as it was sent), `text` (output of a server that is not JSON), or `error` (why no answer arrived).

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use wharf::{Redactor, ServerName, WireContent, WireEvent, WireObserver};

use crate::background::{Background, Job};
use crate::error::{UsageError, usage_error};
use crate::{output_file, term};

/// The size at which a trace ends.
const MAX_TRACE_BYTES: u64 = 1024 * 1024 * 1024;

/// Writes the messages of a fleet. All fleets of the program share one file.
#[derive(Debug)]
struct WireTrace {
    writer: Arc<Background<TraceEntry>>,
    redactor: Redactor,
}

struct TraceEntry {
    time: DateTime<Utc>,
    server: ServerName,
    connection: u64,
    content: TraceContent,
    /// Secrets that become known before the entry is written are redacted too.
    redactor: Redactor,
}

enum TraceContent {
    Sent(Vec<u8>),
    Received(Vec<u8>),
    Failed(String),
}

/// Returns the observer that writes to a file. Opens the file on the first call.
pub(crate) fn observer(path: &Path, redactor: &Redactor) -> Result<Arc<dyn WireObserver>, UsageError> {
    static WRITER: Mutex<Option<Arc<Background<TraceEntry>>>> = Mutex::new(None);
    let mut writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let writer = match &*writer {
        Some(writer) => Arc::clone(writer),
        None => Arc::clone(writer.insert(start(path)?)),
    };
    Ok(Arc::new(WireTrace { writer, redactor: redactor.clone() }))
}

fn start(path: &Path) -> Result<Arc<Background<TraceEntry>>, UsageError> {
    let failed = |error: io::Error| usage_error(format!("cannot write --trace {}: {error}", path.display()), None);
    let (file, written) = open(path).map_err(failed)?;
    let mut trace = TraceFile { path: path.to_owned(), file: BufWriter::new(file), written, is_over: false };
    let background = Background::start("wire-trace", move |job| trace.work(&job));
    background.map(Arc::new).ok_or_else(|| failed(io::Error::other("no thread available")))
}

/// How every line of a trace begins.
const START_OF_LINE: &[u8] = b"{\"time\":";

/// Opens a file to append to. A file that is not a trace is left alone: its name may be a mistake.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut file = output_file::create_or_append(path)?;
    if !file.metadata()?.is_file() {
        return Ok((file, 0));
    }
    let mut first = [0; START_OF_LINE.len()];
    let read = file.read(&mut first)?;
    if read > 0 && first[..read] != START_OF_LINE[..read] {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a trace"));
    }
    let length = file.seek(SeekFrom::End(0))?;
    Ok((file, length))
}

impl WireObserver for WireTrace {
    fn observe(&self, event: &WireEvent<'_>) {
        let (content, bytes) = match event.content {
            WireContent::Sent(text) => (TraceContent::Sent(text.to_vec()), text.len()),
            WireContent::Received(text) => (TraceContent::Received(text.as_bytes().to_vec()), text.len()),
            WireContent::Unreadable { head, .. } => (TraceContent::Received(head.to_vec()), head.len()),
            WireContent::Failed(reason) => (TraceContent::Failed(reason.to_owned()), reason.len()),
        };
        let entry = TraceEntry {
            time: Utc::now(),
            server: event.server.clone(),
            connection: event.connection,
            content,
            redactor: self.redactor.clone(),
        };
        self.writer.push(entry, bytes);
    }
}

#[derive(Serialize)]
struct TraceLine<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
}

impl TraceLine<'_> {
    fn at(time: DateTime<Utc>) -> Self {
        let time = time.to_rfc3339_opts(SecondsFormat::Micros, true);
        Self {
            time,
            server: None,
            connection: None,
            direction: None,
            message: None,
            text: None,
            error: None,
            dropped: None,
        }
    }
}

struct TraceFile {
    path: PathBuf,
    file: BufWriter<File>,
    written: u64,
    /// Whether nothing more is written, because the file is too large or the disk full.
    is_over: bool,
}

impl TraceFile {
    fn work(&mut self, job: &Job<TraceEntry>) {
        let line = match job {
            Job::Idle => {
                let flushed = self.file.flush();
                return self.check(flushed);
            }
            _ if self.is_over => return,
            Job::Dropped(count) => {
                term::warning(&format!("--trace {}: {count} messages are missing", self.path.display()));
                serde_json::to_string(&TraceLine { dropped: Some(*count), ..TraceLine::at(Utc::now()) })
            }
            Job::Write(entry) => line(entry),
        };
        let Ok(mut line) = line else { return };
        line.push('\n');
        self.written += line.len() as u64;
        if self.written > MAX_TRACE_BYTES {
            return self.check(Err(io::Error::other("it has reached 1 GiB")));
        }
        let written = self.file.write_all(line.as_bytes());
        self.check(written);
    }

    /// Ends the trace after an error. The command goes on without it.
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.is_over, true)
        {
            term::warning(&format!("--trace {} ends early: {error}", self.path.display()));
        }
    }
}

fn line(entry: &TraceEntry) -> serde_json::Result<String> {
    let mut line = TraceLine {
        server: Some(entry.server.as_str()),
        connection: Some(entry.connection),
        direction: Some(if matches!(entry.content, TraceContent::Sent(_)) { "sent" } else { "received" }),
        ..TraceLine::at(entry.time)
    };
    let text;
    match &entry.content {
        TraceContent::Sent(bytes) | TraceContent::Received(bytes) => {
            text = String::from_utf8_lossy(bytes);
            match serde_json::from_str::<&RawValue>(text.trim()) {
                Ok(message) => line.message = Some(message),
                Err(_) => line.text = Some(&text),
            }
        }
        TraceContent::Failed(reason) => line.error = Some(reason),
    }
    let json = serde_json::to_string(&line)?;
    // A server's JSON may have line breaks between its values.
    Ok(term::file_json_line(&entry.redactor.redact_json(&json)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::Secret;

    fn written(content: TraceContent) -> String {
        let time = DateTime::from_timestamp(1_700_000_000, 5_000).unwrap();
        let redactor = Redactor::new([Secret::new("s3cr3t-token")]);
        line(&TraceEntry { time, server: "s".parse().unwrap(), connection: 2, content, redactor }).unwrap()
    }

    #[test]
    fn a_line_has_time_server_direction_and_the_message_without_secrets() {
        let sent = TraceContent::Sent(br#"{"id":1,"params":{"key":"s3cr3t-token"}}"#.to_vec());
        assert_eq!(
            written(sent),
            r#"{"time":"2023-11-14T22:13:20.000005Z","server":"s","connection":2,"direction":"sent","message":{"id":1,"params":{"key":"[secret]"}}}"#
        );
        let received = TraceContent::Received(b"{\"id\":\n 1,\r\n\"result\": 1.50 }".to_vec());
        assert!(written(received).ends_with(r#""direction":"received","message":{"id":1,"result":1.50}}"#));
    }

    #[test]
    fn what_is_not_json_is_text_and_cannot_end_the_line() {
        let noise = TraceContent::Received(b"Listening\non \xff \"8080\" s3cr3t-token".to_vec());
        assert!(written(noise).ends_with(r#""text":"Listening\non � \"8080\" [secret]"}"#));
        let failed = TraceContent::Failed("HTTP 401: s3cr3t-token".to_owned());
        assert!(written(failed).ends_with(r#""direction":"received","error":"HTTP 401: [secret]"}"#));
    }
}
