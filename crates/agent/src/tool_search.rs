//! Hundreds of tools: which ones a model is offered at once, and how it finds the others.
//!
//! Definitions of many tools fill the context window. Above a number of tokens the model is offered a search tool instead
//! of most of them, and each tool that it has found from then on.

mod index;
mod offer;
mod words;

pub use index::Bm25;
pub use offer::{OfferedTools, ToolBudget};
