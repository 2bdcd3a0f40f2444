//! What a command says about a call, in the shapes that hooks are written in.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::{Content, Json, ToolOutput};

use crate::dispatch::hooks::{AfterCall, BeforeCall, CallChanges};

/// A command's verdict, read.
pub(super) struct Verdict(Said);

/// What hosts understand, at the top or in `hookSpecificOutput`; everything else is passed over.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    decision: Option<String>,
    reason: Option<String>,
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Json>,
    additional_context: Option<String>,
    updated_tool_output: Option<Json>,
    hook_specific_output: Option<Box<Said>>,
}

impl Verdict {
    /// Reads what a command wrote to its stdout; an error says what it did, as the end of a sentence.
    pub(super) fn read(said: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(said).map_err(|_| "said something that is no text")?.trim();
        if text.is_empty() {
            return Ok(Self(Said::default()));
        }
        // An array would be read as the fields in their order.
        if !text.starts_with('{') {
            return Err("said something that is no JSON object".to_owned());
        }
        let garbage = |error: serde_json::Error| format!("said something that is no verdict: {error}");
        let mut said: Said = serde_json::from_str(text).map_err(garbage)?;
        if let Some(inner) = said.hook_specific_output.take() {
            said.permission_decision = inner.permission_decision.or(said.permission_decision);
            said.permission_decision_reason = inner.permission_decision_reason.or(said.permission_decision_reason);
            said.updated_input = inner.updated_input.or(said.updated_input);
            said.additional_context = inner.additional_context.or(said.additional_context);
            said.updated_tool_output = inner.updated_tool_output.or(said.updated_tool_output);
        }
        Ok(Self(said))
    }

    /// It ended with the status that blocks.
    pub(super) fn blocked(reason: String) -> Self {
        Self(Said { decision: Some("block".to_owned()), reason: Some(reason), ..Said::default() })
    }

    pub(super) fn before(self) -> Result<BeforeCall, String> {
        if let Some(reason) = self.stops()? {
            return Ok(BeforeCall::Block(reason));
        }
        let said = self.0;
        let changes = CallChanges { arguments: said.updated_input, words: said.additional_context };
        let reason = said.permission_decision_reason.or(said.reason);
        match said.permission_decision.as_deref().or(said.decision.as_deref()) {
            None => Ok(BeforeCall::Proceed(changes)),
            Some("allow" | "approve") => Ok(BeforeCall::Allow(changes)),
            Some("ask") => Ok(BeforeCall::Ask(reason.unwrap_or_else(|| "a hook wants that".to_owned()), changes)),
            Some("deny") => Ok(BeforeCall::Block(reason.unwrap_or_else(no_reason))),
            Some(other) => Err(format!("decided `{other}`, which means nothing; it can allow, deny, ask or block")),
        }
    }

    pub(super) fn after(self, output: &ToolOutput) -> Result<AfterCall, String> {
        if let Some(reason) = self.stops()? {
            return Ok(AfterCall::Block(reason));
        }
        let Said { updated_tool_output, additional_context, .. } = self.0;
        match (updated_tool_output, additional_context) {
            (None, None) => Ok(AfterCall::Keep),
            (None, Some(words)) => Ok(AfterCall::Annotate(words)),
            (Some(updated), words) => {
                let mut replaced = as_output(&updated, output)?;
                replaced.content.extend(words.map(Content::text));
                Ok(AfterCall::Replace(replaced.rebuilt()))
            }
        }
    }

    /// Why everything ends here, if it does.
    fn stops(&self) -> Result<Option<String>, String> {
        let said = &self.0;
        let reason = |words: &Option<String>| Some(words.clone().unwrap_or_else(no_reason));
        match said.decision.as_deref() {
            Some("block") => return Ok(reason(&said.reason)),
            None | Some("approve" | "allow" | "ask" | "deny") => {}
            Some(other) => return Err(format!("decided `{other}`, which means nothing; it can block")),
        }
        if said.r#continue == Some(false) { Ok(reason(&said.stop_reason)) } else { Ok(None) }
    }
}

/// Another output: a whole result, a text, or any other value.
fn as_output(updated: &Json, output: &ToolOutput) -> Result<ToolOutput, String> {
    match updated.to_value().map_err(|error| format!("said something that cannot be read: {error}"))? {
        Value::String(text) => Ok(ToolOutput { is_error: output.is_error, ..ToolOutput::said(text) }),
        Value::Object(fields) if fields.contains_key("content") || fields.contains_key("structuredContent") => {
            ToolOutput::from_json(updated).map_err(|reason| format!("said an output that {reason}"))
        }
        other => Ok(ToolOutput { is_error: output.is_error, ..ToolOutput::said(other.to_string()) }),
    }
}

fn no_reason() -> String {
    "it gave no reason".to_owned()
}
