//! The date, for what outlives the process: tokens and files.

use std::time::SystemTime;

/// Returns the seconds since 1970, or 0 if the clock is set to an earlier time.
///
/// For dates that are stored or come from other machines. Delays and deadlines use `tokio::time::Instant`, because this
/// clock may be set at any time.
#[expect(clippy::disallowed_methods, reason = "a stored date can only be compared with the date")]
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
