//! Names of tools as models take them.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::{AgentTool, ToolMetadata};

/// The longest name.
const LONGEST: usize = 64;

/// A name with `_` for white space and without what models do not take.
pub(super) fn sanitised(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut plain: String = words.join("_").chars().filter(allowed).collect();
    plain.truncate(LONGEST);
    if plain.is_empty() { "tool".to_owned() } else { plain }
}

/// Gives tools that would share a name a digest each of what they are, so that the order they come in does not matter. A
/// name that is the server's own and nobody else's stays.
pub(super) fn make_distinct(tools: &mut [AgentTool]) {
    let mut digits = 8;
    while digits <= 32 {
        let mut shared: HashMap<String, usize> = HashMap::new();
        for tool in &*tools {
            *shared.entry(tool.name.clone()).or_default() += 1;
        }
        if shared.values().all(|count| *count == 1) {
            return;
        }
        let mut alike: HashMap<ToolMetadata, usize> = HashMap::new();
        let mut own: HashMap<String, usize> = HashMap::new();
        for tool in tools.iter().filter(|tool| tool.name == tool.metadata.display_name) {
            *own.entry(tool.name.clone()).or_default() += 1;
        }
        let stays = |tool: &AgentTool| tool.name == tool.metadata.display_name && own[&tool.name] == 1;
        for tool in tools.iter_mut().filter(|tool| shared[&tool.name] > 1 && !stays(tool)) {
            // A tool that is defined twice is told apart by which of the two it is.
            let which = alike.entry(tool.metadata.clone()).or_default();
            let digest = digest(&tool.metadata, *which, digits);
            *which += 1;
            let mut name = sanitised(&tool.metadata.display_name);
            name.truncate(LONGEST - digits - 1);
            tool.name = format!("{name}_{digest}");
        }
        // A name may happen to look like another's with its digest.
        digits *= 2;
    }
}

fn digest(of: &ToolMetadata, which: usize, digits: usize) -> String {
    let mut hash = Sha256::new();
    for part in [&of.folder_path, &of.slug, &of.display_name, &which.to_string()] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    text
}
