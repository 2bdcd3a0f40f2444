//! Outputs that are too long for a model: the beginning is shown, the whole is kept, and a last block says how to go on.

use wharf_protocol::{Content, ContentKind, Json, ResourceBody, ToolOutput, TraceStep};

use super::spill::Spill;
use crate::catalog::Entry;

/// How many characters a token has, about; no model's own count is worth a call to find it out.
pub(super) const CHARACTERS_PER_TOKEN: usize = 4;
/// The longest output where nothing else is said, in tokens.
pub const DEFAULT_OUTPUT_TOKENS: usize = 25_000;

/// The most characters of an output of this tool: what the tool asks for, else what is set for its server, else what the
/// host says, in tokens.
pub(super) fn limit(entry: &Entry, tokens: usize) -> usize {
    let set = || entry.settings.max_output_tokens.unwrap_or(tokens).saturating_mul(CHARACTERS_PER_TOKEN);
    entry.most_characters.unwrap_or_else(set)
}

/// Whether an output is certainly short enough: every character takes a byte at least, so most need no counting.
pub(super) fn fits(output: &ToolOutput, limit: usize) -> bool {
    let text: usize = output.content.iter().filter_map(text_of).map(str::len).sum();
    text <= limit && output.structured.as_ref().is_none_or(|structured| structured.as_str().len() <= limit)
}

/// The output as a model can take it, and what was done for that. Images and whatever else is no text stay.
pub(super) async fn capped(output: ToolOutput, limit: usize, spill: Option<&Spill>) -> (ToolOutput, Vec<TraceStep>) {
    let mut steps = Vec::new();
    let output = cap_text(output, limit, spill, &mut steps).await;
    (cap_structured(output, limit, spill, &mut steps).await, steps)
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
    let kept = keep(spill, whole.join("\n")).await;
    let offset = limit + whole_blocks(&output, limit);
    let mut left = limit;
    output.content = output.content.into_iter().filter_map(|block| shortened(block, &mut left)).collect();
    output.content.push(Content::text(format!(
        "[The text of this output has {from} characters; only the first {limit} are shown. {}]",
        how_to_read(&kept, offset)
    )));
    steps.push(TraceStep::Cut { from, to: limit, kept_as: kept.ok() });
    output.rebuilt()
}

/// How many texts are shown whole; in what is kept, a line feed follows each of them.
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
    let kept = keep(spill, structured.to_string()).await;
    let mut to = 0;
    if output.content.is_empty() {
        // It would have been read as text.
        to = limit;
        output.content.push(Content::text(head(structured.as_str(), limit)));
    }
    output.content.push(Content::text(format!(
        "[The structured content of this output has {from} characters and is left out{}. {}]",
        if to > 0 { " but for its beginning" } else { "" },
        how_to_read(&kept, to)
    )));
    steps.push(TraceStep::Cut { from, to, kept_as: kept.ok() });
    output.rebuilt()
}

async fn keep(spill: Option<&Spill>, text: String) -> Result<String, String> {
    match spill {
        Some(spill) => spill.keep(text).await,
        None => Err("nothing is kept here".to_owned()),
    }
}

fn how_to_read(kept: &Result<String, String>, offset: usize) -> String {
    match kept {
        Ok(id) => format!("Read on with the tool `read_output`: {{\"id\": \"{id}\", \"offset\": {offset}}}."),
        Err(reason) => format!("The rest cannot be read ({reason}); ask for less, if the tool can give less."),
    }
}

/// The text of a block that is text.
fn text_of(block: &Content) -> Option<&str> {
    match &block.kind {
        ContentKind::Text(text) | ContentKind::Resource { body: ResourceBody::Text(text), .. } => Some(text),
        _ => None,
    }
}

/// The block with no more text than is left; `None` for a text of which nothing is left. What a resource is called stays.
fn shortened(block: Content, left: &mut usize) -> Option<Content> {
    let Some(length) = text_of(&block).map(|text| text.chars().count()) else { return Some(block) };
    if length <= *left {
        *left -= length;
        return Some(block);
    }
    let kept = std::mem::take(left);
    match block.kind {
        ContentKind::Text(_) if kept == 0 => None,
        ContentKind::Text(text) => Some(Content::text(head(&text, kept))),
        ContentKind::Resource { uri, mime_type, body: ResourceBody::Text(text) } => {
            let text = head(&text, kept);
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

fn head(text: &str, characters: usize) -> String {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}
