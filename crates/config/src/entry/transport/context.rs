//! What the readers of a transport need.

use std::path::Path;

use crate::cursor::Cursor;
use crate::entry::expander::Expander;
use crate::server::Scope;

/// The entry that is read, and how its strings and paths resolve.
pub(in crate::entry) struct TransportContext<'a> {
    pub(in crate::entry) entry: Cursor<'a>,
    pub(in crate::entry) scope: Scope,
    /// The project directory, which relative paths refer to.
    pub(in crate::entry) base_dir: Option<&'a Path>,
    pub(in crate::entry) expander: Expander<'a>,
}
