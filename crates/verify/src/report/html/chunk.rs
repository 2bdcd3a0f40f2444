//! Chunks: compressed JSON in elements that a browser neither executes nor shows.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::deflate::compress_to_vec_zlib;
use serde::Serialize;

/// A compromise: higher levels take much longer for a few percent.
const COMPRESSION_LEVEL: u8 = 7;

/// What a chunk contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    Details,
    Texts,
    Rows,
    Overview,
}

impl ChunkKind {
    fn name(self) -> &'static str {
        match self {
            Self::Details => "details",
            Self::Texts => "texts",
            Self::Rows => "rows",
            Self::Overview => "overview",
        }
    }

    /// Returns the number of units of a full chunk.
    fn max_units(self) -> u64 {
        match self {
            Self::Details => 64,
            Self::Texts => 512,
            Self::Rows | Self::Overview => 4_096,
        }
    }

    /// Returns the size of a full chunk before compression. The browser decompresses a chunk at once.
    fn max_bytes(self) -> usize {
        match self {
            Self::Details => 512 * 1024,
            Self::Texts | Self::Rows | Self::Overview => 1024 * 1024,
        }
    }
}

/// A list of JSON values that is written chunk by chunk.
pub(super) struct ChunkList {
    kind: ChunkKind,
    /// The open chunk: a JSON list without its end.
    open: String,
    /// Number of the first unit of the open chunk.
    first: u64,
    units: u64,
}

impl ChunkList {
    pub(super) fn new(kind: ChunkKind) -> Self {
        Self { kind, open: String::new(), first: 0, units: 0 }
    }

    /// Adds a value, and writes the chunk if it is full.
    pub(super) fn push(&mut self, out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
        self.open.push(if self.units == 0 { '[' } else { ',' });
        self.open.push_str(&serde_json::to_string(value)?);
        self.units += 1;
        if self.units >= self.kind.max_units() || self.open.len() >= self.kind.max_bytes() {
            self.flush(out)?;
        }
        Ok(())
    }

    /// Writes the open chunk, unless it is empty.
    pub(super) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.units == 0 {
            return Ok(());
        }
        self.open.push(']');
        write(out, self.kind, &self.open, (self.first, self.units))?;
        self.first += self.units;
        self.units = 0;
        // A chunk with one huge unit must not keep its memory.
        self.open = String::new();
        Ok(())
    }
}

/// Writes one chunk: the number of its first unit and the number of its units are attributes.
pub(super) fn write(out: &mut impl Write, kind: ChunkKind, json: &str, (first, units): (u64, u64)) -> io::Result<()> {
    let data = STANDARD.encode(compress_to_vec_zlib(json.as_bytes(), COMPRESSION_LEVEL));
    let kind = kind.name();
    writeln!(
        out,
        r#"<script type="text/plain" data-chunk="{kind}" data-first="{first}" data-units="{units}">{data}</script>"#
    )
}
