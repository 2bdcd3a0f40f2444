//! The two protocol eras.
//!
//! Legacy: up to revision 2025-11-25, a connection starts with a handshake and is a session. Modern: since revision
//! 2026-07-28 every request is self-contained. The API of a session is the same in both.

mod cache;

use std::fmt;
use std::str::FromStr;

use wharf_protocol::{Fields, Json};

pub use cache::EraCache;
pub(crate) use cache::KnownEra;

/// The newest legacy revision, which the handshake requests.
pub(crate) const NEWEST_LEGACY: &str = "2025-11-25";
/// The supported legacy revisions.
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];
/// The supported modern revisions, in order of preference.
pub(crate) const MODERN: [&str; 1] = ["2026-07-28"];

/// The JSON-RPC code for an unknown method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// Codes that only modern servers use.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// The protocol era that a session uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtocolMode {
    /// Detects the era. The result is cached, so that a server is probed only once.
    #[default]
    Auto,
    /// Uses a handshake: revisions 2024-11-05 to 2025-11-25.
    Legacy,
    /// Uses self-contained requests: revision 2026-07-28.
    Modern,
}

impl ProtocolMode {
    /// The configuration names of all modes.
    pub const NAMES: [&'static str; 3] = ["auto", "legacy", "modern"];

    /// The modes that require one era, newest first.
    pub const EACH: [Self; 2] = [Self::Modern, Self::Legacy];

    /// Returns the mode's name in configuration files.
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

/// The error of parsing a [`ProtocolMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid protocol mode {name:?}: expected auto, legacy or modern")]
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

/// Returns the revisions in the data of an [`UNSUPPORTED_VERSION`] error.
pub(crate) fn supported(data: &Json) -> Option<Vec<String>> {
    revisions(data, "supported")
}

/// Returns the strings of an array field.
pub(crate) fn revisions(json: &Json, key: &str) -> Option<Vec<String>> {
    let items = Fields::of(json).ok()?.items(key).ok()??;
    Some(items.iter().filter_map(|item| item.decode().ok()).collect())
}

/// Returns the name of a revision's era.
pub(crate) fn era_of(revision: &str) -> &'static str {
    if MODERN.contains(&revision) { "modern" } else { "legacy" }
}
