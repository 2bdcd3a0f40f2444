//! The interface between a source of many tools and the ranking that finds them.

use crate::Json;

/// A tool as a ranking sees it.
#[derive(Clone, Copy, Debug)]
pub struct SearchableTool<'a> {
    /// Its own name.
    pub name: &'a str,
    /// The name of its server, if it has one.
    pub server: Option<&'a str>,
    /// Its description for models.
    pub description: &'a str,
    /// The JSON Schema of its arguments.
    pub input_schema: &'a Json,
}

/// Makes indexes of tools.
pub trait ToolRanking: Send + Sync {
    /// Indexes tools. It may take long for thousands of them.
    fn index(&self, tools: &mut dyn Iterator<Item = SearchableTool<'_>>) -> Box<dyn ToolIndex>;
}

/// An index of tools.
pub trait ToolIndex: Send + Sync {
    /// Returns the positions of the tools that match a query, the best first.
    fn search(&self, query: &str, limit: usize) -> Vec<usize>;
}
