//! Warns about tools that the model does not get because their definitions are too large.

use wharf::fleet::catalog::{Catalog, CatalogNoteKind};

use crate::term;

/// How many such tools are named.
const MAX_NAMED: usize = 5;

/// Prints a warning for each tool that is left out for its size, and how many more there are.
pub(super) fn warn(catalog: &Catalog) {
    let notes: Vec<_> = catalog.notes().filter(|note| note.kind == CatalogNoteKind::TooLarge).collect();
    for note in notes.iter().take(MAX_NAMED) {
        term::warning(&note.to_string());
    }
    if notes.len() > MAX_NAMED {
        let more = term::counted(notes.len() - MAX_NAMED, "more tool");
        term::warning(&format!("{more} left out because of the size; see `wharf tools`"));
    }
}
