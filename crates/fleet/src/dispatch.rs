//! How one call is carried out.

/// Carries out calls.
pub struct Dispatcher;
