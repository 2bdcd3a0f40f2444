//! Models by name or from a model file, and what a file of models or a benchmark may do.

pub(crate) mod choose;
pub(crate) mod file;
pub(crate) mod timeouts;
pub(crate) mod trust;
