//! Caps outputs that are too long for a model: the beginning stays, the whole is stored, and a last block says how to read
//! the rest.

use wharf_protocol::{Content, ContentKind, Json, ResourceBody, ToolOutput, TraceStep};

use super::spill::Spill;
use crate::catalog::Entry;

/// The approximate number of characters per token. An exact count is not worth a request to the model.
const CHARS_PER_TOKEN: usize = 4;
/// A block with a longer URI, name or type is left out.
const MAX_LABEL_BYTES: usize = 8 * 1024;
/// The default output limit, in tokens.
pub const DEFAULT_OUTPUT_TOKENS: usize = 25_000;
/// A larger output is traced as such, in tokens.
const LARGE_OUTPUT_TOKENS: usize = 10_000;

/// The host's limit on outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputLimit {
    /// No limit.
    None,
    /// [`DEFAULT_OUTPUT_TOKENS`], unless a tool requests another limit.
    Default,
    /// The user's limit in tokens. A tool may only request less.
    Tokens(usize),
}

impl OutputLimit {
    /// The limit in characters of a tool that requests none and whose server has none.
    pub(super) fn chars(self) -> usize {
        match self {
            Self::None => usize::MAX,
            Self::Default => DEFAULT_OUTPUT_TOKENS * CHARS_PER_TOKEN,
            Self::Tokens(tokens) => tokens.saturating_mul(CHARS_PER_TOKEN),
        }
    }

    /// Returns the limit of a tool in characters: the user's for its server, or else the host's. What the tool requests
    /// never raises a limit that the user has set.
    pub(super) fn for_tool(self, entry: &Entry) -> Option<usize> {
        if self == Self::None {
            return None;
        }
        let of_server = entry.settings.max_output_tokens.map(|tokens| tokens.saturating_mul(CHARS_PER_TOKEN));
        let by_user = of_server.or_else(|| matches!(self, Self::Tokens(_)).then(|| self.chars()));
        Some(match (by_user, entry.max_output_chars) {
            // The host's own tools are not a server's: what they request is what the host wants.
            (Some(limit), Some(requested)) if entry.server.is_some() => requested.min(limit),
            (Some(_), Some(requested)) => requested,
            (Some(limit), None) => limit,
            (None, requested) => requested.unwrap_or_else(|| self.chars()),
        })
    }
}

/// Whether an output is certainly within the limit. A character takes at least one byte, so most outputs need no count.
pub(super) fn is_within(output: &ToolOutput, limit: usize) -> bool {
    let text: usize = output.content.iter().filter_map(text_of).map(str::len).sum();
    let structured = output.structured.as_ref().map_or(0, |structured| structured.as_str().len());
    text <= limit && structured <= limit && labels_fit(output, limit)
}

/// Whether the URIs, names and types of an output are within the limit. Models that cannot take a block read them as text.
fn labels_fit(output: &ToolOutput, limit: usize) -> bool {
    let labels: usize = output.content.iter().map(label_bytes).sum();
    labels <= limit.max(MAX_LABEL_BYTES) && output.content.iter().all(|block| label_bytes(block) <= MAX_LABEL_BYTES)
}

/// Estimates the tokens of an output that is large; `None` for any other.
pub(super) fn large(output: &ToolOutput) -> Option<usize> {
    if is_within(output, LARGE_OUTPUT_TOKENS * CHARS_PER_TOKEN) {
        return None;
    }
    let text: usize = output.content.iter().filter_map(text_of).map(|text| text.chars().count()).sum();
    let structured = output.structured.as_ref().map_or(0, |structured| structured.as_str().chars().count());
    // Models read the one or the other.
    let tokens = text.max(structured) / CHARS_PER_TOKEN;
    (tokens > LARGE_OUTPUT_TOKENS).then_some(tokens)
}

/// Cuts the texts of an output to the limit, and returns what was done. Images and other content stay.
pub(super) async fn capped(output: ToolOutput, limit: usize, spill: Option<&Spill>) -> (ToolOutput, Vec<TraceStep>) {
    let mut steps = Vec::new();
    let output = cap_labels(output, limit, &mut steps);
    let output = cap_text(output, limit, spill, &mut steps).await;
    (cap_structured(output, limit, spill, &mut steps).await, steps)
}

/// Leaves out blocks whose URIs, names or types are too long.
fn cap_labels(mut output: ToolOutput, limit: usize, steps: &mut Vec<TraceStep>) -> ToolOutput {
    if labels_fit(&output, limit) {
        return output;
    }
    let most = limit.max(MAX_LABEL_BYTES);
    let mut left = most;
    let mut from = 0;
    let before = output.content.len();
    output.content.retain(|block| {
        let bytes = label_bytes(block);
        from += bytes;
        let fits = bytes <= MAX_LABEL_BYTES.min(left);
        if fits {
            left -= bytes;
        }
        fits
    });
    let count = before - output.content.len();
    output.content.push(Content::text(format!("[Left out: {count} blocks whose URI, name or type is too long.]")));
    steps.push(TraceStep::Cut { from, to: most - left, kept_as: None });
    output.rebuilt()
}

/// The length of what describes a block, apart from its content.
fn label_bytes(block: &Content) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match &block.kind {
        ContentKind::Text(_) => 0,
        ContentKind::Image { mime_type, .. } | ContentKind::Audio { mime_type, .. } => mime_type.len(),
        ContentKind::Resource { uri, mime_type, .. } => uri.len() + optional(mime_type),
        ContentKind::Link { uri, name, mime_type } => uri.len() + optional(name) + optional(mime_type),
        ContentKind::Unreadable { reason } => reason.len(),
    }
}

async fn cap_text(
    mut output: ToolOutput,
    limit: usize,
    spill: Option<&Spill>,
    steps: &mut Vec<TraceStep>,
) -> ToolOutput {
    let from: usize = output.content.iter().filter_map(text_of).map(|text| text.chars().count()).sum();
    if from <= limit {
        return output;
    }
    let whole: Vec<&str> = output.content.iter().filter_map(text_of).collect();
    let stored = store(spill, whole.join("\n")).await;
    let offset = limit + whole_blocks(&output, limit);
    let mut left = limit;
    output.content = output.content.into_iter().filter_map(|block| shortened(block, &mut left)).collect();
    output.content.push(Content::text(format!(
        "[The text of this output has {from} characters; only the first {limit} are shown. {}]",
        how_to_read(&stored, offset)
    )));
    steps.push(TraceStep::Cut { from, to: limit, kept_as: stored.ok() });
    output.rebuilt()
}

/// Returns how many texts are shown whole; in the stored text, a line feed follows each of them.
fn whole_blocks(output: &ToolOutput, limit: usize) -> usize {
    let lengths = output.content.iter().filter_map(text_of).map(|text| text.chars().count());
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.take_while(|end| *end <= limit).count()
}

async fn cap_structured(
    mut output: ToolOutput,
    limit: usize,
    spill: Option<&Spill>,
    steps: &mut Vec<TraceStep>,
) -> ToolOutput {
    let Some(structured) = output.structured.take_if(|structured| structured.as_str().len() > limit) else {
        return output;
    };
    let from = structured.as_str().chars().count();
    if from <= limit {
        output.structured = Some(structured);
        return output;
    }
    let stored = store(spill, structured.to_string()).await;
    let mut to = 0;
    if output.content.is_empty() {
        // It would have been shown as text.
        to = limit;
        output.content.push(Content::text(head(structured.as_str(), limit)));
    }
    output.content.push(Content::text(format!(
        "[The structured content of this output has {from} characters and is left out{}. {}]",
        if to > 0 { " except for its beginning" } else { "" },
        how_to_read(&stored, to)
    )));
    steps.push(TraceStep::Cut { from, to, kept_as: stored.ok() });
    output.rebuilt()
}

async fn store(spill: Option<&Spill>, text: String) -> Result<String, String> {
    match spill {
        Some(spill) => spill.store(text).await,
        None => Err("outputs are not stored".to_owned()),
    }
}

fn how_to_read(stored: &Result<String, String>, offset: usize) -> String {
    match stored {
        Ok(id) => format!("Read the rest with the tool `read_output`: {{\"id\": \"{id}\", \"offset\": {offset}}}."),
        Err(reason) => format!("The rest is not available ({reason}). Request less if the tool allows it."),
    }
}

/// Returns the text of a text block.
fn text_of(block: &Content) -> Option<&str> {
    match &block.kind {
        ContentKind::Text(text) | ContentKind::Resource { body: ResourceBody::Text(text), .. } => Some(text),
        _ => None,
    }
}

/// Cuts a block to the characters left; `None` for a text block if none are left. A resource keeps its URI.
fn shortened(block: Content, left: &mut usize) -> Option<Content> {
    let Some(length) = text_of(&block).map(|text| text.chars().count()) else { return Some(block) };
    if length <= *left {
        *left -= length;
        return Some(block);
    }
    let available = std::mem::take(left);
    match block.kind {
        ContentKind::Text(_) if available == 0 => None,
        ContentKind::Text(text) => Some(Content::text(head(&text, available))),
        ContentKind::Resource { uri, mime_type, body: ResourceBody::Text(text) } => {
            let text = head(&text, available);
            let mut resource = serde_json::json!({"uri": uri, "text": text});
            if let Some(mime) = &mime_type {
                resource["mimeType"] = mime.clone().into();
            }
            let raw = Json::from(serde_json::json!({"type": "resource", "resource": resource}));
            Some(Content { kind: ContentKind::Resource { uri, mime_type, body: ResourceBody::Text(text) }, raw })
        }
        kind => Some(Content { kind, raw: block.raw }),
    }
}

fn head(text: &str, chars: usize) -> String {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}
