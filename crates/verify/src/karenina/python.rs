//! Reads the declarative part of Python source text. Nothing is executed.
//!
//! The text comes from a file of unknown origin: its size and nesting are limited, and everything but literals, names and
//! calls with literal arguments is reported as not literal.

mod class;
mod expression;
mod lexer;

pub(super) use class::{Class, Module, Statement, module};
pub(super) use expression::Expression;

/// The maximum size of a source text.
const MAX_SOURCE_BYTES: usize = 256 * 1024;

/// Source text that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) reason: &'static str,
}
