//! The faults that a connection can have.

use std::time::Duration;

/// Number of random bytes that [`NetworkFault::GarbageAfter`] sends.
const GARBAGE_BYTES: usize = 64 * 1024;

/// A fault of a connection. Bytes are counted as they reach the client, unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub enum NetworkFault {
    /// No fault.
    #[default]
    None,
    /// Delivers everything in chunks of this many bytes.
    Slice(usize),
    /// Delivers everything byte by byte, with this delay before each.
    Drip(Duration),
    /// Delivers nothing after this many bytes; the connection stays open.
    StallAfter(usize),
    /// Closes the server's side cleanly after this many bytes; still reads from the client.
    HalfCloseAfter(usize),
    /// Resets the connection after this many bytes.
    ResetAfter(usize),
    /// Resets the connection after this many bytes from the client.
    ResetAfterReceiving(usize),
    /// Sends 64 KiB of garbage after this many bytes, then closes.
    GarbageAfter(usize),
    /// Resets the connection immediately.
    Refuse,
}

impl NetworkFault {
    /// Returns how many more bytes to deliver unchanged after `sent` bytes.
    pub(super) fn sendable(&self, sent: usize) -> usize {
        match self {
            Self::StallAfter(bytes)
            | Self::HalfCloseAfter(bytes)
            | Self::ResetAfter(bytes)
            | Self::GarbageAfter(bytes) => bytes.saturating_sub(sent),
            Self::Refuse => 0,
            Self::None | Self::Slice(_) | Self::Drip(_) | Self::ResetAfterReceiving(_) => usize::MAX,
        }
    }

    /// Returns how many more bytes to accept from the client after `received` bytes.
    pub(super) fn receivable(&self, received: usize) -> usize {
        match self {
            Self::ResetAfterReceiving(bytes) => bytes.saturating_sub(received),
            Self::Refuse => 0,
            _ => usize::MAX,
        }
    }

    /// Returns the maximum size of one delivered chunk.
    pub(super) fn chunk_bytes(&self) -> usize {
        match self {
            Self::Slice(bytes) => (*bytes).max(1),
            Self::Drip(_) => 1,
            _ => usize::MAX,
        }
    }
}

/// Returns the same pseudorandom bytes every time, so that a failure can be reproduced.
pub(super) fn garbage() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..GARBAGE_BYTES / size_of::<u64>()).flat_map(|_| next()).collect()
}
