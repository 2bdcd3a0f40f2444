//! The two eras of the protocol, and which of them a server speaks.
//!
//! Until 2025-11-25 a connection begins with a handshake and is a session. From 2026-07-28 on there is neither: every
//! request says by itself what it needs. Everything above a session sees the same in both.

mod memory;

use std::fmt;
use std::str::FromStr;

use wharf_protocol::{Fields, Json};

pub use memory::EraCache;
pub(crate) use memory::Verdict;

/// The newest revision with a handshake; what we ask for.
pub(crate) const NEWEST_LEGACY: &str = "2025-11-25";
/// The revisions with a handshake that we speak.
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];
/// The revisions without one that we speak, the one we like best first.
pub(crate) const MODERN: [&str; 1] = ["2026-07-28"];

/// What a server says that has never heard of what it is asked.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The codes that only a server of the modern era uses.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// Which era of the protocol is spoken with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtocolMode {
    /// What the server speaks: it is asked once, in a way that costs an old server nothing, and its answer is remembered.
    #[default]
    Auto,
    /// With a handshake: the revisions from 2024-11-05 to 2025-11-25.
    Legacy,
    /// Without: 2026-07-28.
    Modern,
}

impl ProtocolMode {
    /// All of them, by the names they are configured with.
    pub const NAMES: [&'static str; 3] = ["auto", "legacy", "modern"];

    /// Each era for itself, the newest first.
    pub const EACH: [Self; 2] = [Self::Modern, Self::Legacy];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl fmt::Display for ProtocolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of [`ProtocolMode::NAMES`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no way to speak with a server; there are {}", ProtocolMode::NAMES.join(", "))]
pub struct InvalidProtocolMode {
    name: String,
}

impl FromStr for ProtocolMode {
    type Err = InvalidProtocolMode;

    fn from_str(name: &str) -> Result<Self, InvalidProtocolMode> {
        let known = [Self::Auto, Self::Legacy, Self::Modern].into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| InvalidProtocolMode { name: name.to_owned() })
    }
}

/// The revisions that a refusal with [`UNSUPPORTED_VERSION`] names in its data.
pub(crate) fn supported(data: &Json) -> Option<Vec<String>> {
    revisions(data, "supported")
}

/// The texts of an array in an object.
pub(crate) fn revisions(json: &Json, key: &str) -> Option<Vec<String>> {
    let items = Fields::of(json).ok()?.items(key).ok()??;
    Some(items.iter().filter_map(|item| item.decode().ok()).collect())
}

/// The era of a revision, in a word.
pub(crate) fn era_of(revision: &str) -> &'static str {
    if MODERN.contains(&revision) { "modern" } else { "legacy" }
}
