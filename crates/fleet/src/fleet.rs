//! The fleet: every server in its own task, all of them in one place.

/// Many servers.
pub struct Fleet;
