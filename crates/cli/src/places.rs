//! Where this program keeps things. Only the binary knows a home folder.

use std::path::PathBuf;

/// The file with what is remembered of servers; none where there is no home. Losing it costs time, nothing else.
pub(crate) fn memory() -> Option<PathBuf> {
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("wharf").join("servers.json"))
}

/// A folder that a variable names; one that is not absolute means nothing, as the XDG specification has it.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
